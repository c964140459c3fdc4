"""Files that hold keys: private from the first byte, whole or not there at all."""

import stat
from pathlib import Path

import pytest

from aether.adapters.ca.private_file import create_private, make_private_folder, write_private


def test_a_written_file_is_private_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    write_private(path, b"one")
    write_private(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_creating_never_replaces(tmp_path: Path) -> None:
    path = tmp_path / "authority.pem"
    assert create_private(path, b"first")
    assert not create_private(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.mkdir()
    with pytest.raises(OSError, match="taken"):
        write_private(path, b"x")
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_folder_is_the_owners_alone(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    make_private_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
