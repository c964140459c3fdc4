"""The file of what the user applied: its layout, read and written."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aether.adapters.objects.kinds import APPLY_ORDER, KubeObject
from aether.adapters.objects.state import StateUnreadable

_VERSION = 1


class SavedState(msgspec.Struct, frozen=True, kw_only=True):
    """`objects` are the bodies as applied, in the order in which they can be applied again."""

    version: int
    revision: int
    objects: tuple[dict[str, Any], ...]


def write_state(revision: int, objects: Sequence[KubeObject]) -> bytes:
    ordered = sorted(objects, key=lambda body: APPLY_ORDER.get(body.get("kind", ""), len(APPLY_ORDER)))
    saved = SavedState(version=_VERSION, revision=revision, objects=tuple(ordered))
    return msgspec.json.format(msgspec.json.encode(saved), indent=1) + b"\n"


def read_state(data: bytes, path: Path) -> SavedState:
    """The inverse of `write_state`.

    Raises:
        StateUnreadable: it is not such a file.
    """
    try:
        saved = msgspec.json.decode(data, type=SavedState)
    except msgspec.MsgspecError as error:
        raise StateUnreadable(path, str(error)) from error
    if saved.version != _VERSION:
        raise StateUnreadable(path, f"its layout has version {saved.version}, this program knows {_VERSION}")
    return saved
