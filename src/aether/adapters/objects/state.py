"""A small file of state that is replaced whole, or not at all."""

import asyncio
import contextlib
import os
from pathlib import Path

from aether.errors import AetherError


class StorageFailed(AetherError):
    """State could not be written; what was on disk before is still there, whole."""

    code = "storage-failed"

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"cannot save {path}: {error.strerror or error}; nothing was changed")


class StateUnreadable(AetherError):
    """State exists and cannot be read. Starting without it would lose it at the next save."""

    code = "state-unreadable"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} cannot be read ({why}); repair it, or move it away to start empty")


class StateFile:
    """The file at `path`, mode 0600. A save writes a sibling, flushes it to the disk and renames it into place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> bytes | None:
        """Its content; None if there is no such file.

        Raises:
            StateUnreadable: there is one, and it cannot be read.
        """
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateUnreadable(self.path, str(error.strerror or error)) from error

    async def save(self, data: bytes) -> None:
        """Replace the content by `data`, durably.

        Raises:
            StorageFailed: nothing was changed.
        """
        try:
            await asyncio.to_thread(self._replace, data)
        except OSError as error:
            raise StorageFailed(self.path, error) from error

    def _replace(self, data: bytes) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        self._flush_directory()

    def _flush_directory(self) -> None:
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
