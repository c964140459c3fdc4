"""Worlds, as root and as an ordinary user: they are complete, and nothing of them stays."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.netns.lab import Lab

from aether.adapters.kernel.diagnose import diagnose_world

pytestmark = pytest.mark.root

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
DEADLINE_S = 20.0


class User(msgspec.Struct, frozen=True):
    """Who spawns: a prefix of the command, the interpreter they may run, and a folder that is theirs."""

    prefix: tuple[str, ...]
    python: str
    folder: Path

    def spawner(self, *argv: str) -> tuple[str, ...]:
        return (*self.prefix, self.python, "-B", "-m", "tests.netns.spawner", str(self.folder / "netns"), *argv)

    def inside(self, *options: str) -> tuple[str, ...]:
        return (self.python, "-B", "-m", "tests.netns.inside", str(self.folder / "netns"), *options)


@pytest.fixture(params=["root", "nobody"])
def user(request: pytest.FixtureRequest) -> Iterator[User]:
    folder = Path(tempfile.mkdtemp(prefix="aether-test-"))
    try:
        yield _nobody(folder) if request.param == "nobody" else User((), sys.executable, folder)
    finally:
        shutil.rmtree(folder)


def _nobody(folder: Path) -> User:
    os.chown(folder, NOBODY, NOBODY)
    prefix = (
        "setpriv",
        f"--reuid={NOBODY}",
        f"--regid={NOBODY}",
        "--clear-groups",
        "env",
    )  # env: setpriv itself may still read
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = next(
        (
            each
            for each in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin"))
            if each and _succeeds((*prefix, each, "-c", "import pyroute2, tests.netns.inside"))
        ),
        None,
    )
    if python is None:
        pytest.skip(f"an ordinary user cannot read this environment ({sys.prefix}, {REPOSITORY}), and has no {version}")
    user = User(prefix, python, folder)
    tried = run(user.spawner("true"))
    if tried.returncode == 2:
        pytest.skip(f"an ordinary user gets no world here: {tried.stderr.strip()}")
    return user


def _succeeds(command: tuple[str, ...]) -> bool:
    with contextlib.suppress(OSError):
        return run(command).returncode == 0
    return False


def environment() -> dict[str, str]:
    """Where an interpreter that is not this one finds the project and its dependencies."""
    packages = Path(msgspec.__file__).parents[1]
    paths = (REPOSITORY, REPOSITORY / "src", packages)
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "HOME": "/nonexistent"}


def run(command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=DEADLINE_S, env=environment(), cwd="/"
    )


@contextlib.contextmanager
def started(command: tuple[str, ...]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A spawner whose world's command has said its first line, and the world's PID 1."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd="/") as process:
        try:
            assert process.stdout is not None
            yield process, pid_in([process.stdout.readline() for _ in range(2)])
        finally:
            process.kill()


def pid_in(lines: list[str]) -> int:
    """What the spawner says among its world's output, in either order."""
    return int(next(line for line in lines if line.startswith("pid ")).split()[1])


def said(text: str) -> list[str]:
    """What the world's command printed."""
    return [line for line in text.splitlines() if not line.startswith("pid ")]


