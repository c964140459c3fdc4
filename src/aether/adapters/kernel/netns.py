"""Named network namespaces: made, entered and removed by path.

A namespace lives as long as its file (a bind mount) or a process or socket in it. Paths are never reused: a namespace
made again under the same path is not the same namespace to anybody who holds the old one.

Rule: a process's other threads never change their namespace; entering is for the calling thread only and always undone.
"""

import contextlib
import fcntl
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from aether.adapters.kernel import syscall
from aether.adapters.kernel.syscall import KernelError

_OWN = "/proc/thread-self/ns/net"
_NS_GET_NSTYPE = 0xB703  # ioctl_ns(2)


def create_netns(path: Path) -> None:
    """Make a network namespace, held by the file `path` (made, with its folder, if missing). Nothing if it is there.

    Raises:
        KernelError: not allowed, or the file system does not take bind mounts.
    """
    if is_netns(path):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        raise KernelError(f"make {path}", error.errno or 0) from error
    failures: list[KernelError] = []
    thread = threading.Thread(target=_create_in_thread, args=(path, failures), name="create-netns")
    thread.start()
    thread.join()
    if failures:
        path.unlink(missing_ok=True)
        raise failures[0]


def delete_netns(path: Path) -> None:
    """Let go of a namespace: it ends when nothing else uses it. Nothing if it is gone."""
    if is_netns(path):
        syscall.umount(str(path))
    path.unlink(missing_ok=True)


def is_netns(path: Path) -> bool:
    """Whether `path` holds a network namespace (and is not an empty file left behind)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return fcntl.ioctl(fd, _NS_GET_NSTYPE) == syscall.CLONE_NEWNET
    except OSError:
        return False
    finally:
        os.close(fd)


@contextlib.contextmanager
def in_netns(path: Path) -> Iterator[None]:
    """Put the calling thread into the namespace at `path` for the block. No awaiting and no thread starts inside."""
    with _opened(path) as wanted, _opened(Path(_OWN)) as own:
        syscall.setns(wanted, syscall.CLONE_NEWNET)
        try:
            yield
        finally:
            syscall.setns(own, syscall.CLONE_NEWNET)


def socket_in(path: Path, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """A socket that belongs to the namespace at `path`, whatever thread uses it. Takes microseconds; any thread."""
    with in_netns(path):
        return socket.socket(family, kind, protocol)


def netns_command(path: Path, argv: Sequence[str]) -> tuple[str, ...]:
    """The command that runs `argv` in the namespace at `path`."""
    return ("nsenter", f"--net={path}", "--", *argv)


def _create_in_thread(path: Path, failures: list[KernelError]) -> None:
    try:
        syscall.unshare(syscall.CLONE_NEWNET)
        syscall.mount(_OWN, str(path), flags=syscall.MS_BIND)
    except KernelError as error:
        failures.append(error)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise KernelError(f"open {path}", error.errno or 0) from error
    try:
        yield fd
    finally:
        os.close(fd)
