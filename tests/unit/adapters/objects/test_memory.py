"""Persistence of the in-memory store; what every store does is in tests/contract/test_objects.py."""

from pathlib import Path
from typing import Any

import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.state import StateFile, StateUnreadable, StorageFailed
from aether.adapters.objects.store import USER
from aether.errors import Diagnostic, Rejected

MAP = ObjectKey("ConfigMap", "shop", "m")


def thing(kind: str, name: str, namespace: str = "", **fields: Any) -> KubeObject:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def shop() -> list[KubeObject]:
    return [thing("Namespace", "shop"), thing("ConfigMap", "m", "shop", data={"a": "1"})]


def refuse_maps(new: KubeObject, old: KubeObject | None) -> KubeObject:
    if new["kind"] == "ConfigMap":
        raise Rejected([Diagnostic(code="no-maps", message="no maps today")])
    return new


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "applied.json"


def content(path: Path) -> bytes:
    return path.read_bytes()


def inode(path: Path) -> int:
    return path.stat().st_ino


def place(path: Path, data: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(data)


def fill_disk(path: Path) -> None:
    """Make the next save of the state at `path` fail, as on a full disk."""
    path.parent.mkdir(exist_ok=True)
    path.with_name(f".{path.name}.new").symlink_to("/dev/full")


async def opened(path: Path, **options: Any) -> MemoryStore:
    store = MemoryStore(clock=ManualClock(), state=StateFile(path), **options)
    await store.load()
    return store


async def test_what_the_user_applied_is_there_after_a_restart(path: Path) -> None:
    await (await opened(path)).apply_all(shop(), USER)

    again = (await opened(path)).get(MAP)

    assert again is not None
    assert again["data"] == {"a": "1"}


async def test_what_controllers_made_is_not(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    await store.apply(thing("ConfigMap", "made", "shop", data={}), "controller")
    await store.apply(thing("ConfigMap", "m", "shop", data={"b": "2"}), "controller")

    again = await opened(path)

    assert again.get(ObjectKey("ConfigMap", "shop", "made")) is None
    assert (again.get(MAP) or {})["data"] == {"a": "1"}


async def test_what_was_deleted_stays_deleted(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    await store.delete(MAP)
    assert (await opened(path)).get(MAP) is None


async def test_a_namespace_takes_what_is_in_it_along_for_good(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    await store.delete(ObjectKey("Namespace", "", "shop"))
    assert (await opened(path)).get(MAP) is None


async def test_a_pod_that_is_still_ending_does_not_come_back(path: Path) -> None:
    store = await opened(path)
    await store.apply(thing("Pod", "p", "default", spec={"nodeName": "n"}), USER)
    await store.delete(ObjectKey("Pod", "default", "p"))
    assert (await opened(path)).get(ObjectKey("Pod", "default", "p")) is None


async def test_revisions_do_not_go_back_over_a_restart(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    before = store.list("Pod")[1]
    assert (await opened(path)).list("Pod")[1] > before


async def test_the_file_is_written_only_when_what_the_user_applied_changes(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    written = inode(path)
    await store.apply_all(shop(), USER)
    await store.apply(thing("ConfigMap", "made", "shop", data={}), "controller")
    await store.update_status(MAP, {"a": "b"})
    assert inode(path) == written


async def test_an_object_that_no_longer_can_be_is_reported_and_kept_in_the_file(path: Path) -> None:
    await (await opened(path)).apply_all(shop(), USER)
    strict = MemoryStore(clock=ManualClock(), state=StateFile(path), admissions=(refuse_maps,))

    (problem,) = await strict.load()
    await strict.apply(thing("Namespace", "other"), USER)

    assert (problem.code, problem.subject, problem.where) == ("rejected", "ConfigMap m", str(path))
    assert strict.get(MAP) is None
    assert (await opened(path)).get(MAP) is not None


async def test_a_disk_that_refuses_changes_nothing(path: Path) -> None:
    store = await opened(path)
    await store.apply_all(shop(), USER)
    saved = content(path)
    fill_disk(path)
    with pytest.raises(StorageFailed, match=r"applied\.json: No space left on device; nothing was changed"):
        await store.apply(thing("ConfigMap", "m", "shop", data={"a": "2"}), USER)

    assert (store.get(MAP) or {})["data"] == {"a": "1"}
    assert content(path) == saved
    fill_disk(path)
    with pytest.raises(StorageFailed):
        await store.delete(MAP)
    assert store.get(MAP) is not None


async def test_the_disk_is_tried_again(path: Path) -> None:
    store = await opened(path)
    fill_disk(path)
    with pytest.raises(StorageFailed):
        await store.apply_all(shop(), USER)
    await store.apply_all(shop(), USER)
    assert (await opened(path)).get(MAP) is not None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version": 9, "revision": 1, "objects": []}'])
async def test_a_file_that_is_none_of_ours_is_not_overwritten(path: Path, data: bytes) -> None:
    place(path, data)
    with pytest.raises(StateUnreadable, match="cannot be read"):
        await opened(path)
    assert content(path) == data
