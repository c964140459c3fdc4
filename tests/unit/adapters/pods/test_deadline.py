import asyncio

from tests.support.settle import settle

from aether.adapters.clock import ManualClock
from aether.adapters.pods.deadline import Deadline


async def has_passed(deadline: Deadline, clock: ManualClock, seconds: float) -> bool:
    """Whether a waiter returns once the clock has moved on."""
    async with asyncio.TaskGroup() as group:
        waiter = group.create_task(deadline.wait())
        await settle()
        clock.advance(seconds)
        await settle()
        is_done = waiter.done()
        waiter.cancel()
    return is_done


async def test_it_passes_when_its_time_has_come() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    deadline.set(10)
    assert not await has_passed(deadline, clock, 9)
    assert await has_passed(deadline, clock, 1)


async def test_it_can_only_come_nearer() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    deadline.set(10)
    deadline.set(20)
    assert deadline.left_s() == 10
    deadline.set(5)
    assert deadline.left_s() == 5


async def test_a_waiter_sees_it_come_nearer() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    deadline.set(100)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiter = group.create_task(deadline.wait())
        await settle()
        deadline.set(0)
        await waiter


async def test_not_set_it_never_passes() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    assert not await has_passed(deadline, clock, 1e9)
    deadline.set(5)
    deadline.clear()
    assert not await has_passed(deadline, clock, 1e9)


async def test_it_can_be_put_off_to_leave_a_minimum() -> None:
    clock = ManualClock()
    deadline = Deadline(clock)
    deadline.set(0)
    deadline.extend_to(2)
    assert deadline.left_s() == 2
    deadline.set(50)
    deadline.extend_to(1)
    assert deadline.left_s() == 2
