"""The script that containers start through, on the real kernel: as root, and where there is only user 0."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.root

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 60.0
USER_0_ONLY = ("unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--mount-proc")


def told(folder: Path, *prefix: str) -> dict[str, Any]:
    """What `container_inside` says, run with a prefix."""
    command = (*prefix, sys.executable, "-m", "tests.netns.container_inside", str(folder))
    run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=REPOSITORY)
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


@pytest.fixture
def starter(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has started a container, and waits."""
    command = (sys.executable, "-m", "tests.netns.container_inside", str(tmp_path), "--stay")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("prefix", [(), USER_0_ONLY], ids=["root", "user-0-only"])
def test_a_container_has_its_name_mounts_and_processes(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    assert told(tmp_path, *prefix)["started"] == {"code": 3, "log": ["me", "text", "1"]}


@pytest.mark.parametrize("prefix", [(), USER_0_ONLY], ids=["root", "user-0-only"])
def test_what_cannot_start_says_why(tmp_path: Path, prefix: tuple[str, ...]) -> None:
    assert told(tmp_path, *prefix)["missing"] == {"error": 'exec: "foo": not found'}


def test_root_may_run_a_container_as_somebody_else(tmp_path: Path) -> None:
    assert told(tmp_path)["other-user"] == {"code": 0, "log": []}


def test_without_root_there_is_nobody_else(tmp_path: Path) -> None:
    assert told(tmp_path, *USER_0_ONLY)["other-user"] == {
        "error": "run as user 1000, group 1000: Operation not permitted; without root there is user 0 only"
    }


def test_nothing_is_made_on_the_machine(tmp_path: Path) -> None:
    told(tmp_path)
    assert not Path("/no-such-place").exists()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_a_container_ends_with_who_started_it(starter: "subprocess.Popen[str]") -> None:
    assert starter.stdout is not None
    init = int(starter.stdout.readline())
    namespace = _pid_namespace(Path(f"/proc/{init}"))
    assert namespace in pid_namespaces()
    starter.send_signal(signal.SIGKILL)
    wait_until(lambda: namespace not in pid_namespaces(), "the container to end")


def pid_namespaces() -> set[str]:
    return {_pid_namespace(path) for path in Path("/proc").iterdir() if path.name.isdigit()}


def _pid_namespace(process: Path) -> str:
    try:
        return str((process / "ns" / "pid").readlink())
    except OSError:
        return ""


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"waited {LIMIT_S} s for {what}"
        os.sched_yield()
