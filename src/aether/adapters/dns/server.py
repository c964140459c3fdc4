"""The DNS servers of a node: UDP and TCP, IPv4 and IPv6, one port.

A datagram is answered from the very address that it was sent to: a client takes no reply from another, and the kernel
undoes its address translation (10.96.0.10:53 to the node's 18054) only for that one.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import structlog

from aether.adapters.clock import Clock
from aether.adapters.dns.resolver import Resolver
from aether.errors import AetherError
from aether.model.ports import Transport
from aether.wire.dns.answer import Forward

IDLE_S = 10.0
"""How long a TCP connection may be silent, or slow to take an answer (RFC 7766, section 6.2.3: a few seconds)."""
CONNECTION_LIMIT = 256
"""TCP connections at once. A newcomer beyond it is closed; nothing live is closed for it."""

_DATAGRAM_LIMIT_BYTES = 4096  # no query is longer; the rest of a longer datagram is cut, and it does not parse
_DATAGRAMS_PER_TURN = 64  # then the loop's other work has its turn
_RECEIVE_BUFFER_BYTES = 1024 * 1024
_ACCEPT_PAUSE_S = 0.1  # when there is no file descriptor left

_IP_PKTINFO = 8  # ip(7)
_PKTINFO4 = struct.Struct("=I4s4s")  # interface, source for a reply, destination in the header
_PKTINFO6 = struct.Struct("=16sI")  # destination in the header, interface
_LINK_LOCAL = b"\xfe\x80"
_ANCILLARY_BYTES = socket.CMSG_SPACE(_PKTINFO6.size)

log = structlog.get_logger()

_Ancillary = list[tuple[int, int, bytes]]


class PortUnavailable(AetherError):
    """The port is taken, or may not be bound."""

    code = "dns-port-unavailable"


class DnsServer:
    """Serves one port at every address: a context manager that holds its sockets; `run` answers."""

    def __init__(self, resolver: Resolver, port: int, *, clock: Clock) -> None:
        self._resolver = resolver
        self._port = port
        self._clock = clock
        self._stack = contextlib.ExitStack()
        self._datagrams: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        self._connections = 0

    def __enter__(self) -> "DnsServer":
        """Bind. Without IPv6 on the machine, IPv4 alone.

        Raises:
            PortUnavailable: the port cannot be had.
        """
        try:
            for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
                if family == socket.AF_INET6 and not _has_ipv6():
                    log.warning("dns-without-ipv6")
                    continue
                self._datagrams.append(self._stack.enter_context(_open_datagrams(family, address, self._port)))
                self._listeners.append(self._stack.enter_context(_open_listener(family, address, self._port)))
        except OSError as error:
            self._stack.close()
            raise PortUnavailable(f"port {self._port}: {error.strerror}") from error
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    async def run(self) -> None:
        """Answer until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            for each in self._listeners:
                group.create_task(self._accept(each, group))
            with contextlib.ExitStack() as readers:  # gone before the group ends: it takes no more tasks then
                for each in self._datagrams:
                    loop.add_reader(each, self._on_datagrams, each, group)
                    readers.callback(loop.remove_reader, each)
                await loop.create_future()

    def _on_datagrams(self, each: socket.socket, group: asyncio.TaskGroup) -> None:
        for _ in range(_DATAGRAMS_PER_TURN):
            try:
                data, ancillary, _, peer = each.recvmsg(_DATAGRAM_LIMIT_BYTES, _ANCILLARY_BYTES)
            except OSError:
                return
            reply = self._resolver.answer(data, Transport.UDP)
            if isinstance(reply, Forward):
                group.create_task(self._forward(each, reply, data, (ancillary, peer)))
            elif reply is not None:
                _send(each, reply, ancillary, peer)

    async def _forward(
        self, each: socket.socket, forward: Forward, data: bytes, sender: tuple[_Ancillary, Any]
    ) -> None:
        _send(each, await self._resolver.forward(forward, data, Transport.UDP), *sender)

    async def _accept(self, listener: socket.socket, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("dns-not-accepted", error=str(error))
                await self._clock.sleep(_ACCEPT_PAUSE_S)
                continue
            if self._connections >= CONNECTION_LIMIT:
                connection.close()
                continue
            group.create_task(self._converse(connection))

    async def _converse(self, connection: socket.socket) -> None:
        """Answer the queries of one connection, one after another."""
        with self._counted(), contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(sock=connection)
            try:
                while (reply := await self._answer_next(reader)) is not None:
                    writer.write(len(reply).to_bytes(2, "big") + reply)
                    async with asyncio.timeout(IDLE_S):
                        await writer.drain()
            finally:
                writer.close()

    async def _answer_next(self, reader: asyncio.StreamReader) -> bytes | None:
        """The reply to the next message; None for one that gets none, which ends the connection."""
        async with asyncio.timeout(IDLE_S):
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        reply = self._resolver.answer(data, Transport.TCP)
        return await self._resolver.forward(reply, data, Transport.TCP) if isinstance(reply, Forward) else reply

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._connections += 1
        try:
            yield
        finally:
            self._connections -= 1


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def _open_datagrams(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    def prepare(each: socket.socket) -> None:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if family == socket.AF_INET6:
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            each.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)

    return _bound(family, socket.SOCK_DGRAM, (address, port), prepare)


def _open_listener(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    def prepare(each: socket.socket) -> None:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

    listener = _bound(family, socket.SOCK_STREAM, (address, port), prepare)
    listener.listen(CONNECTION_LIMIT)
    return listener


def _bound(
    family: socket.AddressFamily,
    kind: socket.SocketKind,
    address: tuple[str, int],
    prepare: Callable[[socket.socket], None],
) -> socket.socket:
    each = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        prepare(each)
        each.bind(address)
    except BaseException:
        each.close()
        raise
    return each


def _send(each: socket.socket, reply: bytes, ancillary: _Ancillary, peer: Any) -> None:
    """Send from the address that was asked. A reply that the kernel does not take is lost: the client asks again."""
    with contextlib.suppress(OSError):
        each.sendmsg((reply,), _reply_source(ancillary), 0, peer)


def _reply_source(ancillary: _Ancillary) -> _Ancillary:
    """The control message that makes the destination of a datagram the source of its reply; its way is routed anew."""
    for level, kind, data in ancillary:
        if level == socket.IPPROTO_IP and len(data) == _PKTINFO4.size:
            _, _, destination = _PKTINFO4.unpack(data)
            return [(level, kind, _PKTINFO4.pack(0, destination, bytes(4)))]
        if level == socket.IPPROTO_IPV6 and len(data) == _PKTINFO6.size:
            destination, interface = _PKTINFO6.unpack(data)
            is_local = destination.startswith(_LINK_LOCAL)
            return [(level, kind, _PKTINFO6.pack(destination, interface if is_local else 0))]
    return []
