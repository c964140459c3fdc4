"""Processes of pods: containers, and commands inside them, started through `sandbox.py`.

Owns: processes, pipes and signals. Decides nothing: what to start is an order, what became of it a return value.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aether.errors import AetherError

CANNOT_START = 128
"""The exit status of a container whose command never ran."""

_SCRIPT = str(Path(__file__).with_name("sandbox.py"))
_REPORT_LIMIT_BYTES = 65536


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """`source`, a file or directory, in sight at `target` in the container."""

    source: str
    target: str
    is_read_only: bool = True


class ContainerOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A container to start.

    `netns` is the pod's network namespace ("" for the caller's own). Without `is_isolated` the command shares the
    caller's other namespaces and mounts, and its process group is all that ends with it. `staging` is an empty
    directory, `hidden` are mounts that the container must not hold on to, `covered` directories that it must
    not see into.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    log: str
    log_limit_bytes: int
    netns: str = ""
    is_isolated: bool = True
    working_dir: str = ""
    hostname: str = ""
    run_as: tuple[int, int] | None = None
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()
    staging: str = ""


class ExecOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run in the namespaces of the process `init` (0: in the caller's own)."""

    argv: tuple[str, ...]
    env: dict[str, str]
    init: int
    working_dir: str = ""
    run_as: tuple[int, int] | None = None


class CannotStart(AetherError):
    """The command never ran; the message says why."""

    code = "cannot-start"


class ContainerProcess:
    """A process that `sandbox.py` became, and what it reported before its command ran."""

    def __init__(self, process: "subprocess.Popen[bytes]", report: int, *, is_isolated: bool) -> None:
        self._is_isolated = is_isolated
        self._process = process
        self._report = report
        self._pidfd = os.pidfd_open(process.pid)
        self._ended = asyncio.Event()
        self._code = 0
        self._group = 0
        self.init = 0
        """The process id of the container's init, once `wait_started` has returned."""
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    async def wait_started(self) -> None:
        """Return once the command runs.

        Raises:
            CannotStart: it does not, and never will.
        """
        data = await _read_all(self._report)
        lines = [msgspec.json.decode(line) for line in data.splitlines()]
        self.init = next((line["pid"] for line in lines if "pid" in line), 0)
        if not self._is_isolated:
            self._group = next((line["command"] for line in lines if "command" in line), 0)
        error = next((line["error"] for line in lines if "error" in line), "")
        if error:
            await self.wait()
            raise CannotStart(error)

    async def wait(self) -> int:
        """The exit status of the command; 128 + n if signal n ended it. Cancelling kills it."""
        try:
            await self._ended.wait()
        except asyncio.CancelledError:
            self.kill()
            raise
        return self._code

    def signal(self, number: int) -> None:
        """Pass a signal to the command; nothing happens if it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End everything in the container, or the command and its group, at once."""
        if self._group and not self.has_ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._group, signal.SIGKILL)
        self._process.send_signal(signal.SIGKILL)

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def _on_end(self) -> None:
        code = self._process.wait()
        self._code = code if code >= 0 else 128 - code
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()


def start_container(order: ContainerOrder) -> ContainerProcess:
    """Start a container; its end follows this process's own, whatever happens."""
    return _start("container", order, stdio=(subprocess.DEVNULL, subprocess.DEVNULL, subprocess.DEVNULL))


def start_exec(order: ExecOrder, stdio: tuple[int, int, int]) -> ContainerProcess:
    """Start a command in a running container, on descriptors that stay the caller's."""
    return _start("exec", order, stdio=stdio)


def _start(what: str, order: ContainerOrder | ExecOrder, *, stdio: tuple[int, int, int]) -> ContainerProcess:
    report, sink = os.pipe2(os.O_CLOEXEC)
    fields = {"what": what, "parent": os.getpid(), "report": sink, **msgspec.to_builtins(order)}
    with _open_descriptor(msgspec.json.encode(fields)) as descriptor:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-I", _SCRIPT, str(descriptor)],
            stdin=stdio[0],
            stdout=stdio[1],
            stderr=stdio[2],
            pass_fds=(descriptor, sink),
            start_new_session=True,
        )
    os.close(sink)
    is_isolated = not isinstance(order, ContainerOrder) or order.is_isolated
    return ContainerProcess(process, report, is_isolated=is_isolated)


@contextlib.contextmanager
def _open_descriptor(data: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


async def _read_all(descriptor: int) -> bytes:
    """Read to the end and close. The end comes when the command runs, or when nothing will."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    chunks: list[bytes] = []
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            chunk = os.read(descriptor, _REPORT_LIMIT_BYTES)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def describe_exit(code: int) -> str:
    """What an exit status says to people; "" for 0."""
    if code == 0:
        return ""
    if code > 128 and code - 128 in {member.value for member in signal.Signals}:
        return f"ended by {signal.Signals(code - 128).name}"
    return f"exit status {code}"
