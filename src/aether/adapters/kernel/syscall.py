"""The system calls that Python 3.11 does not have: unshare, setns, mount, umount2, prctl, clone.

Owns: their numbers, their flags and one error class. Decides nothing.
"""

import ctypes
import os
import platform

from aether.errors import AetherError

CLONE_NEWNS = 0x0002_0000
CLONE_NEWCGROUP = 0x0200_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000
CLONE_PARENT = 0x0000_8000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x4_0000

MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_SYS_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.syscall.restype = ctypes.c_long


class KernelError(AetherError):
    """The kernel refused a call. `errno` is its reason."""

    code = "kernel"

    def __init__(self, call: str, errno: int) -> None:
        super().__init__(f"{call}: {os.strerror(errno)}")
        self.errno = errno


def unshare(flags: int) -> None:
    """Give the calling thread new namespaces (unshare(2)). A new user namespace needs a single-threaded process."""
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, kind: int) -> None:
    """Move the calling thread into the namespace that `fd` refers to (setns(2))."""
    _check(_libc.setns(fd, kind), f"setns({kind:#x})")


def mount(source: str, target: str, *, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2); an empty `kind` or `data` is NULL."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None
    )
    _check(result, f"mount {kind or 'bind'} at {target}")


def umount(target: str, *, flags: int = MNT_DETACH) -> None:
    """umount2(2)."""
    _check(_libc.umount2(target.encode(), flags), f"umount {target}")


def die_with_parent(signal: int) -> None:
    """Have the kernel send `signal` to this process when the *thread* that started it ends (PR_SET_PDEATHSIG)."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal), 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def clone_as_sibling(signal: int) -> int:
    """Fork, but the child's parent is the caller's parent (CLONE_PARENT). Returns 0 in the child, as fork does.

    For single-threaded processes only: nothing is prepared for other threads' locks.
    """
    number = _SYS_CLONE.get(platform.machine())
    if number is None:
        raise KernelError(f"clone on {platform.machine()}", 38)  # ENOSYS
    arguments = (ctypes.c_ulong(CLONE_PARENT | signal), *(ctypes.c_ulong(0),) * 4)
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), "clone(CLONE_PARENT)")


def _check(result: int, call: str) -> int:
    if result < 0:
        raise KernelError(call, ctypes.get_errno())
    return result
