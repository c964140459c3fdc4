"""Keeps one program alive: start, wait until it is ready, start again with back-off, stop.

Owns: when a program is started and ended, and what is said of one that does not stay.
Leaves to others: what the program is (`adapters.process.Program`), how it is asked whether it is ready.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from aether.adapters.clock import Clock
from aether.adapters.pods.launcher import describe_exit
from aether.adapters.process import Program, ProgramFailed, RunningProgram

READY_POLL_S = 0.05
STABLE_S = 10.0
"""A run of at least this long was no failed start: the next one begins at once, whatever happened before."""
FIRST_WAIT_S = 0.5
WAIT_LIMIT_S = 10.0
CRASH_LOOP = 3
"""Short runs in a row that make a crash loop."""

log = structlog.get_logger()


class Life(enum.Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    SERVING = "serving"
    WAITING = "waiting"
    STOPPING = "stopping"


class Happened(enum.Enum):
    SPAWNED = "spawned"
    NOT_SPAWNED = "not-spawned"
    READY = "ready"
    EXITED = "exited"
    STOP_ASKED = "stop-asked"


NEXT_LIFE: Mapping[tuple[Life, Happened], Life] = {
    (Life.STOPPED, Happened.SPAWNED): Life.STARTING,
    (Life.STOPPED, Happened.NOT_SPAWNED): Life.WAITING,
    (Life.STOPPED, Happened.STOP_ASKED): Life.STOPPED,
    (Life.STARTING, Happened.READY): Life.SERVING,
    (Life.STARTING, Happened.EXITED): Life.WAITING,
    (Life.STARTING, Happened.STOP_ASKED): Life.STOPPING,
    (Life.SERVING, Happened.EXITED): Life.WAITING,
    (Life.SERVING, Happened.STOP_ASKED): Life.STOPPING,
    (Life.WAITING, Happened.SPAWNED): Life.STARTING,
    (Life.WAITING, Happened.NOT_SPAWNED): Life.WAITING,
    (Life.WAITING, Happened.STOP_ASKED): Life.STOPPED,
    (Life.STOPPING, Happened.EXITED): Life.STOPPED,
}


class IllegalTransition(AssertionError):
    """Something happened that cannot happen in this state."""

    def __init__(self, life: Life, happened: Happened) -> None:
        super().__init__(f"{happened.value} while {life.value}")


def advance(life: Life, happened: Happened) -> Life:
    try:
        return NEXT_LIFE[life, happened]
    except KeyError:
        raise IllegalTransition(life, happened) from None


def restart_wait_s(failures: int) -> float:
    """How long to wait before starting again after `failures` short runs in a row: not at all after the first."""
    return 0.0 if failures <= 1 else min(WAIT_LIMIT_S, FIRST_WAIT_S * 2.0 ** (failures - 2))


class SupervisorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one supervised program is doing. `problem` says why it does not serve, with the end of its log.

    `pid` is 0 while no process runs.
    """

    name: str
    life: Life
    pid: int
    starts: int
    is_crash_looping: bool
    problem: str


class Supervisor:
    """`run` keeps the program alive until it is cancelled, and then stops it: SIGTERM, `grace_s`, SIGKILL.

    A program that runs without becoming ready is left alone: it may be waiting for another one.
    """

    def __init__(
        self, program: Program, *, is_ready: Callable[[], Awaitable[bool]], clock: Clock, grace_s: float = 5.0
    ) -> None:
        self.program = program
        self._is_ready = is_ready
        self._clock = clock
        self._grace_s = grace_s
        self._life = Life.STOPPED
        self._running: RunningProgram | None = None
        self._starts = 0
        self._failures = 0
        self._problem = ""
        self._serving = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await self._clock.sleep(restart_wait_s(self._failures))
                await self._run_once()
        finally:
            await self._stop()

    async def wait_serving(self, timeout_s: float) -> bool:
        """Whether the program is ready, or became so in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._serving.wait()
        except TimeoutError:
            return False
        return True

    def report(self) -> SupervisorReport:
        return SupervisorReport(
            name=self.program.name,
            life=self._life,
            pid=self._running.pid if self._running is not None else 0,
            starts=self._starts,
            is_crash_looping=self._failures >= CRASH_LOOP,
            problem=self._problem,
        )

    async def _run_once(self) -> None:
        started = self._clock.now()
        try:
            running = await RunningProgram.start(self.program)
        except ProgramFailed as failure:
            self._failures += 1
            self._problem = str(failure)
            self._note(Happened.NOT_SPAWNED)
            return
        self._running = running
        self._starts += 1
        self._note(Happened.SPAWNED)
        code = await self._watch(running)
        is_short = self._clock.now() - started < STABLE_S
        self._failures = self._failures + 1 if is_short else 1
        self._problem = _describe(self.program.name, code, running.log_tail())
        self._running = None
        self._note(Happened.EXITED)

    async def _watch(self, running: RunningProgram) -> int:
        """Until the process ends; says when it is ready."""
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(self._wait_ready())
            code = await running.wait()
            waiting.cancel()
        return code

    async def _wait_ready(self) -> None:
        while not await self._is_ready():
            await self._clock.sleep(READY_POLL_S)
        self._problem = ""
        self._note(Happened.READY)

    async def _stop(self) -> None:
        self._note(Happened.STOP_ASKED)
        if self._running is not None:
            await self._running.stop(grace_s=self._grace_s)
            self._running = None
            self._note(Happened.EXITED)

    def _note(self, happened: Happened) -> None:
        self._life = advance(self._life, happened)
        if self._life is Life.SERVING:
            self._serving.set()
        else:
            self._serving.clear()
        level = log.warning if self._life is Life.WAITING else log.info
        level("program", name=self.program.name, life=self._life.value, starts=self._starts, problem=self._problem)


def _describe(name: str, code: int, tail: str) -> str:
    ending = describe_exit(code if code >= 0 else 128 - code) or "exit status 0"
    return f"{name} ended ({ending})" + (f":\n{tail}" if tail else "")
