"""The local liveness check of a pod: does its application answer on the port that the pod declares for it?

By the port's own class (spec section 2): raw TCP accepts a connection; http h1 answers a request with any status line;
http h2 answers the connection preface with a SETTINGS frame (RFC 9113, section 3.4).
"""

import asyncio
import socket
from collections.abc import Callable

from aether.model.ports import Codec, PortClass

TIMEOUT_S = 1.0

_H1_REQUEST = b"GET / HTTP/1.1\r\nhost: live\r\nuser-agent: aether-liveness\r\nconnection: close\r\n\r\n"
_H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # and empty SETTINGS
_H2_SETTINGS = 0x04
_H2_FRAME_HEADER = 9

SocketIn = Callable[[str, socket.AddressFamily, socket.SocketKind], socket.socket]


async def check_liveness(open_socket: SocketIn, netns: str, number: int, port_class: PortClass, codec: Codec) -> bool:
    """Whether the application behind 127.0.0.1:`number` in the namespace at `netns` answers within `TIMEOUT_S`."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _check(open_socket(netns, socket.AF_INET, socket.SOCK_STREAM), number, port_class, codec)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False


async def _check(connection: socket.socket, number: int, port_class: PortClass, codec: Codec) -> bool:
    connection.setblocking(False)  # noqa: FBT003 -- the socket API's own signature
    try:
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", number))
    except BaseException:
        connection.close()
        raise
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        if port_class is not PortClass.HTTP:
            return True
        writer.write(_H2_PREFACE if codec is Codec.H2 else _H1_REQUEST)
        if codec is Codec.H2:
            return (await reader.readexactly(_H2_FRAME_HEADER))[3] == _H2_SETTINGS
        return (await reader.readexactly(7)) == b"HTTP/1."
    finally:
        writer.close()
