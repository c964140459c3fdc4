"""Start one process of a pod: a container with an init of its own, or a command inside a running container.

Executed by path, by an interpreter that loads nothing but the standard library; the order is JSON in the descriptor
that the first argument names (`launcher.ContainerOrder`, `launcher.ExecOrder`).

A container is three processes. The *keeper* enters the pod's network namespace, makes the container's PID, mount and
UTS namespaces, and stays outside: it writes the log, passes signals on and exits with the command's status. *Init* is
PID 1 inside: it makes the mounts, starts the *command*, and reaps. What goes wrong before the command runs is one line
of JSON on the report descriptor; its end without one means that the command runs.

Works as root, and in a user namespace in which only uid 0 exists.
"""
# pathlib would double the time that this takes to start:
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH112, PTH115, PTH116, PTH120, PTH211

import ctypes
import json
import os
import select
import signal
import sys
from types import FrameType
from typing import Any, NoReturn

_CLONE_NEWNS = 0x0002_0000
_CLONE_NEWUTS = 0x0400_0000
_CLONE_NEWPID = 0x2000_0000
_CLONE_NEWNET = 0x4000_0000

_MS_RDONLY = 0x1
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_NOEXEC = 0x8
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_MOVE = 0x2000
_MS_REC = 0x4000
_MS_UNBINDABLE = 0x2_0000
_MS_PRIVATE = 0x4_0000
_MNT_DETACH = 0x2
_KEPT_FLAGS = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
"""Mount flags that a remount must repeat: in a user namespace they are locked. statvfs(3) has the same numbers."""

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_CAPABILITIES = 64  # more than there are; the kernel says which exist
_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31})
"""What a container may hold (capabilities(7)), as container runtimes do: chown, dac_override, fowner, fsetid, kill,
setgid, setuid, setpcap, net_bind_service, net_raw, sys_chroot, mknod, audit_write, setfcap. Not net_admin, with
which it could leave its capture, and not sys_admin, with which it could uncover what its mounts hide.
"""

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_CHUNK_BYTES = 65536
_CANNOT_START = 128  # the exit status of a container whose command never ran

_libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """A step before the command; the text is for the user."""


def main(descriptor: int) -> NoReturn:
    with os.fdopen(descriptor) as stream:
        order = json.load(stream)
    os.set_inheritable(order["report"], False)  # noqa: FBT003 -- the call has no keyword
    _die_with_parent()
    if os.getppid() != order["parent"]:
        os._exit(_CANNOT_START)
    try:
        if order["what"] == "exec":
            _execute(order)
        _keep(order)
    except (Failed, OSError) as error:
        _give_up(order, error)


# The keeper


def _keep(order: dict[str, Any]) -> NoReturn:
    _enter(order["netns"], _CLONE_NEWNET)
    if order["is_isolated"]:
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS), "make the container's namespaces")
    log = _Log(order["log"], order["log_limit_bytes"])
    output, sink = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    init = os.fork()
    if init == 0:
        os.close(output)
        _be_init(order, sink)
    os.close(sink)
    _report(order, pid=init)
    os.close(order["report"])
    wake, alarm = os.pipe()
    for end in (wake, alarm, output):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _pass_signals_to(init)
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(wake, select.POLLIN)
    while (status := _status_of(init)) is None:
        ready = {fd for fd, _ in poll.poll()}
        if output in ready and _copy(output, log) == 0:
            poll.unregister(output)
        if wake in ready:
            os.read(wake, _CHUNK_BYTES)
    while _copy(output, log) > 0:
        pass
    os._exit(status)


