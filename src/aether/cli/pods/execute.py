"""`aether exec`: a command in a pod, on this terminal.

The world gets this process's stdin, stdout and stderr; what is left to do here is to pass signals on and to wait.
"""

import contextlib
import os
import signal
import socket
import sys
import termios
from collections.abc import Iterator, Sequence
from types import FrameType

import msgspec

from aether.cli.address import PodReference
from aether.cli.client import connect_unix
from aether.cli.failure import ApiRefusal, CliError, WrongUsage
from aether.cli.worlds import choose_world
from aether.model.world import ExecAnswer, ExecRequest, Exited, Refused, Signal

PACKET_LIMIT_BYTES = 128 * 1024

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGWINCH,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def run_exec(world: str | None, pod: PodReference, *, container: str, command: Sequence[str]) -> int:
    """The command's exit code."""
    request = ExecRequest(
        namespace=pod.namespace,
        pod=pod.name,
        kind=pod.kind,
        command=tuple(command),
        container=container,
        terminal=os.environ.get("TERM", "") if sys.stdin.isatty() else "",
    )
    packet = msgspec.json.encode(request)
    if len(packet) > PACKET_LIMIT_BYTES:
        raise WrongUsage(f"the command is longer than {PACKET_LIMIT_BYTES} bytes", advice="pass it by stdin")
    with connect_unix(choose_world(world).exec_socket, socket.SOCK_SEQPACKET) as connection, _terminal_kept():
        signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)  # the command may run before they can be passed on
        socket.send_fds(connection, [packet], [0, 1, 2])
        with _signals_forwarded(connection):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
            answer = connection.recv(PACKET_LIMIT_BYTES)
    if not answer:
        raise CliError("the world ended the command")
    match msgspec.json.decode(answer, type=ExecAnswer):
        case Exited(code=code):
            return code
        case Refused() as refused:
            raise ApiRefusal(problem_code=refused.code, detail=refused.detail, diagnostics=(), status=refused.status)


@contextlib.contextmanager
def _signals_forwarded(connection: socket.socket) -> Iterator[None]:
    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(OSError):
            connection.send(msgspec.json.encode(Signal(number)))

    before = {number: signal.signal(number, forward) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _terminal_kept() -> Iterator[None]:
    """Give the terminal back as it was, whatever the command did to it."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(0)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
