"""Waiting for the first of several things, and for things that happen again and again."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_of(*waits: Coroutine[Any, Any, object]) -> int:
    """Wait until one of them is done; its place. The others are cancelled. One that fails, fails this."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait) for wait in waits]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
    return min(place for place, task in enumerate(tasks) if task in done)


class Signal:
    """Something that happens again and again. Take `next` before looking: then no time is missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def fire(self) -> None:
        happened, self._next = self._next, asyncio.Event()
        happened.set()

    def next(self) -> asyncio.Event:
        """Set when it happens the next time."""
        return self._next
