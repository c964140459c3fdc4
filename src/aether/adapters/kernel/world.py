"""Worlds: everything of one single-machine mesh in namespaces of its own, which end with it.

A world is a user namespace (unless the spawner may do without), a network, mount, PID and IPC namespace, a private
folder for its named network namespaces and a private /dev/shm (Envoy's hot restart has its memory there). Nothing on
the host is changed, so nothing has to be undone: when PID 1 of the world ends, the kernel ends the rest.

Trap for whoever makes mount namespaces inside (pods): their copy of the folder of network namespaces keeps every
namespace in it alive; unmount the folder there first.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from aether.adapters.kernel.init import Failed, Report, Started, WorldOrder
from aether.errors import AetherError, Diagnostic

_CAP_NET_ADMIN = 12  # capabilities(7)
_CAP_SYS_ADMIN = 21

_ADVICE = {
    "user-namespace": (
        "this user may not make user namespaces: set sysctl user.max_user_namespaces above 0 and, where they exist, "
        "kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0; or run as root"
    ),
    "namespaces": (
        "no network, mount, PID and IPC namespaces: in a container, give it CAP_SYS_ADMIN and a seccomp profile that "
        "allows unshare (docker run --privileged); on Ubuntu, sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    ),
    "mounts": "mounting is not allowed: in a container, run it with --privileged",
    "proc": "/proc cannot be mounted: a container that masks parts of /proc forbids it, run it with --privileged",
    "loopback": "the loopback device cannot be raised",
    "command": "the command cannot be run inside the world: may this user read it, and every folder above it?",
    "start": "the world's first process did not start",
}


class WorldRefused(AetherError):
    """The world could not be made; nothing of it is left. The diagnostic says what to do."""

    code = "world-refused"

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


def spawn_world(
    argv: Sequence[str], *, name: str, netns_dir: Path, detach: bool = False, log: IO[bytes] | None = None
) -> int:
    """Start `argv` as the command of a new world and return the number of the world's PID 1, a child of this process.

    The world ends with the command, and PID 1 with the command's exit status (128 + signal). SIGTERM, SIGINT, SIGHUP,
    SIGQUIT, SIGUSR1 and SIGUSR2 to PID 1 go to the command. Unless `detach`, the kernel kills the world the moment the
    calling thread ends: call it from the main thread. `netns_dir` is made if missing; inside, it is private to the
    world. Output goes to `log`, else where ours goes, or nowhere when detached. Blocks until the command runs (about
    0.1 s).

    Raises:
        WorldRefused: the kernel does not let us, or the command cannot be run.
    """
    assert detach or threading.current_thread() is threading.main_thread(), "the world would end with this thread"
    _make_folder(netns_dir)
    with contextlib.ExitStack() as pipes:
        reports, report = _open_pipe(pipes)
        alive, _held = _open_pipe(pipes)  # ours alone: it closes when we end
        order = WorldOrder(
            name=name,
            argv=tuple(argv),
            netns_dir=str(netns_dir),
            is_detached=detach,
            needs_user_namespace=needs_user_namespace(),
            report=report.fileno(),
            alive=alive.fileno(),
        )
        starter = _start(order, log)
        report.close()
        try:
            return _read_outcome(reports)
        finally:
            starter.wait()


def wait_world(pid: int) -> int:
    """Wait until a world that this process spawned has ended; the command's exit status."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def needs_user_namespace() -> bool:
    """Whether this process lacks the capabilities to make network and mount namespaces as it is."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return not (held >> _CAP_SYS_ADMIN & 1 and held >> _CAP_NET_ADMIN & 1)


def _make_folder(netns_dir: Path) -> None:
    try:
        netns_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        message = f"{netns_dir} cannot be made: {error.strerror}"
        raise WorldRefused(Diagnostic(code="world-folder", message=message)) from error


def _start(order: WorldOrder, log: IO[bytes] | None) -> subprocess.Popen[bytes]:
    output = subprocess.DEVNULL if order.is_detached and log is None else log
    try:
        return subprocess.Popen(
            (sys.executable, "-P", "-m", "aether.adapters.kernel.init", msgspec.json.encode(order).decode()),
            pass_fds=(order.report, order.alive),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except OSError as error:
        message = f"{sys.executable} cannot be run by this user ({error.strerror}): use an environment they can read"
        raise WorldRefused(Diagnostic(code="world-python", message=message)) from error


def _open_pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return stack.enter_context(os.fdopen(read, "rb")), stack.enter_context(os.fdopen(write, "wb"))


def _read_outcome(reports: IO[bytes]) -> int:
    """PID 1's number, once the command runs: every holder of the pipe has closed it without saying that it failed."""
    pid = 0
    failed = Failed("start", "it ended without a word", 0)
    for line in reports:
        match msgspec.json.decode(line, type=Report):
            case Started(pid=number):
                pid = number
            case Failed() as failed:
                break
    else:
        if pid:
            return pid
    if pid:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    message = f"{_ADVICE[failed.step]} ({failed.message})"
    raise WorldRefused(Diagnostic(code=f"world-{failed.step}", message=message))
