import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import cast

import dnslib
import pytest
from tests.support.dns import query
from tests.support.ports import free_port

from aether.adapters.dns import BadUpstream, Upstream, Upstreams, parse_upstream
from aether.adapters.dns.upstream import IN_FLIGHT_LIMIT
from aether.model.ports import Transport
from aether.wire.dns.message import parse_query, with_id

ASKED = bytes(query("Example.com", message_id=0x1234).pack())
QUERY = parse_query(ASKED)

Answer = Callable[[bytes], list[bytes]]


@pytest.mark.parametrize(
    ("text", "upstream"),
    [
        ("9.9.9.9", Upstream("9.9.9.9", 53)),
        ("9.9.9.9:5353", Upstream("9.9.9.9", 5353)),
        ("2620:fe::fe", Upstream("2620:fe::fe", 53)),
        ("[2620:FE::fe]:5353", Upstream("2620:fe::fe", 5353)),
    ],
)
def test_an_upstream_is_an_address_with_or_without_a_port(text: str, upstream: Upstream) -> None:
    assert parse_upstream(text) == parse_upstream(str(upstream)) == upstream


@pytest.mark.parametrize(
    "text", ["", "dns.test", "9.9.9.9:", "9.9.9.9:0", "9.9.9.9:65536", "[::1]", "[::1]:", "[::1", "9.9.9.9:53:53"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadUpstream) as raised:
        parse_upstream(text)
    assert raised.value.code == "bad-upstream"
    assert raised.value.text == text


def answered(data: bytes, text: str = "192.0.2.1") -> bytes:
    record = dnslib.DNSRecord.parse(data)
    reply = record.reply()
    reply.add_answer(*dnslib.RR.fromZone(f"{record.q.qname} 60 A {text}"))
    return bytes(reply.pack())


def addresses(reply: bytes | None) -> list[str]:
    assert reply is not None
    parsed = dnslib.DNSRecord.parse(reply)
    assert parsed.header.id == QUERY.message_id
    return [str(record.rdata) for record in parsed.rr]


@contextlib.asynccontextmanager
async def datagram_server(answer: Answer) -> AsyncIterator[Upstream]:
    loop = asyncio.get_running_loop()

    class Protocol(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._transport = cast(asyncio.DatagramTransport, transport)

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            for reply in answer(data):
                self._transport.sendto(reply, addr)

    transport, _ = await loop.create_datagram_endpoint(Protocol, local_addr=("127.0.0.1", 0))
    try:
        yield Upstream("127.0.0.1", transport.get_extra_info("sockname")[1])
    finally:
        transport.close()


@contextlib.asynccontextmanager
async def tcp_server(answer: Answer) -> AsyncIterator[Upstream]:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        writer.write(b"".join(len(reply).to_bytes(2, "big") + reply for reply in answer(data)))
        writer.close()

    server = await asyncio.start_server(converse, "::1", 0)
    async with server:
        yield Upstream("::1", server.sockets[0].getsockname()[1])


async def test_a_reply_is_passed_on_under_the_clients_id() -> None:
    seen: list[bytes] = []

    def answer(data: bytes) -> list[bytes]:
        seen.append(data)
        return [answered(data)]

    async with datagram_server(answer) as server:
        upstreams = Upstreams((server,))
        for _ in range(4):
            assert addresses(await upstreams.ask(QUERY, ASKED, Transport.UDP)) == ["192.0.2.1"]
    assert {data[2:] for data in seen} == {ASKED[2:]}
    assert len({data[:2] for data in seen}) > 1, "the id is drawn anew"


async def test_over_tcp_it_is_asked_over_tcp() -> None:
    async with tcp_server(lambda data: [answered(data)]) as server:
        assert addresses(await Upstreams((server,)).ask(QUERY, ASKED, Transport.TCP)) == ["192.0.2.1"]


def forgeries(data: bytes) -> list[bytes]:
    other_question = dnslib.DNSRecord.question("other.test")
    other_question.header.id = int.from_bytes(data[:2], "big")
    wrong_id = int.from_bytes(data[:2], "big") ^ 1
    return [b"", data, with_id(answered(data, "192.0.2.66"), wrong_id), answered(bytes(other_question.pack()))]


@pytest.mark.parametrize("transport", Transport)
async def test_forgeries_are_passed_over(transport: Transport) -> None:
    serving = datagram_server if transport is Transport.UDP else tcp_server
    async with serving(lambda data: [*forgeries(data), answered(data)]) as server:
        assert addresses(await Upstreams((server,)).ask(QUERY, ASKED, transport)) == ["192.0.2.1"]


async def test_a_lost_datagram_is_sent_again() -> None:
    seen: list[bytes] = []

    def answer(data: bytes) -> list[bytes]:
        seen.append(data)
        return [answered(data)] if len(seen) > 1 else []

    async with datagram_server(answer) as server:
        assert await Upstreams((server,), timeout_s=0.05).ask(QUERY, ASKED, Transport.UDP) is not None


@pytest.mark.parametrize("transport", Transport)
async def test_the_next_server_is_asked_when_one_is_dead_or_silent(transport: Transport) -> None:
    dead = Upstream("127.0.0.1", free_port())
    serving = datagram_server if transport is Transport.UDP else tcp_server
    async with serving(lambda _: []) as silent, serving(lambda data: [answered(data)]) as server:
        upstreams = Upstreams((dead, silent, server), timeout_s=0.2)
        assert addresses(await upstreams.ask(QUERY, ASKED, transport)) == ["192.0.2.1"]


@pytest.mark.parametrize("transport", Transport)
async def test_without_a_server_that_answers_there_is_no_reply(transport: Transport) -> None:
    assert await Upstreams(()).ask(QUERY, ASKED, transport) is None
    assert await Upstreams((Upstream("127.0.0.1", free_port()),)).ask(QUERY, ASKED, transport) is None
    assert await Upstreams((Upstream("255.255.255.255"),)).ask(QUERY, ASKED, transport) is None


async def test_beyond_the_limit_questions_fail_at_once_and_none_is_lost_of_the_others() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        upstreams = Upstreams((Upstream("127.0.0.1", silent.getsockname()[1]),), timeout_s=30)
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(upstreams.ask(QUERY, ASKED, Transport.UDP)) for _ in range(IN_FLIGHT_LIMIT + 3)]
            done, waiting = await asyncio.wait(asked, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            assert (len(done), len(waiting)) == (3, IN_FLIGHT_LIMIT)
            assert {task.result() for task in done} == {None}
            for task in waiting:
                task.cancel()
    async with datagram_server(lambda data: [answered(data)]) as server:
        upstreams = Upstreams((server,))
        assert await upstreams.ask(QUERY, ASKED, Transport.UDP) is not None
