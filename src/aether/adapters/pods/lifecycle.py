"""A container's life as a table, and the decisions of a kubelet: restart or not, when, and what the pod's phase is.

Nothing here waits, reads a clock or touches a process.
"""

import enum
from collections.abc import Mapping, Sequence

import msgspec

from aether.errors import AetherError

BACK_OFF_RESET_FACTOR = 2
"""A container that ran for twice the longest back-off starts from the beginning (client-go: `hasExpired`)."""


class Life(enum.StrEnum):
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    BACKING_OFF = "backing-off"
    ENDED = "ended"


class Happened(enum.StrEnum):
    LAUNCHED = "launched"
    """Its process was made."""
    STARTED = "started"
    """Its command runs, and postStart is done."""
    STOP_ASKED = "stop-asked"
    CRASHED = "crashed"
    """It ended, or never started, and will be started again."""
    RETRIED = "retried"
    FINISHED = "finished"
    """It ended, and stays so."""


NEXT_LIFE: Mapping[tuple[Life, Happened], Life] = {
    (Life.WAITING, Happened.LAUNCHED): Life.STARTING,
    (Life.WAITING, Happened.FINISHED): Life.ENDED,
    (Life.STARTING, Happened.STARTED): Life.RUNNING,
    (Life.STARTING, Happened.STOP_ASKED): Life.STOPPING,
    (Life.STARTING, Happened.CRASHED): Life.BACKING_OFF,
    (Life.STARTING, Happened.FINISHED): Life.ENDED,
    (Life.RUNNING, Happened.STOP_ASKED): Life.STOPPING,
    (Life.RUNNING, Happened.CRASHED): Life.BACKING_OFF,
    (Life.RUNNING, Happened.FINISHED): Life.ENDED,
    (Life.STOPPING, Happened.CRASHED): Life.BACKING_OFF,
    (Life.STOPPING, Happened.FINISHED): Life.ENDED,
    (Life.BACKING_OFF, Happened.RETRIED): Life.WAITING,
    (Life.BACKING_OFF, Happened.FINISHED): Life.ENDED,
}


class IllegalTransition(AetherError):
    code = "illegal-transition"

    def __init__(self, life: Life, happened: Happened) -> None:
        super().__init__(f"a container that is {life} cannot be {happened}")


def advance(life: Life, happened: Happened) -> Life:
    try:
        return NEXT_LIFE[life, happened]
    except KeyError:
        raise IllegalTransition(life, happened) from None


class Termination(msgspec.Struct, frozen=True, kw_only=True):
    """How a container ended. Times are seconds since 1970."""

    exit_code: int
    reason: str
    message: str
    started_at: float
    finished_at: float


class ContainerState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a container now.

    `reason` and `message` say why it waits. `last` is how it ended last time. `is_started`: the startup probe, if there
    is one, has passed.
    """

    life: Life = Life.WAITING
    reason: str = ""
    message: str = ""
    started_at: float = 0.0
    restarts: int = 0
    is_started: bool = False
    is_ready: bool = False
    last: Termination | None = None


class RestartRule(enum.StrEnum):
    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"


def restart_rule(policy: str, *, is_init: bool, is_sidecar: bool) -> RestartRule:
    """What a container's end means, by the pod's restartPolicy and the container's place in it."""
    if is_sidecar:
        return RestartRule.ALWAYS
    if is_init:
        return RestartRule.NEVER if policy == RestartRule.NEVER else RestartRule.ON_FAILURE
    return RestartRule(policy)


def will_restart(rule: RestartRule, exit_code: int) -> bool:
    return rule is RestartRule.ALWAYS or (rule is RestartRule.ON_FAILURE and exit_code != 0)


class BackOff:
    """When a container that ended is started again: at once, then after `first_s`, doubling up to `limit_s`."""

    def __init__(self, *, first_s: float, limit_s: float) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._delay_s = 0.0
        self._counted_at: float | None = None

    def delay_s(self, ended_at: float) -> float:
        """Seconds to wait from `ended_at` (monotonic) on."""
        good_s = BACK_OFF_RESET_FACTOR * self._limit_s
        if self._counted_at is None or ended_at - self._counted_at > good_s:
            delay_s, self._delay_s = 0.0, self._first_s
        else:
            delay_s, self._delay_s = self._delay_s, min(self._limit_s, 2 * self._delay_s)
        self._counted_at = ended_at + delay_s
        return delay_s


class Threshold:
    """Probe results to a verdict: `success` in a row make it good, `failure` in a row bad."""

    def __init__(self, *, success: int, failure: int) -> None:
        self._needed = {True: success, False: failure}
        self._last: bool | None = None
        self._run = 0

    def count(self, *, is_success: bool) -> bool | None:
        """The verdict once enough results agree, None before."""
        self._run = self._run + 1 if is_success is self._last else 1
        self._last = is_success
        return is_success if self._run >= self._needed[is_success] else None


def phase_of(
    init: Sequence[ContainerState], main: Sequence[ContainerState], *, sidecars: Sequence[ContainerState] = ()
) -> str:
    """The pod's phase, as a kubelet has it. `init` are the init containers that must end; `sidecars` never decide."""
    if any(_has_failed(state) for state in init):
        return "Failed"
    if any(state.life is not Life.ENDED for state in init):
        return "Pending"
    if main and all(state.life is Life.ENDED for state in main):
        return "Failed" if any(_has_failed(state) for state in main) else "Succeeded"
    has_run = all(state.started_at or state.last for state in main)
    return "Running" if main and has_run else "Pending"


def _has_failed(state: ContainerState) -> bool:
    return state.life is Life.ENDED and (state.last is None or state.last.exit_code != 0)
