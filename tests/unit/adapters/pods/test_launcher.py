"""Processes through the sandbox script, without namespaces; with them: tests/netns/test_pods.py."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.pods import ENV, PATIENCE_S, order, shell, until

from aether.adapters.pods.launcher import (
    CannotStart,
    ContainerOrder,
    ExecOrder,
    describe_exit,
    start_container,
    start_exec,
)


async def run(one: ContainerOrder) -> int:
    """Start it and see it to its end."""
    async with asyncio.timeout(PATIENCE_S):
        process = start_container(one)
        await process.wait_started()
        return await process.wait()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe2(os.O_CLOEXEC)
    yield ends
    for end in ends:
        os.close(end)


def log_of(folder: Path) -> str:
    return (folder / "log").read_text()


async def test_both_outputs_are_in_the_log_and_the_status_is_the_commands(tmp_path: Path) -> None:
    assert await run(shell(tmp_path, "echo out; echo err >&2; exit 3")) == 3
    assert sorted(log_of(tmp_path).splitlines()) == ["err", "out"]


async def test_the_environment_is_what_was_ordered_and_nothing_else(tmp_path: Path) -> None:
    assert await run(order(tmp_path, "env", env={**ENV, "ONLY": "this"})) == 0
    assert sorted(log_of(tmp_path).splitlines()) == ["ONLY=this", "PATH=/usr/bin:/bin"]


async def test_input_is_empty_and_the_directory_is_the_root(tmp_path: Path) -> None:
    assert await run(shell(tmp_path, "cat; pwd")) == 0
    assert log_of(tmp_path) == "/\n"


async def test_the_directory_is_the_one_ordered(tmp_path: Path) -> None:
    assert await run(shell(tmp_path, "pwd", working_dir=str(tmp_path))) == 0
    assert log_of(tmp_path) == f"{tmp_path}\n"


CANNOT = [
    (("foo",), {}, 'exec: "foo": not found'),
    (("/no/such/program",), {}, 'exec: "/no/such/program": not found'),
    (("/etc/passwd",), {}, 'exec: "/etc/passwd": permission denied'),
    (("/etc/passwd/x",), {}, 'exec: "/etc/passwd/x": not a directory'),
    (("true",), {"working_dir": "/no/such/place"}, "working directory '/no/such/place': No such file or directory"),
    (("true",), {"netns": "/no/such/place"}, "open the namespace /no/such/place: No such file or directory"),
]


@pytest.mark.parametrize(("argv", "fields", "expected"), CANNOT, ids=[row[2] for row in CANNOT])
async def test_why_a_command_cannot_start_is_said(
    tmp_path: Path, argv: tuple[str, ...], fields: dict[str, str], expected: str
) -> None:
    with pytest.raises(CannotStart) as caught:
        await run(order(tmp_path, *argv, **fields))
    assert str(caught.value) == expected


async def test_a_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="no/such/place/log"):
        await run(shell(tmp_path, "true", log="/no/such/place/log"))


@pytest.mark.parametrize(("script", "code"), [("kill -9 $$", 137), ("kill -15 $$", 143), ("exit 255", 255)])
async def test_a_signal_is_128_and_its_number(tmp_path: Path, script: str, code: int) -> None:
    assert await run(shell(tmp_path, script)) == code


async def test_signals_reach_the_command(tmp_path: Path) -> None:
    process = start_container(
        shell(tmp_path, 'trap "echo got it; exit 5" TERM; echo ready; while :; do sleep 0.05; done')
    )
    await process.wait_started()
    await until_logged(tmp_path, "ready")
    process.signal(signal.SIGTERM)
    assert await process.wait() == 5
    assert "got it" in log_of(tmp_path)
    process.signal(signal.SIGTERM)


async def test_kill_ends_what_the_command_started_too(tmp_path: Path, pipe: tuple[int, int]) -> None:
    process = start_container(shell(tmp_path, "trap '' TERM; sleep 1000 & echo child $!; wait"))
    await process.wait_started()
    await until_logged(tmp_path, "child")
    child = int(log_of(tmp_path).split()[1])
    process.kill()
    await process.wait()
    await until(lambda: not is_alive(child))


async def test_a_long_log_is_renamed_once(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 300 ]; do echo line $i 0123456789; i=$((i+1)); sleep 0.0005; done"
    assert await run(shell(tmp_path, script, log_limit_bytes=2000)) == 0
    files = sizes(tmp_path)
    assert files.keys() == {"log", "log.1"}
    assert max(files.values()) <= 2000
    assert log_of(tmp_path).endswith("line 299 0123456789\n")


async def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    await run(shell(tmp_path, "echo one"))
    await run(shell(tmp_path, "echo two"))
    assert log_of(tmp_path) == "one\ntwo\n"


async def test_a_container_ends_when_its_command_does(tmp_path: Path) -> None:
    assert await run(shell(tmp_path, "sleep 1000 & exit 0")) == 0


async def test_a_command_beside_has_the_callers_descriptors(tmp_path: Path, pipe: tuple[int, int]) -> None:
    output, sink = pipe
    process = start_exec(ExecOrder(argv=("sh", "-c", "echo hello; exit 4"), env=ENV, init=0), (0, sink, sink))
    await process.wait_started()
    assert await process.wait() == 4
    assert os.read(output, 100) == b"hello\n"


async def test_a_command_beside_that_cannot_start_says_why(pipe: tuple[int, int]) -> None:
    process = start_exec(ExecOrder(argv=("foo",), env=ENV, init=0), (0, pipe[1], pipe[1]))
    with pytest.raises(CannotStart, match='exec: "foo": not found'):
        await process.wait_started()


async def test_a_command_in_a_container_that_has_ended_says_so(pipe: tuple[int, int]) -> None:
    process = start_exec(ExecOrder(argv=("true",), env=ENV, init=2**22 - 1), (0, pipe[1], pipe[1]))
    with pytest.raises(CannotStart, match="the container has ended"):
        await process.wait_started()


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, ""), (1, "exit status 1"), (128, "exit status 128"), (137, "ended by SIGKILL"), (255, "exit status 255")],
)
def test_ends_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


async def until_logged(folder: Path, text: str) -> None:
    """Wait until the log has the text."""
    await until(lambda: text in (log_of(folder) if (folder / "log").exists() else ""))


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def is_alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