def _status_of(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return _exit_code(status) if ended == pid else None


def _copy(source: int, log: "_Log") -> int:
    """Move one chunk; how many bytes it had: 0 at the end, -1 if there is nothing now."""
    try:
        data = os.read(source, _CHUNK_BYTES)
    except BlockingIOError:
        return -1
    log.write(data)
    return len(data)


class _Log:
    """A file that is appended to; beyond the limit it is renamed to `.1` (the one before is lost) and begun again.

    A full disk loses log lines, never the container.
    """

    def __init__(self, path: str, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        try:
            if self._size and self._size + len(data) > self._limit_bytes:
                os.rename(self._path, f"{self._path}.1")
                os.close(self._fd)
                self._open()
            self._size += os.write(self._fd, data)
        except OSError:
            return


# Init


def _be_init(order: dict[str, Any], sink: int) -> NoReturn:
    try:
        _die_with_parent()
        if order["is_isolated"]:
            hostname = order["hostname"].encode()
            _check(_libc.sethostname(hostname, len(hostname)), "set the host name")
            _Mounts(order["staging"]).make(order)
        command = os.fork()
        if command == 0:
            _be_command(order, sink)
        _report(order, command=command)
    except (Failed, OSError) as error:
        _give_up(order, error)
    os.close(sink)
    os.close(order["report"])
    _pass_signals_to(command)
    while True:
        ended, status = os.wait()
        if ended == command:
            if not order["is_isolated"]:
                _send(-command, signal.SIGKILL)
            os._exit(_exit_code(status))


def _pass_signals_to(pid: int) -> None:
    def forward(number: int, _: FrameType | None) -> None:
        _send(pid, number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)


def _send(target: int, number: int) -> None:
    """To a process, or to the group -`target`; nothing if it is gone."""
    try:
        os.kill(target, number)
    except ProcessLookupError:
        return


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


# The command


def _be_command(order: dict[str, Any], sink: int | None) -> NoReturn:
    """Become the command, its output going to `sink`; without one, the descriptors are as the caller gave them."""
    try:
        _die_with_parent()
        os.setsid()
        if sink is not None:
            nothing = os.open("/dev/null", os.O_RDONLY)
            for source, target in ((nothing, 0), (sink, 1), (sink, 2)):
                os.dup2(source, target)
        _become(order)
    except (Failed, OSError) as error:
        _give_up(order, error)


def _become(order: dict[str, Any]) -> NoReturn:
    """Turn this process into the command."""
    for number in (*_FORWARDED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    directory = order["working_dir"] or "/"
    try:
        os.chdir(directory)
    except OSError as error:
        raise Failed(f"working directory {directory!r}: {error.strerror}") from error
    _drop_capabilities()
    _switch_user(order["run_as"])
    name = order["argv"][0]
    try:
        os.execvpe(name, order["argv"], order["env"])
    except FileNotFoundError:
        raise Failed(f'exec: "{name}": not found') from None
    except OSError as error:
        raise Failed(f'exec: "{name}": {str(error.strerror).lower()}') from error


def _drop_capabilities() -> None:
    """Take from the command what no container may do. Who may not drop any has none to lose."""
    for number in range(_CAPABILITIES):
        if number not in _KEPT_CAPABILITIES:
            _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(number), 0, 0, 0)


def _switch_user(run_as: list[int] | None) -> None:
    if run_as is None:
        return
    user, group = run_as
    try:
        if os.getuid() != user or os.getgid() != group:
            os.setgroups([])
            os.setgid(group)
            os.setuid(user)
    except OSError as error:
        raise Failed(
            f"run as user {user}, group {group}: {error.strerror}; without root there is user 0 only"
        ) from error


# Mounts


class _Mounts:
    """The container's mount namespace. `staging` is an empty directory outside of what is mounted over."""

    def __init__(self, staging: str) -> None:
        self._staging = staging
        self._own_devices: set[int] = set()

    def make(self, order: dict[str, Any]) -> None:
        _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        for path in order["hidden"]:
            _libc.umount2(path.encode(), _MNT_DETACH)
        self._mount_proc()
        for mount in order["mounts"]:
            self._bind(mount["source"], mount["target"], is_read_only=mount["is_read_only"])
        for path in order["covered"]:
            if os.path.isdir(path):
                _mount("tmpfs", path, kind="tmpfs", flags=_KEPT_FLAGS | _MS_RDONLY)

    @staticmethod
    def _mount_proc() -> None:
        """Refused where the machine's own /proc is partly hidden (a container): then that one stays in sight."""
        _libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(_KEPT_FLAGS), None)

    def _bind(self, source: str, target: str, *, is_read_only: bool) -> None:
        target = os.path.realpath(target)
        is_directory = os.path.isdir(source)
        if not os.path.lexists(target):
            self._make_mount_point(target, is_directory=is_directory)
        _mount(source, target, flags=_MS_BIND | _MS_REC)
        if is_read_only:
            kept = os.statvfs(target).f_flag & _KEPT_FLAGS
            _mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY | kept)

    def _make_mount_point(self, target: str, *, is_directory: bool) -> None:
        """Create `target` without touching the machine's file system: its nearest parent becomes a copy of itself."""
        parent = os.path.dirname(target)
        while not os.path.isdir(parent):
            parent = os.path.dirname(parent)
        if os.stat(parent).st_dev not in self._own_devices:
            self._mimic(parent)
            self._own_devices.add(os.stat(parent).st_dev)
        try:
            if is_directory:
                os.makedirs(target, exist_ok=True)
            else:
                os.makedirs(os.path.dirname(target), exist_ok=True)
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        except OSError as error:
            raise Failed(f"make the mount point {target}: {error.strerror}") from error

    def _mimic(self, directory: str) -> None:
        """Cover `directory` by a temporary file system that shows the same entries."""
        stage = self._staging
        _mount("tmpfs", stage, kind="tmpfs", flags=_MS_NOSUID | _MS_NODEV)
        _mount("none", stage, flags=_MS_UNBINDABLE)
        os.chmod(stage, os.stat(directory).st_mode & 0o7777)
        for entry in os.scandir(directory):
            self._mimic_entry(entry, f"{stage}/{entry.name}")
        os.chdir(stage)
        _mount(stage, directory, flags=_MS_MOVE)
        if directory == "/":
            os.chroot(".")
        _mount("none", directory, flags=_MS_PRIVATE)

    @staticmethod
    def _mimic_entry(entry: "os.DirEntry[str]", copy: str) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), copy)
            return
        if entry.is_dir():
            os.mkdir(copy)
        else:
            os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        _mount(entry.path, copy, flags=_MS_BIND | _MS_REC)


