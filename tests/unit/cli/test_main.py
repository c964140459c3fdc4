import os
import subprocess
import sys

import pytest
from tests.unit.cli.conftest import Aether

from aether.cli.main import app

COMMANDS = [command.name or str(getattr(command.callback, "__name__", "")) for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(aether: Aether, command: str) -> None:
    said = aether(command, "--help")
    assert said.code == 0
    assert "Usage" in said.out


@pytest.mark.parametrize(
    "words", [("frobnicate",), ("status", "--frob"), ("get",), ("status", "-o", "xml"), ("up", "--nodes", "0")]
)
def test_wrong_usage_ends_with_two(aether: Aether, words: tuple[str, ...]) -> None:
    assert aether(*words).code == 2


def test_help_loads_nothing_that_it_does_not_need() -> None:
    script = "import sys, aether.cli.main; print(*sorted(sys.modules))"
    loaded = subprocess.run((sys.executable, "-c", script), capture_output=True, text=True, check=True).stdout.split()
    assert not {"aiohttp", "asyncio", "rich.table", "yaml", "google.protobuf", "grpc"} & set(loaded)


def test_help_costs_little() -> None:
    """The target is 0.4 s on an idle machine. Processor time is measured, so that a busy one does not decide."""
    child = os.posix_spawn(
        sys.executable,
        (sys.executable, "-m", "aether.cli.main", "--help"),
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)],
    )
    _, status, usage = os.wait4(child, 0)
    assert status == 0
    assert usage.ru_utime + usage.ru_stime < 0.6
