import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.memoryworld import ServedWorld, pod
from tests.unit.cli.conftest import Aether


@pytest.fixture
def cart(served: ServedWorld) -> ServedWorld:
    served.apply(pod("shop/cart-1"))
    return served


def test_the_output_and_the_exit_code_are_the_command_s(aether: Aether, cart: ServedWorld) -> None:
    said = aether("exec", "shop/cart-1", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (said.code, said.out, said.err) == (7, "out\n", "err\n")
    assert cart.world.executed[0].pod == "cart-1"


def test_options_after_the_dashes_are_the_command_s(aether: Aether, cart: ServedWorld) -> None:
    assert aether("exec", "cart-1", "-n", "shop", "--", "echo", "-n", "--help").out == "--help"


def test_what_cannot_run_is_said(aether: Aether, cart: ServedWorld) -> None:
    said = aether("exec", "nobody", "--", "true")
    assert said.code == 1
    assert "there are shop/cart-1" in said.err
    assert aether("exec", "cart-1", "--", "x" * 200_000).code == 2


def test_a_terminal_is_the_command_s_terminal_and_is_given_back_as_it_was(cart: ServedWorld, tmp_path: Path) -> None:
    """Python's pty module: a command that sees a terminal, and turns its echo off."""
    ours, theirs = pty.openpty()
    before = subprocess.run(("stty", "-g"), stdin=theirs, capture_output=True, check=True).stdout
    command = (sys.executable, "-m", "aether.cli.main", "exec", "cart-1", "--")
    client = subprocess.Popen(
        (*command, "sh", "-c", "stty -echo && test -t 0 && test -t 1 && echo $TERM is a terminal"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "AETHER_RUNTIME_DIR": str(tmp_path / "run"), "TERM": "vt100"},
    )
    assert client.wait(20) == 0
    assert b"is a terminal" in os.read(ours, 1000)
    assert cart.world.executed[0].terminal == "vt100"
    assert subprocess.run(("stty", "-g"), stdin=theirs, capture_output=True, check=True).stdout == before
    os.close(ours)
    os.close(theirs)


def test_an_interrupt_reaches_the_command(cart: ServedWorld, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "aether.cli.main", "exec", "cart-1", "--")
    client = subprocess.Popen(
        (*command, "sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do read x; done"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "AETHER_RUNTIME_DIR": str(tmp_path / "run")},
    )
    assert client.stdout is not None
    assert client.stdin is not None
    assert client.stdout.readline() == b"ready\n"
    client.send_signal(2)
    client.stdin.write(b"\n")
    client.stdin.close()
    assert client.stdout.readline() == b"caught\n"
    assert client.wait(20) == 3
    client.stdout.close()
