"""The newest value: readers may skip values, never the last one."""

import asyncio

from aether.adapters.latest import Latest


async def test_a_reader_gets_the_newest_value_and_then_each_newer_one() -> None:
    latest: Latest[int] = Latest()
    got: list[int] = []

    async def read() -> None:
        async for value in latest.values():
            got.append(value)
            if value == 3:
                return

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read())
        latest.set(1)
        latest.set(2)
        while not got:
            await asyncio.wait({reading}, timeout=0)
        latest.set(3)
    assert got == [2, 3]


async def test_an_equal_value_is_no_news() -> None:
    latest: Latest[str] = Latest("a")
    assert not latest.set("a")
    assert latest.set("b")
    assert latest.value == "b"
    values = latest.values()
    assert await anext(values) == "b"
