"""A value that changes, of which only the newest matters: how levels travel inside a process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """The newest value of something, and a way to wait for the next. Readers may skip values, never the last one."""

    def __init__(self, value: T | None = None) -> None:
        self._value = value
        self._serial = 0 if value is None else 1
        self._changed = asyncio.Event()

    @property
    def value(self) -> T | None:
        return self._value

    def set(self, value: T) -> bool:
        """Make `value` the newest; False (and nobody woken) if it equals the one before."""
        if self._serial and value == self._value:
            return False
        self._value = value
        self._serial += 1
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return True

    async def values(self) -> AsyncIterator[T]:
        """The newest value, then each newer one, for ever."""
        seen = 0
        while True:
            changed = self._changed
            if self._serial > seen and self._value is not None:
                seen = self._serial
                yield self._value
            else:
                await changed.wait()
