"""Looks at real servers on the loopback."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.support.pods import socket_in

from aether.adapters.pods.launcher import CannotStart
from aether.adapters.pods.probes import Target, look
from aether.model.kube import Container, ContainerPort, Exec, Grpc, HttpGet, TcpSocket
from aether.model.ports import Transport

PATIENCE_S = 10.0
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def exits_with(code: int) -> int:
    return code


def target(*, address: str = "127.0.0.1", ports: tuple[ContainerPort, ...] = (), code: int = 0) -> Target:
    return Target(
        container=Container(name="main", argv=("run",), ports=ports),
        address=address,
        node_netns=Path(),
        socket_in=socket_in,
        execute=lambda _: exits_with(code),
    )


@contextlib.asynccontextmanager
async def serving(handler: Handler, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """The port of a server."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await handler(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, host, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def answering(answer: bytes, heard: list[bytes] | None = None) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(request)
        writer.write(answer)
        await writer.drain()

    return handle


STATUSES = [
    (b"HTTP/1.1 200 OK\r\n\r\n", ""),
    (b"HTTP/1.0 204 No Content\r\n\r\n", ""),
    (b"HTTP/1.1 399 x\r\n\r\n", ""),
    (b"HTTP/1.1 400 Bad\r\n\r\n", "HTTP status 400"),
    (b"HTTP/1.1 503\r\n\r\n", "HTTP status 503"),
    (b"SSH-2.0-OpenSSH\r\n", "the answer is not HTTP"),
    (b"HTTP/1.1 OK\r\n\r\n", "the answer is not HTTP"),
    (b"x" * 100_000, "the answer is not HTTP"),
    (b"HTTP/1.1 200", "the connection was closed"),
    (b"", "the connection was closed"),
]


@pytest.mark.parametrize(("answer", "expected"), STATUSES)
async def test_http_is_good_from_200_to_399(answer: bytes, expected: str) -> None:
    async with serving(answering(answer)) as port:
        assert await look(HttpGet(port=port), target(), PATIENCE_S) == expected


async def test_an_http_request_is_a_kubelets() -> None:
    heard: list[bytes] = []
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", heard)) as port:
        check = HttpGet(port=port, path="ok?x=1", headers=(("X-Own", "yes"), ("User-Agent", "mine")))
        assert await look(check, target(), PATIENCE_S) == ""
    lines = heard[0].decode().split("\r\n")
    assert lines[0] == "GET /ok?x=1 HTTP/1.1"
    assert f"host: 127.0.0.1:{port}" in lines
    assert "x-own: yes" in lines
    assert "user-agent: mine" in lines


async def test_a_port_may_be_named() -> None:
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        ports = (ContainerPort(number=1, name="web", transport=Transport.UDP), ContainerPort(number=port, name="web"))
        assert await look(HttpGet(port="web"), target(ports=ports), PATIENCE_S) == ""
    assert await look(TcpSocket(port="web"), target(), PATIENCE_S) == "the container has no TCP port named 'web'"


async def test_ipv6_is_spelled_in_brackets() -> None:
    heard: list[bytes] = []
    async with serving(answering(b"HTTP/1.1 200 OK\r\n\r\n", heard), "::1") as port:
        assert await look(HttpGet(port=port), target(address="::1"), PATIENCE_S) == ""
    assert f"host: [::1]:{port}\r\n".encode() in heard[0]


async def test_tcp_is_good_when_somebody_accepts() -> None:
    async with serving(answering(b"")) as port:
        assert await look(TcpSocket(port=port), target(), PATIENCE_S) == ""
    assert await look(TcpSocket(port=port), target(), PATIENCE_S) == "connection refused"
    assert await look(TcpSocket(port=port, host="127.0.0.1"), target(address="::1"), PATIENCE_S) == "connection refused"


async def test_no_answer_is_a_failure_after_the_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as port:
        assert await look(HttpGet(port=port), target(), 0.05) == "no answer within 0.05 s"


async def test_tls_to_what_speaks_none_is_a_failure() -> None:
    async def blunt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with serving(blunt) as port:
        assert (await look(HttpGet(port=port, is_tls=True), target(), PATIENCE_S)).startswith("TLS: ")


async def test_a_command_is_good_when_it_ends_with_0() -> None:
    assert await look(Exec(command=("x",)), target(), PATIENCE_S) == ""
    assert await look(Exec(command=("x",)), target(code=7), PATIENCE_S) == "the command ended with status 7"


async def test_a_command_that_cannot_start_says_why() -> None:
    async def refuse(command: tuple[str, ...]) -> int:
        raise CannotStart('exec: "x": not found')

    broken = Target(
        container=Container(name="main", argv=()),
        address="127.0.0.1",
        node_netns=Path(),
        socket_in=socket_in,
        execute=refuse,
    )
    assert await look(Exec(command=("x",)), broken, PATIENCE_S) == 'exec: "x": not found'


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def grpc_server(*frames: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"SM\r\n\r\n")
        writer.write(frame(4, 0, 0, b"") + b"".join(frames))
        await writer.drain()
        await reader.read()

    return handle


SERVING = b"\x00\x00\x00\x00\x02\x08\x01"
NOT_SERVING = b"\x00\x00\x00\x00\x02\x08\x02"
HEALTH = [
    ((frame(1, 4, 1, b"\x88"), frame(0, 0, 1, SERVING), frame(1, 5, 1, b"")), ""),
    ((frame(0, 1, 1, SERVING),), ""),
    ((frame(0, 0, 1, SERVING[:3]), frame(6, 0, 0, b"12345678"), frame(0, 1, 1, SERVING[3:])), ""),
    ((frame(0, 1, 1, NOT_SERVING),), "the gRPC health service does not say SERVING"),
    ((frame(1, 5, 1, b"\x88"),), "the gRPC health service does not say SERVING"),
    ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "the answer is not HTTP/2"),
]


@pytest.mark.parametrize(("frames", "expected"), HEALTH)
async def test_grpc_is_good_when_the_health_service_says_so(frames: tuple[bytes, ...], expected: str) -> None:
    async with serving(grpc_server(*frames)) as port:
        assert await look(Grpc(port=port, service="cart"), target(), PATIENCE_S) == expected


class HealthService(grpc.GenericRpcHandler):  # type: ignore[misc]
    """grpc.health.v1.Health of one service, without generated code."""

    def service(self, call: Any) -> Any:
        if call.method != "/grpc.health.v1.Health/Check":
            return None
        return grpc.unary_unary_rpc_method_handler(self._check)

    async def _check(self, request: bytes, context: Any) -> bytes:
        return b"\x08\x01" if request == b"\x0a\x04cart" else b"\x08\x02"


async def test_a_real_grpc_server_is_understood() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([HealthService()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        assert await look(Grpc(port=port, service="cart"), target(), PATIENCE_S) == ""
        assert await look(Grpc(port=port), target(), PATIENCE_S) == "the gRPC health service does not say SERVING"
    finally:
        await server.stop(None)


def test_sockets_are_of_the_namespace_that_is_asked_for() -> None:
    with socket_in(Path(), socket.AF_INET, socket.SOCK_STREAM) as sock:
        assert sock.family == socket.AF_INET
