"""Time: the only module that sleeps."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic seconds, wall-clock seconds, and waiting."""

    def now(self) -> float: ...

    def wall(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that only `advance` moves."""

    def __init__(self, *, now: float = 0.0, wall: float = 1_700_000_000.0) -> None:
        self._now = now
        self._wall = wall
        self._waiters: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._wall + self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._now + seconds, future))
        await future

    def advance(self, seconds: float) -> None:
        """Move time forward and wake every sleeper whose time has come, earliest first."""
        self._now += seconds
        due = sorted((w for w in self._waiters if w[0] <= self._now), key=lambda waiter: waiter[0])
        self._waiters = [w for w in self._waiters if w[0] > self._now]
        for _, future in due:
            if not future.done():
                future.set_result(None)
