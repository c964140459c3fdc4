"""One ordinary process: what to run, its start, its end, and the last lines of its log.

Owns: the process, its session and its log file. Decides nothing: when to start and stop is the supervisor's.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from aether.adapters.kernel.netns import netns_command
from aether.errors import AetherError

TAIL_LINES = 8
TAIL_LIMIT_BYTES = 16_384


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. `netns` is a network namespace's path ("" for the caller's own); output is appended to `log_path`.

    `env` replaces the environment; None inherits it.
    """

    name: str
    argv: tuple[str, ...]
    log_path: Path
    env: Mapping[str, str] | None = None
    netns: str = ""


class ProgramFailed(AetherError):
    """A program could not be started. The message says why."""

    code = "program-failed"


class RunningProgram:
    """A started program, leader of a session of its own: signals to our group do not reach it."""

    def __init__(self, program: Program, process: asyncio.subprocess.Process, log_start: int) -> None:
        self.program = program
        self._process = process
        self._log_start = log_start

    @classmethod
    async def start(cls, program: Program) -> Self:
        """Start it; it may end at once.

        Raises:
            ProgramFailed: the executable, the log file or the namespace cannot be used.
        """
        argv = netns_command(Path(program.netns), program.argv) if program.netns else program.argv
        try:
            with program.log_path.open("ab") as log:
                log_start = log.tell()
                process = await asyncio.create_subprocess_exec(
                    *argv,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=program.env,
                    start_new_session=True,
                )
        except OSError as error:
            raise ProgramFailed(f"{program.name} cannot be started: {error}") from error
        return cls(program, process, log_start)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    async def stop(self, *, grace_s: float) -> int:
        """SIGTERM, at most `grace_s`, then SIGKILL for its whole session. The exit status."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._process.wait()
        if self._process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)
        return await self._process.wait()

    def signal(self, number: int) -> None:
        """Nothing happens if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def log_tail(self) -> str:
        """The last lines that this run wrote; "" without any."""
        return tail(self.program.log_path, start=self._log_start)


def tail(path: Path, *, start: int = 0) -> str:
    """The last `TAIL_LINES` lines of a file from `start` on; "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - TAIL_LIMIT_BYTES))
            data = file.read(TAIL_LIMIT_BYTES)
    except OSError:
        return ""
    return "\n".join(data.decode(errors="replace").splitlines()[-TAIL_LINES:])
