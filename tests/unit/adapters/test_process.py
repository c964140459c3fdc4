"""One ordinary process: its start, its end, its log."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from aether.adapters.process import TAIL_LINES, Program, ProgramFailed, RunningProgram, tail

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def program(folder: Path, script: str, **more: object) -> Program:
    return Program(name="p", argv=(sys.executable, "-c", script), log_path=folder / "log", **more)  # type: ignore[arg-type]


async def said(running: RunningProgram, text: str) -> None:
    """Until the program has written `text`."""
    async with asyncio.timeout(10):
        while text not in running.log_tail():
            await asyncio.wait({asyncio.get_running_loop().create_future()}, timeout=0.01)


async def test_a_program_writes_to_its_log_and_only_its_own_lines_are_its_tail(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("of an earlier run\n")
    running = await RunningProgram.start(program(tmp_path, "import os; print(os.environ['WHO'])", env={"WHO": "me"}))
    assert await running.wait() == 0
    assert (running.code, running.log_tail()) == (0, "me")


async def test_a_program_leads_a_session_of_its_own(tmp_path: Path) -> None:
    running = await RunningProgram.start(program(tmp_path, "import os; print(os.getsid(0))"))
    await running.wait()
    assert running.log_tail() == str(running.pid) != str(os.getsid(0))


async def test_stopping_asks_first_and_kills_what_does_not_listen(tmp_path: Path) -> None:
    polite = await RunningProgram.start(program(tmp_path, "import signal; print('up', flush=True); signal.pause()"))
    await said(polite, "up")
    assert await polite.stop(grace_s=10.0) == -signal.SIGTERM
    stubborn = await RunningProgram.start(program(tmp_path, STUBBORN))
    await said(stubborn, "up")
    assert await stubborn.stop(grace_s=0.1) == -signal.SIGKILL
    stubborn.signal(signal.SIGTERM)  # it has ended: nothing happens


async def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    missing = Program(name="envoy@n1", argv=(str(tmp_path / "no-such-program"),), log_path=tmp_path / "log")
    with pytest.raises(ProgramFailed, match=r"envoy@n1 cannot be started.*no-such-program"):
        await RunningProgram.start(missing)
    with pytest.raises(ProgramFailed, match="no-folder"):
        await RunningProgram.start(Program(name="p", argv=("true",), log_path=tmp_path / "no-folder" / "log"))


def test_a_tail_is_the_last_lines_of_what_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(10_000)) + b"\xff end\n")
    lines = tail(path).splitlines()
    assert len(lines) == TAIL_LINES
    assert lines[-2:] == ["line 9999", "\ufffd end"]
    assert tail(tmp_path / "missing") == ""
    assert tail(tmp_path) == ""
