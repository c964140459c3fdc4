"""One container, from its first start to its last end.

Owns: starting, restarting, probing and stopping it. Leaves to others: when (the pod), what restarts mean (`lifecycle`),
the process (`launcher`).
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.pods.deadline import Deadline
from aether.adapters.pods.environment import MissingConfig
from aether.adapters.pods.launcher import (
    CANNOT_START,
    CannotStart,
    ContainerOrder,
    ContainerProcess,
    ExecOrder,
    describe_exit,
    start_container,
    start_exec,
)
from aether.adapters.pods.lifecycle import (
    BackOff,
    ContainerState,
    Happened,
    Life,
    RestartRule,
    Termination,
    Threshold,
    advance,
    will_restart,
)
from aether.adapters.pods.probes import Target, look
from aether.adapters.pods.waiting import Signal, first_of
from aether.model.kube import Container, Exec, Hook, Probe, Sleep

HOOK_TIMEOUT_S = 30.0
"""What a postStart hook may take at most when it is a request."""

EXTRA_GRACE_S = 2.0
"""What is left for SIGTERM when preStop used up the whole grace period (kubelet: minimumGracePeriodInSeconds)."""

_TAIL_BYTES = 2048
_TAIL_LINES = 10


class ContainerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What one container is made of.

    `make_order` gives what to start, or raises `MissingConfig` until `config` fires and that changed.
    `target` is what probes look at, once the container runs. `on_change` is called after every change of its state.
    """

    container: Container
    rule: RestartRule
    grace_s: float
    clock: Clock
    back_off: BackOff
    make_order: Callable[[], ContainerOrder]
    config: Signal
    make_target: Callable[["ContainerWorker"], Target]
    on_change: Callable[[], None]


