"""Files that hold keys: mode 0600 from their first byte, and whole or not there at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Put `data` in the place of what is at `path`, atomically and durably. Its folder must exist."""
    with _written_beside(path, data) as temporary:
        temporary.replace(path)
    _sync_folder(path.parent)


def create_private(path: Path, data: bytes) -> bool:
    """Make `path` with `data` in it, atomically and durably; False, and nothing changed, if it is there already."""
    with _written_beside(path, data) as temporary:
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return False
    _sync_folder(path.parent)
    return True


def make_private_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextlib.contextmanager
def _written_beside(path: Path, data: bytes) -> Iterator[Path]:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # of mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
