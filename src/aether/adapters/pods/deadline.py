"""A moment in the future that can come nearer while somebody waits for it."""

import asyncio
import math

from aether.adapters.clock import Clock
from aether.adapters.pods.waiting import first_of


class Deadline:
    """Not set, it never comes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = math.inf
        self._moved = asyncio.Event()

    def set(self, seconds: float) -> None:
        """At most `seconds` from now; never later than before."""
        self._move(min(self._at, self._clock.now() + seconds))

    def extend_to(self, seconds: float) -> None:
        """At least `seconds` from now."""
        self._move(max(self._at, self._clock.now() + seconds))

    def clear(self) -> None:
        self._move(math.inf)

    def left_s(self) -> float:
        return max(0.0, self._at - self._clock.now())

    async def wait(self) -> None:
        """Return once it has passed."""
        while self.left_s() > 0:
            self._moved.clear()
            if self._at == math.inf:
                await self._moved.wait()
            else:
                await first_of(self._clock.sleep(self.left_s()), self._moved.wait())

    def _move(self, at: float) -> None:
        self._at = at
        self._moved.set()