# A command inside a running container


def _execute(order: dict[str, Any]) -> NoReturn:
    if order["init"]:
        _join(order["init"])
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    try:
        command = os.fork()
    except OSError as error:
        raise Failed(f"the container has ended: {error.strerror}") from error
    if command == 0:
        _be_command(order, None)
    os.close(order["report"])
    _pass_signals_to(command)
    os._exit(_exit_code(os.waitpid(command, 0)[1]))


def _join(init: int) -> None:
    """Enter the namespaces of the process `init`."""
    try:
        namespaces = [(os.open(f"/proc/{init}/ns/{name}", os.O_RDONLY), kind) for name, kind in _JOINED]
    except OSError as error:
        raise Failed("the container has ended") from error
    for descriptor, kind in namespaces:
        _check(_libc.setns(descriptor, kind), "enter the container")
        os.close(descriptor)


_JOINED = (("net", _CLONE_NEWNET), ("uts", _CLONE_NEWUTS), ("pid", _CLONE_NEWPID), ("mnt", _CLONE_NEWNS))


# The kernel


def _enter(path: str, kind: int) -> None:
    if not path:
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Failed(f"open the namespace {path}: {error.strerror}") from error
    _check(_libc.setns(descriptor, kind), f"enter the namespace {path}")
    os.close(descriptor)


def _mount(source: str, target: str, *, kind: str = "", flags: int = 0) -> None:
    result = _libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), None)
    _check(result, f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}")


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))


def _give_up(order: dict[str, Any], error: Exception) -> NoReturn:
    _report(order, error=f"start the container: {error}" if isinstance(error, OSError) else str(error))
    os._exit(_CANNOT_START)


def _report(order: dict[str, Any], **fields: object) -> None:
    try:
        os.write(order["report"], json.dumps(fields).encode() + b"\n")
    except OSError:
        return


if __name__ == "__main__":
    main(int(sys.argv[1]))
