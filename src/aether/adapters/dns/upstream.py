"""Other DNS servers, asked for what is not the mesh's.

Each question goes out from a socket of its own, connected to its server, under an id drawn at random: a forged reply
has to guess the port and the id (RFC 5452, section 9.2).
"""

import asyncio
import ipaddress
import secrets
import socket

import msgspec

from aether.errors import AetherError
from aether.model.ports import Transport, parse_port_number
from aether.wire.dns.message import Query, is_reply_to, with_id

TIMEOUT_S = 2.0
"""How long one server is waited for. Twice that is less than a client's own patience (5 s in resolv.conf(5))."""
ATTEMPTS = 2
"""How many servers are asked, the first again if there is one only: datagrams get lost."""
IN_FLIGHT_LIMIT = 512
"""Questions that wait for other servers. Past it they fail at once, so that silent servers cost no memory."""
DNS_WELL_KNOWN_PORT = 53

_DATAGRAM_LIMIT_BYTES = 65_535
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}  # ip(7), ipv6(7)


class BadUpstream(AetherError):
    """The address of another server cannot be understood."""

    code = "bad-upstream"

    def __init__(self, text: str) -> None:
        super().__init__(f"upstream {text!r}: an address is needed, as in 9.9.9.9, 9.9.9.9:53 or [2620:fe::fe]:53")
        self.text = text


class Upstream(msgspec.Struct, frozen=True):
    """Another server."""

    address: str
    port: int = DNS_WELL_KNOWN_PORT

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


def parse_upstream(text: str) -> Upstream:
    """An address, alone or with a port.

    Raises:
        BadUpstream: anything else.
    """
    host, port = text, str(DNS_WELL_KNOWN_PORT)
    if text.startswith("["):
        host, _, port = text[1:].partition("]:")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    number = parse_port_number(port)
    try:
        address = ipaddress.ip_address(host)
    except ValueError as error:
        raise BadUpstream(text) from error
    if number is None:
        raise BadUpstream(text)
    return Upstream(str(address), number)


class Upstreams:
    """Asks the servers in their order; the next when one does not answer."""

    def __init__(self, servers: tuple[Upstream, ...], *, timeout_s: float = TIMEOUT_S) -> None:
        self._attempts = [
            servers[number % len(servers)] for number in range(max(ATTEMPTS, len(servers)) if servers else 0)
        ]
        self._timeout_s = timeout_s
        self._in_flight = 0

    async def ask(self, query: Query, data: bytes, transport: Transport) -> bytes | None:
        """The first reply to `data`, the message that `query` was read from; None when nobody replies."""
        if self._in_flight >= IN_FLIGHT_LIMIT:
            return None
        self._in_flight += 1
        try:
            for server in self._attempts:
                if (reply := await self._ask_one(server, query, data, transport)) is not None:
                    return reply
        finally:
            self._in_flight -= 1
        return None

    async def _ask_one(self, server: Upstream, query: Query, data: bytes, transport: Transport) -> bytes | None:
        exchange = _exchange_datagrams if transport is Transport.UDP else _exchange_over_tcp
        message_id = secrets.randbits(16)
        try:
            async with asyncio.timeout(self._timeout_s):
                reply = await exchange(server, query, with_id(data, message_id), message_id)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            return None
        return with_id(reply, query.message_id)


async def _exchange_datagrams(server: Upstream, query: Query, data: bytes, message_id: int) -> bytes:
    loop = asyncio.get_running_loop()
    with socket.socket(server.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as connection:
        connection.setsockopt(*_RECVERR[server.family], 1)  # "no route" is an error at once, not silence
        connection.connect((server.address, server.port))
        await loop.sock_sendall(connection, data)
        while True:
            reply = await loop.sock_recv(connection, _DATAGRAM_LIMIT_BYTES)
            if is_reply_to(query, message_id, reply):
                return reply


async def _exchange_over_tcp(server: Upstream, query: Query, data: bytes, message_id: int) -> bytes:
    reader, writer = await asyncio.open_connection(server.address, server.port)
    try:
        writer.write(len(data).to_bytes(2, "big") + data)
        while True:
            reply = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            if is_reply_to(query, message_id, reply):
                return reply
    finally:
        writer.close()
