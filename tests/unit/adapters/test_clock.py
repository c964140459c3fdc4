"""Clocks: the one that tests move, and the system's."""

import asyncio
import time

from tests.support.settle import settle

from aether.adapters.clock import ManualClock, SystemClock


async def test_a_manual_clock_stands_until_it_is_moved() -> None:
    clock = ManualClock(now=5.0, wall=1000.0)
    await settle()
    assert (clock.now(), clock.wall()) == (5.0, 1005.0)
    clock.advance(2.5)
    assert (clock.now(), clock.wall()) == (7.5, 1007.5)


async def test_sleepers_wake_when_their_time_has_come_earliest_first() -> None:
    clock, woken = ManualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3.0, 1.0, 2.0):
            group.create_task(sleep(seconds))
        await settle()
        clock.advance(0.5)
        await settle()
        assert woken == []
        clock.advance(1.5)
        await settle()
        assert woken == [1.0, 2.0]
        clock.advance(1.0)
    assert woken == [1.0, 2.0, 3.0]


async def test_no_time_is_one_turn_for_everybody_else() -> None:
    clock, turns = ManualClock(), list[str]()

    async def other() -> None:
        turns.append("other")

    async with asyncio.TaskGroup() as group:
        group.create_task(other())
        await clock.sleep(0)
        turns.append("self")
    assert turns == ["other", "self"]


async def test_a_sleeper_that_was_cancelled_is_not_woken() -> None:
    clock = ManualClock()
    async with asyncio.TaskGroup() as group:
        sleeping = group.create_task(clock.sleep(1.0))
        await settle()
        sleeping.cancel()
        await settle()
        clock.advance(2.0)
    assert sleeping.cancelled()


async def test_the_systems_clock_is_the_systems() -> None:
    clock = SystemClock()
    before = time.monotonic()
    await clock.sleep(0.001)
    assert before + 0.001 <= clock.now() <= time.monotonic()
    assert abs(clock.wall() - time.time()) < 60
