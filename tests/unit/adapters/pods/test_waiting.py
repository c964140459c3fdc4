import asyncio

from aether.adapters.pods.waiting import Signal, first_of


async def never() -> None:
    await asyncio.Event().wait()


async def at_once() -> None:
    return


async def test_the_first_to_be_done_is_told_by_its_place() -> None:
    assert await first_of(never(), at_once()) == 1
    assert await first_of(at_once(), at_once()) == 0


async def test_the_others_are_cancelled() -> None:
    cancelled: list[str] = []

    async def wait() -> None:
        try:
            await never()
        except asyncio.CancelledError:
            cancelled.append("yes")
            raise

    await first_of(wait(), asyncio.wait_for(asyncio.shield(asyncio.get_running_loop().run_in_executor(None, int)), 5))
    assert cancelled == ["yes"]


async def test_what_happens_between_taking_and_waiting_is_not_missed() -> None:
    signal = Signal()
    happened = signal.next()
    signal.fire()
    await happened.wait()
    assert not signal.next().is_set()
