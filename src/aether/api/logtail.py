"""Read a container's log: the last lines, then what is appended.

The writer renames a full log to ``NAME.1`` and begins a new one; a reader that follows reads the old file to its end
first, so no line is lost unless it falls behind by two whole files.
"""

import contextlib
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from aether.adapters.clock import Clock

POLL_S = 0.1
CHUNK_BYTES = 64 * 1024


async def tail_log(
    path: Path, *, lines: int | None, is_following: Callable[[], bool] | None, clock: Clock
) -> AsyncIterator[bytes]:
    """The last `lines` lines (None: all that is kept, older file first), then what comes while `is_following()`.

    A log that does not exist yet is empty. `is_following` None reads to the end once.
    """
    with contextlib.ExitStack() as files:
        current = _open(path, files)
        for chunk in _backlog(path, current, lines):
            yield chunk
        while is_following is not None and is_following():
            await clock.sleep(POLL_S)
            if current is None:
                current = _open(path, files)
            while current is not None and (chunk := current.read(CHUNK_BYTES)):
                yield chunk
            if current is not None and _is_replaced(path, current):
                if chunk := current.read():  # written between the last read and the renaming
                    yield chunk
                current = _open(path, files)


def _backlog(path: Path, current: BinaryIO | None, lines: int | None) -> Iterator[bytes]:
    """Both files, older first, or their last lines; leaves `current` at its end."""
    older = path.with_name(f"{path.name}.1")
    with contextlib.ExitStack() as files:
        sources = [source for source in (_open(older, files), current) if source is not None]
        if lines is None:
            for source in sources:
                while chunk := source.read(CHUNK_BYTES):
                    yield chunk
        else:
            yield from deque((line for source in sources for line in source), maxlen=lines)


def _open(path: Path, files: contextlib.ExitStack) -> BinaryIO | None:
    try:
        return files.enter_context(path.open("rb"))
    except FileNotFoundError:
        return None


def _is_replaced(path: Path, current: BinaryIO) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    here = os.fstat(current.fileno())
    return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)
