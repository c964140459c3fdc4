"""The supervisor with real, tiny programs; time is a clock that the test moves."""

import asyncio
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.process import Program
from aether.control.supervisor import (
    CRASH_LOOP,
    NEXT_LIFE,
    READY_POLL_S,
    STABLE_S,
    WAIT_LIMIT_S,
    Happened,
    IllegalTransition,
    Life,
    Supervisor,
    advance,
    restart_wait_s,
)

WAIT_S = 10.0


@pytest.mark.parametrize(("life", "happened"), list(itertools.product(Life, Happened)))
def test_every_pair_is_in_the_table_or_refused(life: Life, happened: Happened) -> None:
    if (life, happened) in NEXT_LIFE:
        assert advance(life, happened) is NEXT_LIFE[life, happened]
    else:
        with pytest.raises(IllegalTransition, match=f"{happened.value} while {life.value}"):
            advance(life, happened)


def test_every_life_can_be_stopped_and_ends() -> None:
    ends = {Life.STARTING: Life.STOPPING, Life.SERVING: Life.STOPPING, Life.WAITING: Life.STOPPED}
    assert {life: advance(life, Happened.STOP_ASKED) for life in ends} == ends
    assert advance(Life.STOPPING, Happened.EXITED) is Life.STOPPED


def test_the_first_restart_is_immediate_and_later_ones_back_off_to_a_limit() -> None:
    waits = [restart_wait_s(failures) for failures in range(20)]
    assert waits[:5] == [0.0, 0.0, 0.5, 1.0, 2.0]
    assert waits == sorted(waits)
    assert waits[-1] == WAIT_LIMIT_S


async def test_a_program_serves_once_it_is_ready(tmp_path: Path) -> None:
    clock = ManualClock()
    is_ready = asyncio.Event()
    supervisor = Supervisor(_sleeper(tmp_path), is_ready=_value(is_ready.is_set), clock=clock)
    async with _running(supervisor):
        await _until(clock, lambda: supervisor.report().life is Life.STARTING)
        assert not await supervisor.wait_serving(0.0)
        is_ready.set()
        await _until(clock, lambda: supervisor.report().life is Life.SERVING)
        assert await supervisor.wait_serving(0.0)
        report = supervisor.report()
        assert (report.starts, report.problem, report.is_crash_looping) == (1, "", False)
        pid = report.pid
        os.kill(pid, 0)
    assert supervisor.report().life is Life.STOPPED
    assert supervisor.report().pid == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_killed_program_is_started_again_without_time_passing(tmp_path: Path) -> None:
    clock = ManualClock()
    supervisor = Supervisor(_sleeper(tmp_path), is_ready=_value(lambda: True), clock=clock)
    async with _running(supervisor):
        assert await supervisor.wait_serving(WAIT_S)
        os.kill(supervisor.report().pid, signal.SIGKILL)
        await _until(None, lambda: supervisor.report().starts == 2)
        assert await supervisor.wait_serving(WAIT_S)
    assert clock.now() == 0.0


async def test_a_program_that_keeps_ending_is_started_later_and_later_and_said_to_loop(tmp_path: Path) -> None:
    clock = ManualClock()
    program = Program(name="bad", argv=("/bin/sh", "-c", "echo no such option; exit 2"), log_path=tmp_path / "log")
    supervisor = Supervisor(program, is_ready=_value(lambda: False), clock=clock)
    async with _running(supervisor):
        await _until(None, lambda: supervisor.report().starts == 2)
        await _until(None, lambda: supervisor.report().life is Life.WAITING)
        assert not supervisor.report().is_crash_looping
        await _until(clock, lambda: supervisor.report().is_crash_looping)
        assert supervisor.report().starts == CRASH_LOOP
        assert clock.now() >= restart_wait_s(2)
        assert supervisor.report().problem == "bad ended (exit status 2):\nno such option"


async def test_a_long_run_makes_up_for_earlier_failures(tmp_path: Path) -> None:
    clock = ManualClock()
    fuse = tmp_path / "fuse"
    script = f"test -e {fuse} && exec sleep 60; exit 1"
    program = Program(name="late", argv=("/bin/sh", "-c", script), log_path=tmp_path / "log")
    supervisor = Supervisor(program, is_ready=_value(lambda: True), clock=clock)
    async with _running(supervisor):
        await _until(clock, lambda: supervisor.report().is_crash_looping)
        fuse.touch()
        await _until(clock, lambda: _has_exec(supervisor, "sleep"))
        clock.advance(STABLE_S)
        starts, now = supervisor.report().starts, clock.now()
        os.kill(supervisor.report().pid, signal.SIGKILL)
        await _until(None, lambda: supervisor.report().starts == starts + 1)
        assert clock.now() == now, "it was started again at once"
        assert not supervisor.report().is_crash_looping


async def test_a_program_that_cannot_be_started_is_reported_and_tried_again(tmp_path: Path) -> None:
    clock = ManualClock()
    script = tmp_path / "program"
    program = Program(name="absent", argv=(str(script),), log_path=tmp_path / "log")
    supervisor = Supervisor(program, is_ready=_value(lambda: True), clock=clock)
    async with _running(supervisor):
        await _until(clock, lambda: supervisor.report().is_crash_looping)
        assert "absent cannot be started" in supervisor.report().problem
        assert (supervisor.report().pid, supervisor.report().starts) == (0, 0)
        script.write_text("#!/bin/sh\nexec sleep 60\n")
        script.chmod(0o755)
        await _until(clock, lambda: supervisor.report().life is Life.SERVING)
        assert supervisor.report().problem == ""


async def test_a_program_that_does_not_listen_to_the_first_signal_is_killed(tmp_path: Path) -> None:
    clock = ManualClock()
    script = f"trap '' TERM; touch {tmp_path}/trapped; while :; do sleep 60; done"
    program = Program(name="deaf", argv=("/bin/sh", "-c", script), log_path=tmp_path / "log")
    supervisor = Supervisor(program, is_ready=_value((tmp_path / "trapped").exists), clock=clock, grace_s=0.1)
    async with _running(supervisor):
        await _until(clock, lambda: supervisor.report().life is Life.SERVING)
        pid = supervisor.report().pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_stopped_supervisor_can_run_again(tmp_path: Path) -> None:
    supervisor = Supervisor(_sleeper(tmp_path), is_ready=_value(lambda: True), clock=ManualClock())
    for starts in (1, 2):
        async with _running(supervisor):
            assert await supervisor.wait_serving(WAIT_S)
        assert supervisor.report().starts == starts


def _sleeper(folder: Path) -> Program:
    return Program(name="sleeper", argv=("/bin/sleep", "60"), log_path=folder / "log")


def _value(get: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def is_ready() -> bool:
        return get()

    return is_ready


def _has_exec(supervisor: Supervisor, name: str) -> bool:
    pid = supervisor.report().pid
    try:
        return bool(pid) and Path(f"/proc/{pid}/comm").read_text().strip() == name
    except OSError:
        return False


@asynccontextmanager
async def _running(supervisor: Supervisor) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run())
        yield
        running.cancel()


async def _until(clock: ManualClock | None, condition: Callable[[], bool]) -> None:
    """Let things happen until it holds; `clock` moves meanwhile."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.005)  # noqa: TID251 -- processes take real time
        if clock is not None:
            clock.advance(READY_POLL_S)
