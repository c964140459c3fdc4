"""The authority's root: replaced in time, in two phases (`adapters.ca.authority`).

Owns: when a phase begins. Leaves to others: what a phase does (the authority), that every agent hears of it (facts).
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from aether.adapters.clock import Clock

BEFORE_END_S = 365 * 86_400.0
"""How long before its end a root is replaced: years after it was made, and long before anybody sees it expire."""
LOOK_EVERY_S = 3600.0

log = structlog.get_logger()


class Authority(Protocol):
    """The certificate authority. Times are seconds of the wall clock."""

    @property
    def not_after(self) -> float: ...

    @property
    def finishes_at(self) -> float | None:
        """From when on the rotation that is under way may be finished; None if none is."""

    def begin_root_rotation(self) -> None: ...

    def finish_root_rotation(self) -> None: ...


class RootRotation:
    """`step` looks whether a phase is due; `changed` is called after each one that was done."""

    def __init__(self, authority: Authority, *, clock: Clock, changed: Callable[[], None]) -> None:
        self._authority = authority
        self._clock = clock
        self._changed = changed
        self._is_asked = False

    def ask(self) -> None:
        """Replace the root at the next step, however long it has. One rotation at a time: asking during one is idle."""
        self._is_asked = True

    async def step(self) -> None:
        finishes_at, now = self._authority.finishes_at, self._clock.wall()
        if finishes_at is None and (self._is_asked or self._authority.not_after - now < BEFORE_END_S):
            await self._do("root-rotation-begun", self._authority.begin_root_rotation)
        elif finishes_at is not None and now >= finishes_at:
            await self._do("root-rotation-finished", self._authority.finish_root_rotation)
        self._is_asked = False

    async def _do(self, event: str, phase: Callable[[], None]) -> None:
        await asyncio.to_thread(phase)
        log.info(event)
        self._changed()
