"""One level-triggered loop: woken by anything, it looks at everything, and backs off when that fails."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from aether.adapters.clock import Clock

FIRST_RETRY_S = 0.1
RETRY_LIMIT_S = 5.0

log = structlog.get_logger()


class Loop:
    """Run `step` once at start and then after every `wake`; wakes during a step are one more step.

    `every_s`, if given, also wakes it, and so does a step that returns seconds, after them: whichever is first. A step
    that raises is logged and tried again, later and later, up to `RETRY_LIMIT_S`; a wake in between does not shorten
    that wait below `FIRST_RETRY_S`.
    """

    def __init__(
        self, name: str, step: Callable[[], Awaitable[float | None]], *, clock: Clock, every_s: float | None = None
    ) -> None:
        self.name = name
        self.last_error = ""
        self._step = step
        self._clock = clock
        self._every_s = every_s
        self._woken = asyncio.Event()
        self._woken.set()

    def wake(self) -> None:
        self._woken.set()

    async def run(self) -> None:
        failures = 0
        again_s: float | None = None
        while True:
            await self._wait(min((each for each in (self._every_s, again_s) if each is not None), default=None))
            self._woken.clear()
            try:
                again_s = await self._step()
            except Exception as error:
                failures += 1
                self.last_error = f"{type(error).__name__}: {error}"
                log.warning("loop-failed", loop=self.name, attempt=failures, exc_info=failures <= 1, error=str(error))
                await self._clock.sleep(min(RETRY_LIMIT_S, FIRST_RETRY_S * 2.0 ** (failures - 1)))
                self._woken.set()
            else:
                failures = 0
                self.last_error = ""

    async def _wait(self, limit_s: float | None) -> None:
        if limit_s is None or self._woken.is_set():
            await self._woken.wait()
            return
        async with asyncio.TaskGroup() as group:
            sleeping = group.create_task(self._clock.sleep(limit_s))
            waking = group.create_task(self._woken.wait())
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
            sleeping.cancel()
            waking.cancel()
