"""Keeping one program alive: every edge of its life, restarts, crash loops, and its end."""

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

import pytest

from aether.adapters.clock import SystemClock
from aether.adapters.process import Program
from aether.control.supervisor import (
    CRASH_LOOP,
    NEXT_LIFE,
    WAIT_LIMIT_S,
    Happened,
    IllegalTransition,
    Life,
    Supervisor,
    advance,
    restart_wait_s,
)

LIMIT_S = 20.0
PATIENT = "import signal; print('up', flush=True); signal.pause()"


@pytest.mark.parametrize(("life", "happened"), list(itertools.product(Life, Happened)))
def test_every_edge_is_in_the_table_or_is_an_error_that_names_both(life: Life, happened: Happened) -> None:
    if (life, happened) in NEXT_LIFE:
        assert advance(life, happened) is NEXT_LIFE[life, happened]
    else:
        with pytest.raises(IllegalTransition, match=f"{happened.value} while {life.value}"):
            advance(life, happened)


def test_the_first_restart_is_at_once_and_later_ones_wait_longer_up_to_a_limit() -> None:
    waits = [restart_wait_s(failures) for failures in range(20)]
    assert waits[:2] == [0.0, 0.0]
    assert waits == sorted(waits)
    assert waits[-1] == WAIT_LIMIT_S


async def yes() -> bool:
    return True


def supervisor(folder: Path, script: str) -> Supervisor:
    program = Program(name="p@n1", argv=(sys.executable, "-c", script), log_path=folder / "log")
    return Supervisor(program, is_ready=yes, clock=SystemClock(), grace_s=5.0)


async def until(what: Supervisor, *, starts: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while what.report().starts < starts or what.report().life is not Life.SERVING:
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.01)


async def test_a_program_that_is_killed_runs_again_and_ends_with_its_supervisor(tmp_path: Path) -> None:
    patient = supervisor(tmp_path, PATIENT)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(patient.run())
        assert await patient.wait_serving(LIMIT_S)
        first = patient.report().pid
        os.kill(first, signal.SIGKILL)
        await until(patient, starts=2)
        second = patient.report().pid
        assert second != first
        assert patient.report().problem == ""
        running.cancel()
    report = patient.report()
    assert (report.life, report.pid) == (Life.STOPPED, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(second, 0)


async def test_a_program_that_never_stays_is_a_crash_loop_with_its_last_words(tmp_path: Path) -> None:
    failing = supervisor(tmp_path, "import sys; print('no such bootstrap'); sys.exit(3)")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(failing.run())
        async with asyncio.timeout(LIMIT_S):
            while not failing.report().is_crash_looping:
                await asyncio.wait({running}, timeout=0.01)
        running.cancel()
    report = failing.report()
    assert report.starts >= CRASH_LOOP
    assert "no such bootstrap" in report.problem
    assert "p@n1 ended" in report.problem


async def test_a_program_that_cannot_be_started_says_so(tmp_path: Path) -> None:
    missing = Supervisor(
        Program(name="p@n1", argv=(str(tmp_path / "nothing"),), log_path=tmp_path / "log"),
        is_ready=yes,
        clock=SystemClock(),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(missing.run())
        async with asyncio.timeout(LIMIT_S):
            while not missing.report().problem:
                await asyncio.wait({running}, timeout=0.01)
        assert not await missing.wait_serving(0.01)
        running.cancel()
    assert "cannot be started" in missing.report().problem
    assert missing.report().starts == 0
