"""One container as a real process, with time that passes fast."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.pods import PATIENCE_S, FastClock, WatchedContainer, order, shell, until

from aether.adapters.pods.environment import MissingConfig
from aether.adapters.pods.launcher import CannotStart, ContainerOrder
from aether.adapters.pods.lifecycle import ContainerState, Life, RestartRule
from aether.model.kube import Container, Exec, HttpGet, Probe, Sleep

FOREVER = 'trap "exit 0" TERM; echo up; while :; do sleep 0.02; done'
STUBBORN = "trap '' TERM; echo up; while :; do sleep 0.02; done"


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


@asynccontextmanager
async def running(watched: WatchedContainer) -> AsyncIterator[WatchedContainer]:
    """The container's life in the background; whatever is left of it at the end is killed."""
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(watched.worker.run())
        try:
            yield watched
        finally:
            if not task.done():
                watched.worker.stop(0)


def main(**fields: object) -> Container:
    return Container(name="main", argv=("sh",), **fields)  # type: ignore[arg-type]


async def test_a_container_that_is_through_has_ended_and_is_completed(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "echo done")
    await watched.worker.run()
    last = watched.worker.state.last
    assert last is not None
    assert (last.exit_code, last.reason, last.message) == (0, "Completed", "")
    assert (watched.lives()[0], watched.lives()[-1]) == (Life.STARTING, Life.ENDED)
    assert watched.log() == "done\n"


async def test_a_container_that_fails_says_its_last_words(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "echo OSError: address already in use; exit 1")
    await watched.worker.run()
    last = watched.worker.state.last
    assert last is not None
    assert (last.exit_code, last.reason) == (1, "Error")
    assert last.message == "exit status 1\nOSError: address already in use"


async def test_a_kill_from_outside_is_called_that(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "kill -9 $$")
    await watched.worker.run()
    last = watched.worker.state.last
    assert last is not None
    assert (last.exit_code, last.message) == (137, "ended by SIGKILL, which we did not send: out of memory?")


async def test_a_command_that_is_not_there_is_named(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "", rule=RestartRule.ALWAYS)
    watched.make_order = lambda: order(tmp_path, "foo")
    async with running(watched):
        state = await watched.until(lambda state: state.restarts == 1 and state.life is Life.BACKING_OFF)
    assert (state.reason, state.message) == ("RunContainerError", 'exec: "foo": not found')
    assert state.last is not None
    assert state.last.exit_code == 128


async def test_restarts_back_off_the_first_at_once_then_longer(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "exit 1", rule=RestartRule.ALWAYS)
    async with running(watched):
        await until(lambda: watched.worker.state.restarts == 4)
    waits = [state for state in watched.states if state.life is Life.BACKING_OFF]
    assert [state.reason for state in waits[:4]] == ["CrashLoopBackOff"] * 4
    assert [state.message for state in waits[:4]] == [
        f"back-off {delay_s}s restarting failed container=main" for delay_s in (0, 10, 20, 40)
    ]
    for wait, delay_s in zip(waits[:4], (0, 10, 20, 40), strict=True):
        position = watched.states.index(wait)
        assert watched.times[position + 1] - watched.times[position] >= delay_s


async def test_on_failure_a_success_is_the_end(tmp_path: Path, clock: FastClock) -> None:
    script = f"test -e {tmp_path}/again && exit 0; touch {tmp_path}/again; exit 1"
    watched = WatchedContainer(tmp_path, clock, script, rule=RestartRule.ON_FAILURE)
    await watched.worker.run()
    assert (watched.worker.state.restarts, watched.worker.state.life) == (1, Life.ENDED)


async def test_stop_is_sigterm_and_the_container_may_end_by_itself(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, FOREVER, rule=RestartRule.ALWAYS)
    async with running(watched):
        await until_up(watched)
        watched.worker.stop(30)
        state = await watched.until_life(Life.ENDED)
    assert state.last is not None
    assert state.last.exit_code == 0
    assert watched.lives()[-2:] == [Life.STOPPING, Life.ENDED]


async def test_at_the_end_of_the_grace_period_it_is_killed(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, STUBBORN)
    async with running(watched):
        await until_up(watched)
        asked_at = clock.now()
        watched.worker.stop(30)
        await watched.until_life(Life.ENDED)
        assert clock.now() - asked_at >= 30
    assert watched.worker.state.last is not None
    assert watched.worker.state.last.exit_code == 137


async def test_a_grace_period_can_be_cut_short(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, STUBBORN)
    async with running(watched):
        await until_up(watched)
        watched.worker.stop(3600)
        await watched.until_life(Life.STOPPING)
        watched.worker.stop(0)
        await watched.until_life(Life.ENDED)


