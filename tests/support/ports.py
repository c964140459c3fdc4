"""Ports of this machine that nobody has now."""

import contextlib
import socket


def free_port() -> int:
    """A port that neither UDP nor TCP has at any address."""
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as stream:
        stream.bind(("::", 0))
        port = int(stream.getsockname()[1])
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("::", port))
    return port


def free_ports(count: int) -> list[int]:
    """Different ones, for TCP on loopback."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
