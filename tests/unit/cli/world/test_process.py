import os
import signal
import subprocess
from pathlib import Path

import pytest

from aether.adapters.paths import WorldPaths
from aether.cli.failure import CliError
from aether.cli.world.process import (
    WorldRuns,
    claim_runtime,
    end_world,
    is_running,
    read_process,
    remove_runtime,
    wait_end,
    write_process,
)


@pytest.fixture
def paths(tmp_path: Path) -> WorldPaths:
    return WorldPaths("w", runtime=tmp_path / "run", state=tmp_path / "state")


def test_a_process_is_found_while_it_lives(paths: WorldPaths) -> None:
    assert read_process(paths) is None
    paths.runtime.mkdir(parents=True)
    child = subprocess.Popen(("sleep", "60"))
    write_process(paths, child.pid)
    assert read_process(paths) == child.pid
    assert is_running(paths)
    child.kill()
    child.wait()
    assert not is_running(paths)


def test_another_process_of_the_same_number_is_not_the_world(paths: WorldPaths) -> None:
    paths.runtime.mkdir(parents=True)
    (paths.runtime / "world.json").write_text(f'{{"pid":{os.getpid()},"started":"1"}}')
    assert read_process(paths) is None


def test_a_runtime_folder_is_claimed_once_and_emptied(paths: WorldPaths) -> None:
    (paths.runtime / "nodes").mkdir(parents=True)
    (paths.runtime / "api.sock").touch()
    with claim_runtime(paths):
        assert list(paths.runtime.iterdir()) == []
        with pytest.raises(WorldRuns, match="'w'"), claim_runtime(paths):
            pass
    with claim_runtime(paths):
        pass
    remove_runtime(paths)
    assert not paths.runtime.exists()
    remove_runtime(paths)


def test_a_folder_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    paths = WorldPaths("w", runtime=tmp_path / "run", state=tmp_path)
    with pytest.raises(CliError, match="run") as error, claim_runtime(paths):
        pass
    assert error.value.advice


def test_a_world_is_asked_to_end_and_then_made_to() -> None:
    polite = subprocess.Popen(("sleep", "60"))
    end_world(polite.pid)
    stubborn = subprocess.Popen(("sh", "-c", "trap '' TERM; echo; while :; do read x; done"), stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    end_world(stubborn.pid, timeout_s=0.05)
    stubborn.stdout.close()
    assert wait_end(stubborn.pid, 0)
    end_world(stubborn.pid)
    assert (polite.wait(), stubborn.wait()) == (0, 0), "they have been reaped already"


def test_waiting_for_a_child_reaps_it() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    assert not wait_end(child, 0)
    os.kill(child, signal.SIGKILL)
    assert wait_end(child, 10)
    with pytest.raises(ChildProcessError):
        os.waitpid(child, 0)
