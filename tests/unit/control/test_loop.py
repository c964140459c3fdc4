"""The level-triggered loop: wakes coalesce, failures back off, time wakes."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.support.settle import settle

from aether.adapters.clock import ManualClock
from aether.control.loop import FIRST_RETRY_S, Loop


class Steps:
    """Counts steps; each does what the list says, and nothing after its end."""

    def __init__(self, *results: float | Exception | None) -> None:
        self.count = 0
        self._results = list(results)

    async def __call__(self) -> float | None:
        self.count += 1
        result = self._results.pop(0) if self._results else None
        if isinstance(result, Exception):
            raise result
        return result


async def drive(
    steps: Steps, play: Callable[[Loop, ManualClock], Awaitable[None]], *, every_s: float | None = None
) -> None:
    clock = ManualClock()
    loop = Loop("test", steps, clock=clock, every_s=every_s)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(loop.run())
        await settle()
        await play(loop, clock)
        running.cancel()


async def test_it_looks_at_its_start_and_once_after_any_number_of_wakes() -> None:
    steps = Steps()

    async def play(loop: Loop, _: ManualClock) -> None:
        assert steps.count == 1
        loop.wake()
        loop.wake()
        loop.wake()
        await settle()
        assert steps.count == 2

    await drive(steps, play)


async def test_a_step_that_fails_is_tried_again_later_and_later_and_says_why() -> None:
    steps = Steps(ValueError("one"), ValueError("two"))

    async def play(loop: Loop, clock: ManualClock) -> None:
        assert loop.last_error == "ValueError: one"
        clock.advance(FIRST_RETRY_S)
        await settle()
        assert (steps.count, loop.last_error) == (2, "ValueError: two")
        clock.advance(FIRST_RETRY_S)
        await settle()
        assert steps.count == 2, "the second wait is longer"
        clock.advance(FIRST_RETRY_S)
        await settle()
        assert (steps.count, loop.last_error) == (3, "")

    await drive(steps, play)


async def test_time_wakes_it() -> None:
    steps = Steps()

    async def play(_: Loop, clock: ManualClock) -> None:
        clock.advance(1.0)
        await settle()
        assert steps.count == 1
        clock.advance(1.0)
        await settle()
        assert steps.count == 2

    await drive(steps, play, every_s=2.0)


async def test_a_step_may_ask_to_be_looked_at_sooner() -> None:
    steps = Steps(0.5)

    async def play(_: Loop, clock: ManualClock) -> None:
        clock.advance(0.5)
        await settle()
        assert steps.count == 2
        clock.advance(0.5)
        await settle()
        assert steps.count == 2

    await drive(steps, play)
