"""A world's processes, seen from the host: PID 1's number kept in a file, waiting for its end, ending it."""

import contextlib
import fcntl
import os
import select
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from aether.adapters.paths import WorldPaths
from aether.cli.failure import CliError
from aether.cli.worlds import is_listening

STOP_TIMEOUT_S = 40.0
"""How long an orderly end may take: the longest usual grace period of a pod, and some."""
KILL_TIMEOUT_S = 5.0

_FILE = "world.json"


class WorldRuns(CliError):
    code = "world-runs"

    def __init__(self, name: str) -> None:
        advice = (
            f"`aether apply -f DIR --world {name}` adds to it, `aether down --world {name}` ends it, "
            "and `aether up --world NAME` starts another beside it"
        )
        super().__init__(f"world {name!r} is running already", advice=advice)


class WorldProcess(msgspec.Struct, frozen=True):
    """PID 1 of a world as the host numbers it. `started` (clock ticks since boot) tells it from a later namesake."""

    pid: int
    started: str


def write_process(paths: WorldPaths, pid: int) -> None:
    process = WorldProcess(pid, _started(pid))
    (paths.runtime / _FILE).write_bytes(msgspec.json.encode(process))


def read_process(paths: WorldPaths) -> int | None:
    """PID 1 of the world if it lives; None if it has ended or never was."""
    try:
        process = msgspec.json.decode((paths.runtime / _FILE).read_bytes(), type=WorldProcess)
    except (OSError, msgspec.MsgspecError):
        return None
    return process.pid if process.started and _started(process.pid) == process.started else None


def is_running(paths: WorldPaths) -> bool:
    return read_process(paths) is not None or is_listening(paths.api_socket)


@contextmanager
def claim_runtime(paths: WorldPaths) -> Iterator[None]:
    """Hold the world's runtime folder (mode 0700, emptied): one `up` of a world at a time.

    Raises:
        WorldRuns: the world runs, or another `up` is starting it.
        CliError: the folder cannot be made or emptied.
    """
    try:
        paths.runtime.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(paths.runtime, os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unusable(paths, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WorldRuns(paths.name) from None
        if is_running(paths):
            raise WorldRuns(paths.name)
        _empty(paths)
        yield
    finally:
        os.close(descriptor)


def remove_runtime(paths: WorldPaths) -> None:
    """Remove the runtime folder of a world that has ended."""
    with contextlib.suppress(OSError):
        shutil.rmtree(paths.runtime)


def wait_end(pid: int, timeout_s: float | None) -> bool:
    """Whether the process has ended within the time (None: however long it takes). A child is reaped."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ended, _, _ = select.select((descriptor,), (), (), timeout_s)
    finally:
        os.close(descriptor)
    if ended:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return bool(ended)


def end_world(pid: int, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
    """Ask PID 1 to end; after the time, make it. The kernel takes everything else along.

    Raises:
        CliError: it does not end (it belongs to another user, or hangs in the kernel).
    """
    try:
        os.kill(pid, signal.SIGTERM)
        if wait_end(pid, timeout_s):
            return
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise CliError(f"process {pid} belongs to another user") from error
    if not wait_end(pid, KILL_TIMEOUT_S):
        raise CliError(f"process {pid} does not end; it hangs in the kernel")


def _started(pid: int) -> str:
    """Field 22 of /proc/PID/stat (proc(5)); "" if there is no such process, or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _empty(paths: WorldPaths) -> None:
    """Remove what an earlier world of this name left."""
    try:
        for left in paths.runtime.iterdir():
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left)
            else:
                left.unlink()
    except OSError as error:
        raise _unusable(paths, error) from error


def _unusable(paths: WorldPaths, error: OSError) -> CliError:
    advice = "set XDG_RUNTIME_DIR to a folder of yours" if os.getuid() else "is /run full or read-only?"
    return CliError(f"{error.filename or paths.runtime}: {error.strerror}", advice=advice)
