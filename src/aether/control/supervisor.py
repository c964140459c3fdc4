"""Keeps one program alive: start, wait until it is ready, start again with back-off, stop."""

import enum
from collections.abc import Awaitable, Callable

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.process import Program


class Life(enum.Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    SERVING = "serving"
    WAITING = "waiting"
    STOPPING = "stopping"


class SupervisorReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one supervised program is doing. `problem` says why it does not serve, with the end of its log."""

    name: str
    life: Life
    pid: int
    starts: int
    is_crash_looping: bool
    problem: str


class Supervisor:
    """`run` keeps the program alive until it is cancelled, and then stops it: SIGTERM, `grace_s`, SIGKILL."""

    def __init__(
        self, program: Program, *, is_ready: Callable[[], Awaitable[bool]], clock: Clock, grace_s: float = 5.0
    ) -> None:
        self.program = program
        self._is_ready = is_ready
        self._clock = clock
        self._grace_s = grace_s

    async def run(self) -> None:
        raise NotImplementedError

    async def wait_serving(self, timeout_s: float) -> bool:
        """Whether the program is ready, or became so in time."""
        raise NotImplementedError

    def report(self) -> SupervisorReport:
        raise NotImplementedError