async def test_pre_stop_comes_before_sigterm(tmp_path: Path, clock: FastClock) -> None:
    script = 'trap "echo term; exit 0" TERM; echo up; while :; do sleep 0.02; done'
    hook = Exec(command=("sh", "-c", f"echo hook >> {tmp_path}/log"))
    watched = WatchedContainer(tmp_path, clock, script, container=main(pre_stop=hook))
    async with running(watched):
        await until_up(watched)
        watched.worker.stop(30)
        await watched.until_life(Life.ENDED)
    assert watched.log().split() == ["up", "hook", "term"]


async def test_pre_stop_takes_from_the_grace_period_and_leaves_two_seconds(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, STUBBORN, container=main(pre_stop=Sleep(seconds=3600)))
    async with running(watched):
        await until_up(watched)
        watched.worker.stop(30)
        asked_at = clock.now()
        await watched.until_life(Life.ENDED)
        assert 31 <= clock.now() - asked_at < 300


async def test_post_start_holds_back_running(tmp_path: Path, clock: FastClock) -> None:
    gate = tmp_path / "gate"
    hook = Exec(command=("sh", "-c", f"until test -e {gate}; do sleep 0.02; done"))
    watched = WatchedContainer(tmp_path, clock, FOREVER, container=main(post_start=hook))
    async with running(watched):
        await until_up(watched)
        assert watched.worker.state.life is Life.STARTING
        touch(gate)
        await watched.until_life(Life.RUNNING)


async def test_a_post_start_that_fails_ends_the_container(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, FOREVER, container=main(post_start=Exec(command=("false",))))
    await watched.worker.run()
    assert watched.worker.state.last is not None
    assert watched.worker.state.last.message == "postStart failed: the command ended with status 1"


def probe(script: str, **fields: int) -> Probe:
    return Probe(check=Exec(command=("sh", "-c", script)), timeout_s=20, period_s=2, **fields)


async def test_without_a_probe_a_container_is_ready_at_once(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, FOREVER)
    async with running(watched):
        state = await watched.until(lambda state: state.is_ready)
    assert state.is_started


async def test_readiness_comes_and_goes_with_its_probe(tmp_path: Path, clock: FastClock) -> None:
    flag = tmp_path / "flag"
    watched = WatchedContainer(
        tmp_path, clock, FOREVER, container=main(readiness_probe=probe(f"test -e {flag}", failure_threshold=2))
    )
    async with running(watched):
        state = await watched.until(lambda state: state.is_started)
        assert not state.is_ready
        touch(flag)
        await until(lambda: watched.worker.state.is_ready)
        remove(flag)
        await until(lambda: not watched.worker.state.is_ready)
        assert watched.worker.state.message == "readiness probe failed: the command ended with status 1"
        assert watched.worker.state.life is Life.RUNNING


async def test_readiness_is_still_probed_while_stopping(tmp_path: Path, clock: FastClock) -> None:
    flag = tmp_path / "flag"
    touch(flag)
    watched = WatchedContainer(
        tmp_path, clock, STUBBORN, container=main(readiness_probe=probe(f"test -e {flag}", failure_threshold=1))
    )
    async with running(watched):
        await watched.until(lambda state: state.is_ready)
        watched.worker.stop(3600)
        await watched.until_life(Life.STOPPING)
        remove(flag)
        await until(lambda: not watched.worker.state.is_ready)
        assert watched.worker.state.life is Life.STOPPING


async def test_a_container_whose_liveness_fails_is_started_again(tmp_path: Path, clock: FastClock) -> None:
    flag = tmp_path / "flag"
    touch(flag)
    liveness = probe(f"test -e {flag}", failure_threshold=2, initial_delay_s=5)
    watched = WatchedContainer(
        tmp_path, clock, FOREVER, container=main(liveness_probe=liveness), rule=RestartRule.ALWAYS
    )
    async with running(watched):
        await watched.until(lambda state: state.is_ready)
        await until(lambda: clock.now() > 60)
        assert watched.worker.state.restarts == 0
        remove(flag)
        await until(lambda: watched.worker.state.restarts == 1)
        assert watched.worker.state.last is not None
        assert watched.worker.state.last.message == "liveness probe failed: the command ended with status 1"


