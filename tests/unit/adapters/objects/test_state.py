from pathlib import Path

import pytest

from aether.adapters.objects.state import StateFile, StateUnreadable, StorageFailed


async def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "deep" / "file.json")
    assert state.load() is None
    await state.save(b"one")
    await state.save(b"two")
    assert state.load() == b"two"
    assert [child.name for child in (tmp_path / "deep").iterdir()] == ["file.json"]


async def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    state = StateFile(tmp_path / "deep" / "file.json")
    await state.save(b"one")
    assert state.path.stat().st_mode & 0o777 == 0o600
    assert state.path.parent.stat().st_mode & 0o777 == 0o700


async def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(StorageFailed, match=r"file/state\.json"):
        await StateFile(tmp_path / "file" / "state.json").save(b"one")


def test_a_path_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnreadable, match="Is a directory"):
        StateFile(tmp_path).load()