class ContainerWorker:
    """`run` takes the container through its whole life; `stop` ends it."""

    def __init__(self, parts: ContainerParts) -> None:
        self.name = parts.container.name
        self.parts = parts
        self.state = ContainerState()
        self._clock = parts.clock
        self._process: ContainerProcess | None = None
        self._order: ContainerOrder | None = None
        self._stopping = asyncio.Event()
        self._killing = asyncio.Event()
        self._deadline = Deadline(parts.clock)
        self._why_killed = ""
        self._log_offset = 0

    async def run(self) -> None:
        """Return when the container has ended and will not be started again."""
        while not self._stopping.is_set():
            order = await self._wait_order()
            if order is None:
                break
            code = await self._run_once(order)
            if self._stopping.is_set() or not will_restart(self.parts.rule, code):
                break
            delay_s = self.parts.back_off.delay_s(self._clock.now())
            self._back_off(delay_s)
            if delay_s and await first_of(self._clock.sleep(delay_s), self._stopping.wait()):
                break
            self._change(Happened.RETRIED, restarts=self.state.restarts + 1, reason="", message="")
        if self.state.life is not Life.ENDED:
            self._change(Happened.FINISHED, is_ready=False, is_started=False)

    def stop(self, grace_s: float) -> None:
        """End it within `grace_s`, for good. Asked again, it can only end sooner."""
        self._stopping.set()
        self._kill_within(grace_s)

    async def execute(
        self, argv: tuple[str, ...], stdio: tuple[int, int, int], env: dict[str, str]
    ) -> ContainerProcess | None:
        """Start a command in it; None if it does not run now.

        Raises:
            CannotStart: the command does not start.
        """
        if self._process is None or self._order is None or self._process.has_ended:
            return None
        order = ExecOrder(
            argv=argv,
            env=self._order.env | env,
            init=self._process.init if self._order.is_isolated else 0,
            working_dir=self._order.working_dir,
            run_as=self._order.run_as,
        )
        process = start_exec(order, stdio)
        try:
            await process.wait_started()
        except BaseException:
            process.kill()
            raise
        return process

    async def _wait_order(self) -> ContainerOrder | None:
        """What to start; None if it is to stop before there is anything."""
        while not self._stopping.is_set():
            changed = self.parts.config.next()
            try:
                return self.parts.make_order()
            except MissingConfig as missing:
                self._set(reason="CreateContainerConfigError", message=str(missing))
            await first_of(changed.wait(), self._stopping.wait())
        return None

    async def _run_once(self, order: ContainerOrder) -> int:
        """Start it and see it to its end: its exit status."""
        self._killing.clear()
        self._deadline.clear()
        self._why_killed = ""
        self._log_offset = _size(order.log)
        self._order = order
        started_at = self._clock.wall()
        self._change(Happened.LAUNCHED, is_started=False, is_ready=False, started_at=0.0)
        process = start_container(order)
        try:
            await process.wait_started()
            self._process = process
            self._set(started_at=self._clock.wall())
            code = await self._attend(process)
            reason, message = self._explain(code)
        except CannotStart as error:
            code, reason, message = CANNOT_START, "RunContainerError", str(error)
        finally:
            self._process = None
            process.kill()
            await process.wait()
        last = Termination(
            exit_code=code,
            reason=reason,
            message=message,
            started_at=started_at,
            finished_at=self._clock.wall(),
        )
        self._set(last=last, is_ready=False, is_started=False)
        return code

    async def _attend(self, process: ContainerProcess) -> int:
        async with asyncio.TaskGroup() as group:
            attending = (group.create_task(self._begin()), group.create_task(self._end_when_asked(process)))
            code = await process.wait()
            for task in attending:
                task.cancel()
        return code

    async def _begin(self) -> None:
        """postStart, which holds back "running"; then the probes, until the container ends."""
        hook = self.parts.container.post_start
        if hook is not None and (why := await self._run_hook(hook, HOOK_TIMEOUT_S)):
            self._kill(f"postStart failed: {why}", self.parts.grace_s)
            return
        if self.state.life is Life.STARTING:
            self._change(Happened.STARTED)
        await self._probe()

    async def _end_when_asked(self, process: ContainerProcess) -> None:
        """preStop inside the grace period, SIGTERM, SIGKILL at its end."""
        await self._killing.wait()
        if self.state.life in {Life.STARTING, Life.RUNNING}:
            self._change(Happened.STOP_ASKED)
        hook = self.parts.container.pre_stop
        if hook is not None and self._deadline.left_s() > 0:
            await first_of(self._run_hook(hook, self._deadline.left_s()), self._deadline.wait())
            self._deadline.extend_to(EXTRA_GRACE_S)
        process.signal(signal.SIGTERM)
        await self._deadline.wait()
        process.kill()

    async def _run_hook(self, hook: Hook, timeout_s: float) -> str:
        """Why it failed, "" if it did not."""
        if isinstance(hook, Sleep):
            await self._clock.sleep(hook.seconds)
            return ""
        if not isinstance(hook, Exec):
            return await look(hook, self.parts.make_target(self), timeout_s)
        try:
            code = await self.run_command(hook.command)
        except CannotStart as error:
            return str(error)
        return f"the command ended with status {code}" if code else ""

    async def run_command(self, command: tuple[str, ...]) -> int:
        """Run a command of ours in it, without input or output; its exit status.

        Raises:
            CannotStart: it does not start.
        """
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            process = await self.execute(command, (nothing, nothing, nothing), {})
        finally:
            os.close(nothing)
        if process is None:
            raise CannotStart("the container does not run")
        try:
            return await process.wait()
        finally:
            process.kill()
            await process.wait()

    async def _probe(self) -> None:
        container = self.parts.container
        if container.startup_probe is not None and not await self._probe_startup(container.startup_probe):
            return
        self._set(is_started=True, is_ready=container.readiness_probe is None)
        async with asyncio.TaskGroup() as group:
            if container.readiness_probe is not None:
                group.create_task(self._probe_readiness(container.readiness_probe))
            if container.liveness_probe is not None:
                group.create_task(self._probe_liveness(container.liveness_probe))

    async def _probe_startup(self, probe: Probe) -> bool:
        is_good, why = await self._next_verdict(probe, Threshold(success=1, failure=probe.failure_threshold))
        if not is_good:
            self._kill(f"startup probe failed: {why}", self.parts.grace_s if probe.grace_s is None else probe.grace_s)
        return is_good

    async def _probe_readiness(self, probe: Probe) -> None:
        """For as long as the container runs, also while it is being stopped."""
        threshold = Threshold(success=probe.success_threshold, failure=probe.failure_threshold)
        is_first = True
        while True:
            is_good, why = await self._next_verdict(probe, threshold, is_first=is_first)
            is_first = False
            message = "" if is_good else f"readiness probe failed: {why}"
            self._set(is_ready=is_good, message=message)
            await self._clock.sleep(probe.period_s)

    async def _probe_liveness(self, probe: Probe) -> None:
        threshold = Threshold(success=1, failure=probe.failure_threshold)
        is_first = True
        while not self._killing.is_set():
            is_good, why = await self._next_verdict(probe, threshold, is_first=is_first)
            is_first = False
            if not is_good:
                grace_s = self.parts.grace_s if probe.grace_s is None else probe.grace_s
                self._kill(f"liveness probe failed: {why}", grace_s)
                return
            await self._clock.sleep(probe.period_s)

    async def _next_verdict(self, probe: Probe, threshold: Threshold, *, is_first: bool = True) -> tuple[bool, str]:
        """Look, once a period, until enough looks agree; the last failure's reason."""
        if is_first:
            await self._clock.sleep(probe.initial_delay_s)
        target = self.parts.make_target(self)
        while True:
            why = await look(probe.check, target, probe.timeout_s)
            verdict = threshold.count(is_success=not why)
            if verdict is not None:
                return verdict, why
            await self._clock.sleep(probe.period_s)

    def _kill(self, why: str, grace_s: float) -> None:
        if not self._stopping.is_set():
            self._why_killed = why
        self._kill_within(grace_s)

    def _kill_within(self, grace_s: float) -> None:
        self._deadline.set(grace_s)
        self._killing.set()

    def _explain(self, code: int) -> tuple[str, str]:
        """(reason, message) of an end: what we know, and the last words in its log."""
        if self._why_killed:
            return "Error", self._why_killed
        if code == 0:
            return "Completed", ""
        said = describe_exit(code)
        if code == 128 + signal.SIGKILL and not self._killing.is_set():
            said += ", which we did not send: out of memory?"
        tail = _tail(Path(self._order.log), self._log_offset) if self._order is not None else ""
        return "Error", f"{said}\n{tail}" if tail else said

    def _back_off(self, delay_s: float) -> None:
        last = self.state.last
        if last is not None and last.reason == "RunContainerError":
            self._change(Happened.CRASHED, reason=last.reason, message=last.message)
        else:
            message = f"back-off {delay_s:g}s restarting failed container={self.name}"
            self._change(Happened.CRASHED, reason="CrashLoopBackOff", message=message)

    def _change(self, happened: Happened, **changes: object) -> None:
        self._set(life=advance(self.state.life, happened), **changes)

    def _set(self, **changes: object) -> None:
        state = msgspec.structs.replace(self.state, **changes)
        if state != self.state:
            self.state = state
            self.parts.on_change()


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0


def _tail(path: Path, offset: int) -> str:
    """The last lines after `offset`; from the beginning if the log was begun again meanwhile."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            start = offset if offset <= size else 0
            stream.seek(max(start, size - _TAIL_BYTES))
            lines = stream.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-_TAIL_LINES:])
