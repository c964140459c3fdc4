"""PID 1 of a world: makes its namespaces and mounts, runs one command, reaps, and takes everything along when it ends.

Started by `world.spawn_world` as a fresh single-threaded process, because a process with threads cannot get a user
namespace. That process makes the namespaces and starts PID 1 as its own *sibling*, so that PID 1 is a child of the
spawner: its death signal and its exit status are the spawner's.

Rule: nothing is imported here that is not needed before the command runs; this process stays for the world's life.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import NoReturn

import msgspec

from aether.adapters.kernel import syscall
from aether.adapters.kernel.syscall import KernelError

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""What PID 1 passes on to the command."""

_NAMESPACES = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID
_NO_PROGRAMS = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
_SIOCGIFFLAGS = 0x8913  # netdevice(7)
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1


class WorldOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. `report` and `alive` are inherited pipes: where to say how it goes, and who must be alive."""

    name: str
    argv: tuple[str, ...]
    netns_dir: str
    is_detached: bool
    needs_user_namespace: bool
    report: int
    alive: int


class Started(msgspec.Struct, frozen=True, tag=True):
    """PID 1's number, as the spawner sees it."""

    pid: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The step that failed and the kernel's reason; nothing is left behind."""

    step: str
    message: str
    errno: int


Report = Started | Failed


def main(text: str) -> NoReturn:
    """Carry out the order (JSON of `WorldOrder`). Ends the process."""
    order = msgspec.json.decode(text, type=WorldOrder)
    for pipe in (order.report, order.alive):
        fcntl.fcntl(pipe, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    step = "start"
    try:
        _stay_with_spawner(order)
        if order.needs_user_namespace:
            step = "user-namespace"
            _become_root()
        step = "namespaces"
        syscall.unshare(_NAMESPACES)
        step = "start"
        pid = syscall.clone_as_sibling(signal.SIGCHLD)
    except OSError as error:
        _fail(order, step, str(error), error.errno or 0)
    except KernelError as error:
        _fail(order, step, str(error), error.errno)
    if pid:
        _say(order, Started(pid))
        os._exit(0)
    _be_init(order)


def _be_init(order: WorldOrder) -> NoReturn:
    step = "start"
    try:
        os.setsid()
        _stay_with_spawner(order)
        step = "mounts"
        syscall.mount("none", "/", flags=syscall.MS_REC | syscall.MS_PRIVATE)
        step = "proc"
        syscall.mount("proc", "/proc", kind="proc", flags=_NO_PROGRAMS)
        step = "mounts"
        syscall.mount("tmpfs", "/dev/shm", kind="tmpfs", flags=_NO_PROGRAMS, data="mode=1777")
        syscall.mount("tmpfs", order.netns_dir, kind="tmpfs", flags=_NO_PROGRAMS, data="mode=700")
        step = "loopback"
        _raise_loopback()
    except OSError as error:
        _fail(order, step, str(error), error.errno or 0)
    except KernelError as error:
        _fail(order, step, str(error), error.errno)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*FORWARDED, signal.SIGCHLD))
    child = os.fork()
    if child == 0:
        _run(order)
    os.close(order.report)
    os._exit(_reap_until(child))


def _reap_until(child: int) -> int:
    """Reap orphans and pass signals on until the command ends; its exit status, 128 + the signal that killed it."""
    while True:
        received = signal.sigwait((*FORWARDED, signal.SIGCHLD))
        if received != signal.SIGCHLD:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, received)
            continue
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1
            if pid == 0:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code


def _run(order: WorldOrder) -> NoReturn:
    """Become the command. The report pipe closes on exec: silence is success."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvp(order.argv[0], order.argv)
    except OSError as error:
        _fail(order, "command", f"{order.argv[0]}: {error.strerror}", error.errno or 0, status=127)


def _stay_with_spawner(order: WorldOrder) -> None:
    """Die when the spawner dies, however it dies. Checked after asking, since it may be gone already."""
    if order.is_detached:
        return
    syscall.die_with_parent(signal.SIGKILL)
    readable, _, _ = select.select((order.alive,), (), (), 0)
    if readable:
        os._exit(1)


def _become_root() -> None:
    """A user namespace in which this user is root, and nobody else exists."""
    uid, gid = os.geteuid(), os.getegid()
    syscall.unshare(syscall.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack_from("H", fcntl.ioctl(sock, _SIOCGIFFLAGS, request), 16)[0]
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))


def _say(order: WorldOrder, report: Report) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(order.report, msgspec.json.encode(report) + b"\n")


def _fail(order: WorldOrder, step: str, message: str, errno: int, *, status: int = 1) -> NoReturn:
    _say(order, Failed(step, message, errno))
    os._exit(status)


if __name__ == "__main__":
    main(sys.argv[1])