async def test_startup_holds_back_the_other_probes(tmp_path: Path, clock: FastClock) -> None:
    flag = tmp_path / "flag"
    container = main(
        startup_probe=probe(f"test -e {flag}", failure_threshold=1000), readiness_probe=probe(f"touch {tmp_path}/asked")
    )
    watched = WatchedContainer(tmp_path, clock, FOREVER, container=container)
    async with running(watched):
        await until_up(watched)
        await until(lambda: clock.now() > 50)
        assert not watched.worker.state.is_started
        assert not (tmp_path / "asked").exists()
        touch(flag)
        await until(lambda: watched.worker.state.is_ready)


async def test_a_container_that_does_not_start_up_is_ended(tmp_path: Path, clock: FastClock) -> None:
    container = main(startup_probe=probe("false", failure_threshold=3))
    watched = WatchedContainer(tmp_path, clock, FOREVER, container=container)
    async with running(watched):
        await until(lambda: watched.worker.state.life is Life.ENDED)
    assert watched.worker.state.last is not None
    assert watched.worker.state.last.message == "startup probe failed: the command ended with status 1"


async def test_a_probes_own_grace_period_holds_for_its_kill(tmp_path: Path, clock: FastClock) -> None:
    container = main(liveness_probe=probe("false", failure_threshold=1, grace_s=7))
    watched = WatchedContainer(tmp_path, clock, STUBBORN, container=container, grace_s=3600)
    async with running(watched):
        await watched.until_life(Life.STOPPING)
        await watched.until_life(Life.ENDED)
        assert clock.now() < 600


async def test_a_hook_may_be_a_request(tmp_path: Path, clock: FastClock) -> None:
    container = main(post_start=HttpGet(port="none"))
    watched = WatchedContainer(tmp_path, clock, FOREVER, container=container)
    await watched.worker.run()
    assert watched.worker.state.last is not None
    assert watched.worker.state.last.message == "postStart failed: the container has no TCP port named 'none'"


async def test_a_missing_config_map_is_waited_for(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "exit 0")
    missing = [True]

    def make_order() -> ContainerOrder:
        if missing:
            raise MissingConfig('configmap "m" not found')
        return shell(tmp_path, "exit 0")

    watched.make_order = make_order
    async with running(watched):
        state = await watched.until(lambda state: bool(state.reason))
        assert (state.life, state.reason, state.message) == (
            Life.WAITING,
            "CreateContainerConfigError",
            'configmap "m" not found',
        )
        missing.clear()
        watched.config.fire()
        await watched.until_life(Life.ENDED)
    assert watched.worker.state.last is not None
    assert watched.worker.state.last.exit_code == 0


@pytest.mark.parametrize("life", [Life.WAITING, Life.BACKING_OFF])
async def test_a_container_that_does_not_run_stops_at_once(tmp_path: Path, clock: FastClock, life: Life) -> None:
    watched = WatchedContainer(tmp_path, clock, "exit 1", rule=RestartRule.ALWAYS)
    if life is Life.WAITING:
        watched.make_order = refuse
    async with running(watched):
        await watched.until(lambda state: state.life is life and bool(state.reason) and backing_off(state))
        watched.worker.stop(30)
        await watched.until_life(Life.ENDED)


def refuse() -> ContainerOrder:
    raise MissingConfig("nothing")


def backing_off(state: ContainerState) -> bool:
    return state.life is Life.WAITING or "10s" in state.message


async def test_commands_run_in_a_container_with_its_environment(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, FOREVER)
    async with running(watched):
        await until_up(watched)
        assert await watched.worker.run_command(("sh", "-c", 'test "$PATH" = /usr/bin:/bin; exit $?')) == 0
        with pytest.raises(CannotStart, match='exec: "foo": not found'):
            await watched.worker.run_command(("foo",))
        sink = os.open(os.devnull, os.O_RDWR)
        try:
            process = await watched.worker.execute(("sh", "-c", "exit $CODE"), (sink, sink, sink), {"CODE": "9"})
        finally:
            os.close(sink)
        assert process is not None
        assert await process.wait() == 9
    with pytest.raises(CannotStart, match="does not run"):
        await watched.worker.run_command(("true",))


async def test_a_cancelled_container_leaves_no_process(tmp_path: Path, clock: FastClock) -> None:
    watched = WatchedContainer(tmp_path, clock, "echo $$; exec sleep 1000")
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        task = group.create_task(watched.worker.run())
        await watched.until_life(Life.RUNNING)
        await until(lambda: watched.log().strip().isdigit())
        task.cancel()
    pid = int(watched.log())
    await until(lambda: not Path(f"/proc/{pid}").exists())


async def until_up(watched: WatchedContainer) -> None:
    """Wait until the script has said that it is up: then its traps are set."""
    await until(lambda: "up" in watched.log())


def touch(path: Path) -> None:
    path.touch()


def remove(path: Path) -> None:
    path.unlink()
