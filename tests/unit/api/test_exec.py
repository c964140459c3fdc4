import array
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.memoryworld import ServedWorld, pod

from aether.model.world import ExecAnswer, ExecRequest, Exited, Refused, Signal


class Client:
    """A client of exec.sock whose stdout is a pipe that the test reads."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(str(path))
        self.output, self._theirs = os.pipe()

    def ask(self, *command: str, pod: str = "cart-1") -> None:
        request = ExecRequest(namespace="shop", pod=pod, command=command)
        null = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(self.socket, [msgspec.json.encode(request)], [null, self._theirs, self._theirs])
        os.close(null)
        os.close(self._theirs)

    def answer(self) -> ExecAnswer:
        return msgspec.json.decode(self.socket.recv(65536), type=ExecAnswer)

    def close(self) -> None:
        self.socket.close()
        os.close(self.output)


@pytest.fixture
def client(served: ServedWorld) -> Iterator[Client]:
    served.apply(pod("shop/cart-1"))
    one = Client(served.paths.exec_socket)
    yield one
    one.close()


def test_a_command_writes_to_the_caller_s_own_descriptors_and_its_code_comes_back(client: Client) -> None:
    client.ask("sh", "-c", "echo out; echo err >&2; exit 7")
    assert client.answer() == Exited(7)
    assert os.read(client.output, 100) == b"out\nerr\n"
    assert os.read(client.output, 100) == b"", "nobody else holds the pipe"


def test_a_signal_is_passed_on_and_its_number_comes_back(client: Client) -> None:
    client.ask("sh", "-c", "echo ready; exec sleep 60")
    assert os.read(client.output, 100) == b"ready\n"
    client.socket.send(msgspec.json.encode(Signal(signal.SIGTERM)))
    assert client.answer() == Exited(128 + signal.SIGTERM)


def test_a_caller_that_goes_away_takes_its_command_along(client: Client) -> None:
    client.ask("sh", "-c", "echo ready; exec sleep 60")
    assert os.read(client.output, 100) == b"ready\n"
    client.socket.close()
    assert os.read(client.output, 100) == b"", "the command has ended"


def test_an_unknown_pod_and_an_empty_command_are_refused(client: Client, served: ServedWorld) -> None:
    client.ask("true", pod="nobody")
    answer = client.answer()
    assert isinstance(answer, Refused)
    assert (answer.code, answer.status) == ("no-such-pod", 404)
    other = Client(served.paths.exec_socket)
    other.ask()
    answer = other.answer()
    other.close()
    assert isinstance(answer, Refused)
    assert answer.code == "bad-request"


def test_a_request_without_descriptors_or_without_sense_is_refused(served: ServedWorld) -> None:
    for packet in (msgspec.json.encode(ExecRequest(namespace="shop", pod="cart-1", command=("true",))), b"{"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(10)
            connection.connect(str(served.paths.exec_socket))
            connection.send(packet)
            answer = msgspec.json.decode(connection.recv(65536), type=ExecAnswer)
        assert isinstance(answer, Refused)
        assert answer.code == "bad-request"


def test_descriptors_that_nobody_asked_for_are_closed(client: Client) -> None:
    client.ask("sh", "-c", "echo ready; exec sleep 60")
    assert os.read(client.output, 100) == b"ready\n"
    reading, writing = os.pipe()
    packet = msgspec.json.encode(Signal(signal.SIGCONT))
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writing]))]
    client.socket.sendmsg([packet], ancillary)
    os.close(writing)
    assert os.read(reading, 1) == b"", "the server has closed it, too"
    os.close(reading)
