"""Let every task that can run do so, while time stands still."""

from aether.adapters.clock import ManualClock

_TURNS = 20
"""Of the event loop: more than any chain of tasks in a test that wake each other."""


async def settle() -> None:
    for _ in range(_TURNS):
        await ManualClock().sleep(0)
