import socket
from pathlib import Path

from tests.support.memoryworld import ServedWorld, served_world
from tests.unit.cli.conftest import Aether


def test_without_a_world_it_says_how_to_start_one(aether: Aether) -> None:
    said = aether("status")
    assert said.code == 1
    assert "no world is running" in said.err
    assert "aether up" in said.err


def test_a_world_that_is_named_and_does_not_run_is_named_beside_those_that_do(
    aether: Aether, served: ServedWorld
) -> None:
    said = aether("status", "--world", "other")
    assert said.code == 1
    assert "'other'" in said.err
    assert "running: default" in said.err


def test_of_two_worlds_one_must_be_named(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    with served_world(tmp_path, "second"):
        said = aether("status")
        assert (said.code, "--world" in said.err, "default, second" in said.err) == (2, True, True)
        assert "world second" in aether("status", "--world", "second").out


def test_a_socket_that_an_ended_world_left_is_no_world(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    stale = tmp_path / "run" / "stale"
    stale.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(stale / "api.sock"))
    assert "world default" in aether("status").out
    said = aether("status", "--world", "stale")
    assert said.code == 1
    assert "has ended" in said.err


def test_a_world_s_name_that_cannot_be_one_is_wrong_input(aether: Aether) -> None:
    assert aether("status", "--world", "../etc").code == 2
