"""The local liveness check, against the real echo and against servers that do not answer."""

import asyncio
import socket
from argparse import Namespace
from collections.abc import AsyncIterator

import pytest
from tests.support.ports import free_port

from aether.adapters.liveness import check_liveness
from aether.model.ports import Codec, PortClass
from aether.workloads.echo import Echo, listen

_HERE = ""


def _socket_in(_: str, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    return socket.socket(family, kind)


async def check(port: int, port_class: PortClass, codec: Codec = Codec.H1) -> bool:
    return await check_liveness(_socket_in, _HERE, port, port_class, codec)


@pytest.fixture
async def ports() -> AsyncIterator[Namespace]:
    """An echo on one free port of each kind."""
    numbers = {kind: free_port() for kind in ("http", "h2", "tcp")}
    servers = [await listen(Echo("s", "p"), number, kind) for kind, number in numbers.items()]
    yield Namespace(**numbers, closed=free_port())
    for server in servers:
        server.close()
    await connections_ended()


async def connections_ended() -> None:
    """Until the servers have seen the ends of their connections."""
    if serving := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(serving, timeout=5)


async def test_each_class_is_asked_in_its_own_language(ports: Namespace) -> None:
    assert await check(ports.http, PortClass.HTTP)
    assert await check(ports.h2, PortClass.HTTP, Codec.H2)
    assert await check(ports.tcp, PortClass.TCP)


async def test_a_port_that_speaks_something_else_is_not_live(ports: Namespace) -> None:
    assert not await check(ports.h2, PortClass.HTTP)
    assert not await check(ports.http, PortClass.HTTP, Codec.H2)


async def test_a_closed_port_is_not_live(ports: Namespace) -> None:
    assert not await check(ports.closed, PortClass.HTTP)
    assert not await check(ports.closed, PortClass.TCP)


async def test_a_server_that_accepts_and_says_nothing_is_not_live_for_http() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert not await check(port, PortClass.HTTP)
        assert await check(port, PortClass.TCP)
    await connections_ended()
