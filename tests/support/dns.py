"""DNS for tests: zones from short text, queries and answers by an independent library, and a client."""

import asyncio
import socket

import dnslib

from aether.model.ports import Transport
from aether.wire.dns import Directory, Forward, Host, Zone, answer

DOMAINS = ("aether.internal", "cluster.local")


def host(text: str) -> Host:
    """``cart.shop.aether.internal 10.96.0.5 fd96::5``"""
    name, *addresses = text.split()
    return Host(
        name=name,
        ipv4=tuple(address for address in addresses if ":" not in address),
        ipv6=tuple(address for address in addresses if ":" in address),
    )


def zone(*lines: str) -> Zone:
    return Zone(domains=DOMAINS, names=tuple(host(line) for line in lines))


def query(name: str, record_type: str = "A", *, message_id: int = 7) -> dnslib.DNSRecord:
    """A question, recursion desired."""
    record = dnslib.DNSRecord.question(name, record_type)
    record.header.id = message_id
    return record


def with_edns(record: dnslib.DNSRecord, payload_bytes: int, *, flags: str = "", version: int = 0) -> dnslib.DNSRecord:
    record.add_ar(dnslib.EDNS0(udp_len=payload_bytes, flags=flags, version=version))
    return record


def ask(
    directory: Directory | None, record: dnslib.DNSRecord, transport: Transport = Transport.UDP
) -> dnslib.DNSRecord:
    """The answer, parsed. Fails when there is none."""
    reply = answer(bytes(record.pack()), directory, transport=transport)
    assert isinstance(reply, bytes), reply
    return dnslib.DNSRecord.parse(reply)


def is_forwarded(directory: Directory, record: dnslib.DNSRecord) -> bool:
    return isinstance(answer(bytes(record.pack()), directory, transport=Transport.UDP), Forward)


def rcode(record: dnslib.DNSRecord) -> str:
    return str(dnslib.RCODE[record.header.rcode])


def addresses(record: dnslib.DNSRecord) -> list[str]:
    return [str(answered.rdata) for answered in record.rr]


class DatagramClient:
    """A client of one server: takes datagrams from that very address and port only."""

    def __init__(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.connect((address, port))

    def __enter__(self) -> "DatagramClient":
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        async with asyncio.timeout(5):
            return await asyncio.get_running_loop().sock_recv(self._socket, 65_535)


async def ask_by_datagram(address: str, port: int, data: bytes) -> bytes:
    with DatagramClient(address, port) as client:
        await client.send(data)
        return await client.receive()


async def ask_over_tcp(address: str, port: int, *messages: bytes) -> list[bytes]:
    """Send all messages at once on one connection, and read as many answers."""
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection(address, port)
        try:
            writer.write(b"".join(len(message).to_bytes(2, "big") + message for message in messages))
            return [await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big")) for _ in messages]
        finally:
            writer.close()
