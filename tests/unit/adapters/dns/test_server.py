import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import dnslib
import pytest
from tests.support.dns import (
    DatagramClient,
    addresses,
    ask_by_datagram,
    ask_over_tcp,
    query,
    rcode,
    zone,
)
from tests.support.ports import free_port

from aether.adapters.clock import ManualClock
from aether.adapters.dns import DnsServer, PortUnavailable, Resolver, Upstream, Upstreams
from aether.adapters.dns.server import CONNECTION_LIMIT
from aether.wire.dns import Directory, Zone

PODS = [f"10.244.1.{number}" for number in range(1, 201)]
ZONE = zone("cart.shop.aether.internal 10.96.0.5 fd96::5", "db.shop.aether.internal " + " ".join(PODS))
CART = bytes(query("cart.shop.aether.internal").pack())
DB = bytes(query("db.shop.aether.internal").pack())
OTHER = bytes(query("example.com").pack())


@contextlib.asynccontextmanager
async def serving(*upstreams: Upstream, timeout_s: float = 0.2, served: Zone = ZONE) -> AsyncIterator[int]:
    """The port of a server."""
    resolver = Resolver(Upstreams(upstreams, timeout_s=timeout_s))
    resolver.directory = Directory(served)
    port = free_port()
    with DnsServer(resolver, port, clock=ManualClock()) as server:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(server.run())
            try:
                yield port
            finally:
                running.cancel()


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "127.9.8.7", "::1"])
async def test_a_datagram_is_answered_from_the_address_it_was_sent_to(address: str) -> None:
    async with serving() as port:
        reply = dnslib.DNSRecord.parse(await ask_by_datagram(address, port, CART))
        assert addresses(reply) == ["10.96.0.5"]
        forwarded = dnslib.DNSRecord.parse(await ask_by_datagram(address, port, OTHER))
        assert rcode(forwarded) == "SERVFAIL"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_what_is_cut_over_udp_is_whole_over_tcp(address: str) -> None:
    async with serving() as port:
        cut = dnslib.DNSRecord.parse(await ask_by_datagram(address, port, DB))
        assert cut.header.tc == 1
        (whole,) = await ask_over_tcp(address, port, DB)
        assert sorted(addresses(dnslib.DNSRecord.parse(whole))) == sorted(PODS)


async def test_queries_of_one_connection_are_answered_in_their_order() -> None:
    async with serving() as port:
        replies = await ask_over_tcp("127.0.0.1", port, CART, OTHER, DB, b"\x00" * 12)
        assert [rcode(dnslib.DNSRecord.parse(reply)) for reply in replies] == [
            "NOERROR",
            "SERVFAIL",
            "NOERROR",
            "FORMERR",
        ]


@pytest.mark.parametrize("data", [b"\x00\x01x", b"\x00\x00", b"\xff\xff" + b"x" * 10, b"\x00"])
async def test_a_connection_that_says_nothing_proper_ends_and_hurts_nobody(data: bytes) -> None:
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        writer.close()
        assert await ask_over_tcp("127.0.0.1", port, CART)


async def test_datagrams_that_get_no_reply_hurt_nobody() -> None:
    reply_like = CART[:2] + b"\x81" + CART[3:]
    async with serving() as port:
        with DatagramClient("127.0.0.1", port) as client:
            for data in (b"", b"x", reply_like, b"\xff" * 9000, CART):
                await client.send(data)
            assert addresses(dnslib.DNSRecord.parse(await client.receive())) == ["10.96.0.5"]


async def test_a_server_behind_it_is_asked_over_the_same_transport() -> None:
    nothing = Zone(domains=(), names=())
    async with serving() as behind, serving(Upstream("::1", behind), served=nothing) as port:
        cut = dnslib.DNSRecord.parse(await ask_by_datagram("127.0.0.1", port, DB))
        assert cut.header.tc == 1
        assert len(cut.rr) < len(PODS)
        (whole,) = await ask_over_tcp("127.0.0.1", port, DB)
        assert sorted(addresses(dnslib.DNSRecord.parse(whole))) == sorted(PODS)


async def test_a_slow_server_behind_it_holds_up_nobody_else() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        upstream = Upstream("127.0.0.1", silent.getsockname()[1])
        async with serving(upstream, timeout_s=30) as port:
            with DatagramClient("127.0.0.1", port) as client:
                for data in (OTHER, CART):
                    await client.send(data)
                assert addresses(dnslib.DNSRecord.parse(await client.receive())) == ["10.96.0.5"]


async def test_connections_beyond_the_limit_are_closed_and_room_is_made_by_leaving() -> None:
    async with serving() as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTION_LIMIT)]
        async with asyncio.timeout(5):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await ask_over_tcp("127.0.0.1", port, CART)
            held[0][1].write(len(CART).to_bytes(2, "big") + CART)
            assert await held[0][0].readexactly(2)
        for _, writer in held:
            writer.close()
        async with asyncio.timeout(5):
            while not await is_answered_over_tcp(port):
                pass


async def is_answered_over_tcp(port: int) -> bool:
    try:
        return bool(await ask_over_tcp("127.0.0.1", port, CART))
    except (asyncio.IncompleteReadError, ConnectionError):
        return False


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")])
def test_a_port_that_is_taken_is_an_error(family: socket.AddressFamily, address: str, kind: socket.SocketKind) -> None:
    port = free_port()
    with socket.socket(family, kind) as other:
        if family == socket.AF_INET6:
            other.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        other.bind((address, port))
        if kind == socket.SOCK_STREAM:
            other.listen()
        with pytest.raises(PortUnavailable) as raised, DnsServer(Resolver(Upstreams(())), port, clock=ManualClock()):
            pass
    assert raised.value.code == "dns-port-unavailable"
