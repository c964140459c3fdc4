import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aether.adapters.process import TAIL_LIMIT_BYTES, TAIL_LINES, Program, ProgramFailed, RunningProgram, tail

WAIT_S = 10.0


def _program(folder: Path, script: str, *, env: dict[str, str] | None = None) -> Program:
    return Program(name="test", argv=("/bin/sh", "-c", script), log_path=folder / "test.log", env=env)


async def _wait(running: RunningProgram) -> int:
    async with asyncio.timeout(WAIT_S):
        return await running.wait()


async def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        await asyncio.sleep(0.01)  # noqa: TID251 -- processes take real time


async def test_output_is_appended_to_the_log_and_the_tail_is_of_this_run_only(tmp_path: Path) -> None:
    await _wait(await RunningProgram.start(_program(tmp_path, "echo first; echo error >&2")))
    running = await RunningProgram.start(_program(tmp_path, "echo second; echo error >&2; exit 3"))
    assert await _wait(running) == 3
    assert running.code == 3
    assert running.log_tail() == "second\nerror"
    assert (tmp_path / "test.log").read_text() == "first\nerror\nsecond\nerror\n"


async def test_the_environment_is_replaced_if_one_is_given(tmp_path: Path) -> None:
    await _wait(await RunningProgram.start(_program(tmp_path, "echo [$HOME] [$OWN]", env={"OWN": "x"})))
    assert (tmp_path / "test.log").read_text() == "[] [x]\n"


async def test_a_program_leads_a_session_of_its_own(tmp_path: Path) -> None:
    running = await RunningProgram.start(_program(tmp_path, "exec sleep 60"))
    assert os.getsid(running.pid) == running.pid != os.getsid(0)
    assert running.code is None
    assert await running.stop(grace_s=WAIT_S) == -signal.SIGTERM


async def test_who_ignores_the_first_signal_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    script = "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"
    running = await RunningProgram.start(_program(tmp_path, script))
    await _until(lambda: running.log_tail() != "", "it says who its child is")
    child = int(running.log_tail())
    assert await running.stop(grace_s=0.1) == -signal.SIGKILL
    await _until(lambda: not _is_alive(child), "its child is gone")


async def test_stopping_what_has_ended_gives_its_status(tmp_path: Path) -> None:
    running = await RunningProgram.start(_program(tmp_path, "exit 4"))
    await _wait(running)
    running.signal(signal.SIGTERM)
    assert await running.stop(grace_s=0.1) == 4


@pytest.mark.parametrize(
    ("argv", "log"), [(("/no/such/program",), "test.log"), (("/bin/true",), "no/such/folder/test.log")]
)
async def test_what_cannot_be_started_says_why(tmp_path: Path, argv: tuple[str, ...], log: str) -> None:
    program = Program(name="test", argv=argv, log_path=tmp_path / log)
    with pytest.raises(ProgramFailed, match=r"test cannot be started: .*No such file") as caught:
        await RunningProgram.start(program)
    assert caught.value.code == "program-failed"


async def test_a_program_of_another_machine_says_so(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(200))
    binary.chmod(0o755)
    with pytest.raises(ProgramFailed, match="Exec format error"):
        await RunningProgram.start(Program(name="test", argv=(str(binary),), log_path=tmp_path / "test.log"))


async def test_a_namespace_that_is_not_there_is_in_the_log(tmp_path: Path) -> None:
    program = Program(
        name="test", argv=("/bin/true",), log_path=tmp_path / "test.log", netns=str(tmp_path / "no-namespace")
    )
    running = await RunningProgram.start(program)
    assert await _wait(running) != 0
    assert "no-namespace" in running.log_tail()


def test_a_tail_is_the_last_lines_of_a_bounded_part(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert tail(log).splitlines() == [f"line {number}" for number in range(100 - TAIL_LINES, 100)]
    log.write_text("x" * 2 * TAIL_LIMIT_BYTES)
    assert len(tail(log)) == TAIL_LIMIT_BYTES
    assert tail(tmp_path / "none") == ""


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