def wait_until(what: str, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain until {what}"
        time.sleep(0.01)


def namespace_of(pid: int, kind: str) -> str:
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


def members(kind: str, namespace: str) -> list[int]:
    """The processes in a namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and namespace_of(int(entry.name), kind) == namespace:
                found.append(int(entry.name))
    return found


def mounts_below(folder: Path) -> list[str]:
    """Every mount below `folder` that any process has."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                lines = (entry / "mountinfo").read_text().splitlines()
                found += [line for line in lines if f" {folder}/" in line]
    return found


def test_a_world_ends_with_its_command_and_its_status(user: User) -> None:
    done = run(user.spawner("sh", "-c", "exit 7"))
    assert (done.returncode, done.stderr) == (7, "")


def test_a_command_killed_by_a_signal_is_reported_as_shells_do(user: User) -> None:
    assert run(user.spawner("sh", "-c", "kill -KILL $$")).returncode == 128 + signal.SIGKILL


def test_inside_one_is_root_and_alone(user: User) -> None:
    done = run(user.spawner("sh", "-c", "id -u; echo $$ $PPID; ls /dev/shm | wc -l; grep -c . /proc/net/dev"))
    assert said(done.stdout) == ["0", "2 1", "0", "3"], done.stderr


def test_capture_works_inside(user: User) -> None:
    done = run(user.spawner(*user.inside()))
    assert said(done.stdout) == ["10.96.0.5 8080"], done.stderr
    assert done.returncode == 0


def test_a_signal_to_the_first_process_reaches_the_command(user: User) -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    with started(user.spawner("sh", "-c", script)) as (process, pid):
        os.kill(pid, signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 9


def test_orphans_are_reaped(user: User) -> None:
    script = "(true & true & true &) ; while grep -q '^State:.*Z' /proc/[0-9]*/status; do :; done; echo clean"
    assert said(run(user.spawner("sh", "-c", script)).stdout) == ["clean"]


def test_killing_the_spawner_leaves_nothing(user: User) -> None:
    with started(user.spawner(*user.inside("--stay"))) as (process, pid):
        before = {kind: namespace_of(pid, kind) for kind in ("pid", "net", "mnt", "ipc")}
        assert all(namespace != namespace_of(os.getpid(), kind) for kind, namespace in before.items())
        wait_until("the pod's process runs", lambda: len(members("pid", before["pid"])) >= 3)
        assert mounts_below(user.folder)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
        wait_until("every process is gone", lambda: not any(members(kind, each) for kind, each in before.items()))
    assert mounts_below(user.folder) == []
    assert list((user.folder / "netns").iterdir()) == []


def test_a_detached_world_outlives_its_spawner_until_it_is_told_to_end(user: User) -> None:
    log = user.folder / "pid"
    done = run(user.spawner("--detach", "sh", "-c", f"echo here > {log}; exec sleep 1000"))
    pid = pid_in(done.stdout.splitlines())
    try:
        wait_until("the command runs", lambda: log.exists() and log.read_text() == "here\n")
        assert len(members("pid", namespace_of(pid, "pid"))) == 2
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_until("the world is gone", lambda: not Path(f"/proc/{pid}/ns").exists() or not _is_alive(pid))


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def test_a_command_that_cannot_run_is_refused_with_its_name(user: User) -> None:
    done = run(user.spawner("/nonexistent/program"))
    assert done.returncode == 2
    assert done.stderr.startswith("world-command: ")
    assert "/nonexistent/program" in done.stderr


def test_a_folder_that_cannot_be_made_is_refused_with_its_name(user: User) -> None:
    shutil.rmtree(user.folder / "netns", ignore_errors=True)
    (user.folder / "netns").write_text("a file")
    done = run(user.spawner("true"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"world-folder: {user.folder / 'netns'}")


def test_the_host_is_unchanged_after_a_world(lab: Lab, tmp_path: Path) -> None:
    """The lab's own namespace stands for the host's, with rules and routes of its own."""
    host = User((), sys.executable, tmp_path)
    questions = (("nft", "list", "ruleset"), ("ip", "rule"), ("ip", "-6", "rule"), ("ip", "route"), ("ip", "address"))

    def look() -> list[str]:
        return [lab.run(run, question).stdout for question in questions if shutil.which(question[0])]

    before = look()
    assert said(lab.run(run, host.spawner(*host.inside())).stdout) == ["10.96.0.5 8080"]
    assert look() == before


def test_this_machine_lacks_nothing(tmp_path: Path) -> None:
    assert diagnose_world([tmp_path]) == []


def test_a_folder_that_cannot_hold_a_world_is_named(tmp_path: Path) -> None:
    (found,) = diagnose_world([Path("/proc/aether")])
    assert (found.code, found.where) == ("world-disk-full", "/proc/aether")
