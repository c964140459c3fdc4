"""One look at a container, as probes and hooks take it: HTTP, TCP, gRPC health or a command.

Connections come from the node's network namespace, as a kubelet's do.
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from aether.adapters.pods.launcher import CannotStart
from aether.adapters.pods.parts import SocketIn
from aether.model.kube import Container, Exec, Grpc, HttpGet, TcpSocket
from aether.model.ports import Transport

_HEAD_LIMIT_BYTES = 16384
_USER_AGENT = "kube-probe/aether"
_H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113, section 3.4
_H2_FRAME_HEADER = 9
_H2_FRAME_LIMIT_BYTES = 16384
_DATA, _HEADERS, _SETTINGS = 0, 1, 4
_END_STREAM, _END_HEADERS = 0x1, 0x4
_SERVING = b"\x08\x01"  # grpc.health.v1.HealthCheckResponse: status = SERVING
_GRPC_PREFIX = 5

Execute = Callable[[tuple[str, ...]], Awaitable[int]]
"""Run a command in the container; its exit status. Raises `CannotStart`."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The container that is looked at, and from where."""

    container: Container
    address: str
    node_netns: Path
    socket_in: SocketIn
    execute: Execute


class _Failed(Exception):
    """What was seen is not what a healthy container shows."""


async def look(check: HttpGet | TcpSocket | Exec | Grpc, target: Target, timeout_s: float) -> str:
    """Why the check fails, "" when it succeeds."""
    try:
        async with asyncio.timeout(timeout_s):
            await _look(check, target)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except _Failed as failed:
        return str(failed)
    except CannotStart as error:
        return str(error)
    except (OSError, asyncio.IncompleteReadError) as error:
        return _describe(error)
    return ""


def _describe(error: Exception) -> str:
    if isinstance(error, asyncio.IncompleteReadError):
        return "the connection was closed"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error)


async def _look(check: HttpGet | TcpSocket | Exec | Grpc, target: Target) -> None:
    match check:
        case Exec(command=command):
            code = await target.execute(command)
            if code != 0:
                raise _Failed(f"the command ended with status {code}")
        case TcpSocket(port=port, host=host):
            _, writer = await _connect(target, host, port)
            writer.close()
        case HttpGet():
            await _look_http(check, target)
        case Grpc(port=port, service=service):
            await _look_grpc(target, port, service)


async def _connect(
    target: Target, host: str, port: int | str, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    address = host or target.address
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    connection = target.socket_in(target.node_netns, family, socket.SOCK_STREAM)
    connection.setblocking(False)  # noqa: FBT003 -- the socket API's own signature
    try:
        number = _number(port, target.container)
        await asyncio.get_running_loop().sock_connect(connection, (address, number))
        return await asyncio.open_connection(sock=connection, ssl=tls, server_hostname=host if tls else None)
    except BaseException:
        connection.close()
        raise


def _number(port: int | str, container: Container) -> int:
    if isinstance(port, int):
        return port
    found = [one.number for one in container.ports if one.name == port and one.transport is Transport.TCP]
    if not found:
        raise _Failed(f"the container has no TCP port named {port!r}")
    return found[0]


async def _look_http(check: HttpGet, target: Target) -> None:
    reader, writer = await _connect(target, check.host, check.port, _unverified() if check.is_tls else None)
    try:
        writer.write(_request(check, target))
        head = await reader.readuntil(b"\r\n")
        status = head.split()[1:2]
        if not head.startswith(b"HTTP/1.") or not status or not status[0].isdigit():
            raise _Failed("the answer is not HTTP")
        if not 200 <= int(status[0]) < 400:
            raise _Failed(f"HTTP status {int(status[0])}")
    except asyncio.LimitOverrunError:
        raise _Failed("the answer is not HTTP") from None
    finally:
        writer.close()


def _request(check: HttpGet, target: Target) -> bytes:
    address = check.host or target.address
    address = f"[{address}]" if ":" in address else address
    headers = {
        "host": f"{address}:{_number(check.port, target.container)}",
        "user-agent": _USER_AGENT,
        "accept": "*/*",
        "connection": "close",
    }
    headers |= {name.lower(): value for name, value in check.headers}
    path = check.path if check.path.startswith("/") else f"/{check.path}"
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _unverified() -> ssl.SSLContext:
    """As a kubelet's probes: the certificate is not looked at."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def _look_grpc(target: Target, port: int, service: str) -> None:
    """grpc.health.v1.Health/Check in cleartext HTTP/2 (RFC 9113), its headers literal (RFC 7541, section 6.2.2)."""
    reader, writer = await _connect(target, "", port)
    try:
        message = b"\x0a" + bytes([len(service.encode())]) + service.encode() if service else b""
        headers = b"".join(
            b"\x00" + _text(name) + _text(value)
            for name, value in (
                (":method", "POST"),
                (":scheme", "http"),
                (":path", "/grpc.health.v1.Health/Check"),
                (":authority", "health"),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
            )
        )
        body = b"\x00" + len(message).to_bytes(4) + message
        writer.write(
            _H2_PREFACE
            + _frame(_SETTINGS, 0, 0, b"")
            + _frame(_HEADERS, _END_HEADERS, 1, headers)
            + _frame(_DATA, _END_STREAM, 1, body)
        )
        if await _read_grpc(reader) != _SERVING:
            raise _Failed("the gRPC health service does not say SERVING")
    finally:
        writer.close()


def _text(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


async def _read_grpc(reader: asyncio.StreamReader) -> bytes:
    """The message of stream 1; empty when the stream ends without one."""
    data = b""
    while True:
        header = await reader.readexactly(_H2_FRAME_HEADER)
        size, kind, flags = int.from_bytes(header[:3]), header[3], header[4]
        if size > _H2_FRAME_LIMIT_BYTES:
            raise _Failed("the answer is not HTTP/2")
        payload = await reader.readexactly(size)
        if int.from_bytes(header[5:]) != 1:
            continue
        if kind == _DATA:
            data += payload
        if flags & _END_STREAM and kind in (_DATA, _HEADERS):
            return data[_GRPC_PREFIX:]
        if len(data) > _HEAD_LIMIT_BYTES:
            raise _Failed("the answer is too long")
