"""One ordinary process: what to run, its start, its end, and the last lines of its log."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from aether.errors import AetherError


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. `netns` is a network namespace's path ("" for the caller's own); output is appended to `log_path`.

    `env` replaces the environment; None inherits it.
    """

    name: str
    argv: tuple[str, ...]
    log_path: Path
    env: Mapping[str, str] | None = None
    netns: str = ""


class ProgramFailed(AetherError):
    """A program could not be started, or ended at once. The message quotes the end of its log."""

    code = "program-failed"
