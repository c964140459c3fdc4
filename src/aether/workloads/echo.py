"""An echo whose every answer names its service, port and pod: a wrong target is visible, and not a 200.

``python3 -m aether.workloads.echo 8080=http 9090=h2 9000=tcp 25=banner 53=udp``

| port | answers |
| --- | --- |
| `http` | HTTP/1.1: a JSON object with service, port, pod, method, path, host, peer identity (XFCC) and body size |
| `h2` | the same over HTTP/2 with prior knowledge; a gRPC call to any method gets the same JSON as its message |
| `tcp` | the line ``service=… port=… pod=…`` at the first bytes, then every byte sent |
| `banner` | server-first: the same line at once, then every byte sent |
| `udp` | the same line, a space and the datagram |

The paths ``/status/<code>`` and ``/slow/<ms>`` choose the status and delay the answer (h1 and h2). SIGTERM stops
listening, and ends the process after `--linger` seconds.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
from typing import Any

from aether.workloads.h2server import H2Server, delay_s

_MAX_HEAD = 64 * 1024


class Echo:
    """Who answers: the service and pod that every answer names."""

    def __init__(self, service: str, pod: str) -> None:
        self.service = service
        self.pod = pod
        self.connections: dict[int, int] = {}

    def line(self, port: int) -> bytes:
        return f"service={self.service} port={port} pod={self.pod}\n".encode()

    def answer(self, port: int, method: str, path: str, headers: dict[str, str], body_bytes: int) -> tuple[int, bytes]:
        """The status and JSON body for one request."""
        parts = path.split("?", maxsplit=1)[0].split("/")
        status = int(parts[2]) if len(parts) > 2 and parts[1] == "status" else 200
        body = {
            "service": self.service,
            "port": port,
            "pod": self.pod,
            "method": method,
            "path": path,
            "host": headers.get(":authority", headers.get("host", "")),
            "xfcc": headers.get("x-forwarded-client-cert", ""),
            "headers": {name: value for name, value in headers.items() if name.startswith("x-")},
            "body_bytes": body_bytes,
            "connections": self.connections.get(port, 0),
            "accepted": {str(number): count for number, count in sorted(self.connections.items())},
        }
        return status, json.dumps(body).encode() + b"\n"

    def opened(self, port: int) -> None:
        self.connections[port] = self.connections.get(port, 0) + 1


async def serve_http(echo: Echo, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    echo.opened(port)
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request_line, *lines = head.split("\r\n")
            method, path, _ = request_line.split(" ", 2)
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)}
            if headers.get("upgrade", "").lower() == "websocket":
                await _upgrade(writer, reader)
                return
            body_bytes = await _read_body(reader, headers)
            if wait_s := delay_s(path):
                await asyncio.sleep(wait_s)  # noqa: TID251 -- a workload, not the product
            status, body = echo.answer(port, method, path, headers, body_bytes)
            if method == "HEAD":
                body = b""
            head_out = (
                f"HTTP/1.1 {status} Echo\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            writer.write(head_out.encode() + body)
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                return
    except (asyncio.IncompleteReadError, ConnectionError, ValueError, asyncio.LimitOverrunError):
        return
    finally:
        writer.close()


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> int:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        total = 0
        while size := int((await reader.readline()).split(b";")[0], 16):
            await reader.readexactly(size + 2)
            total += size
        await reader.readline()
        return total
    left = total = int(headers.get("content-length", "0"))
    while left:
        left -= len(chunk := await reader.read(min(left, 1 << 20)))
        if not chunk:
            raise ConnectionError
    return total


async def _upgrade(writer: asyncio.StreamWriter, reader: asyncio.StreamReader) -> None:
    """Accept any WebSocket upgrade, then echo raw bytes (the frames come back as they were sent)."""
    writer.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\n")
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def serve_tcp(
    echo: Echo, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, speaks_first: bool
) -> None:
    echo.opened(port)
    try:
        if speaks_first:
            writer.write(echo.line(port))
            await writer.drain()
        greeted = speaks_first
        while data := await reader.read(65536):
            if not greeted:
                writer.write(echo.line(port))
                greeted = True
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


class UdpEcho(asyncio.DatagramProtocol):
    def __init__(self, echo: Echo, port: int) -> None:
        self._echo, self._port = echo, port
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(self._echo.line(self._port).rstrip(b"\n") + b" " + data, addr)


async def listen(echo: Echo, port: int, kind: str) -> Any:
    """Open one port on every address of the pod, IPv4 and IPv6."""
    if kind == "udp":
        udp_socket = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp_socket.bind(("::", port))
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: UdpEcho(echo, port), sock=udp_socket
        )
        return transport
    tcp_socket = socket.create_server(("::", port), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    if kind == "h2":
        return await H2Server(echo, port).start(tcp_socket)
    if kind == "http":
        return await asyncio.start_server(lambda r, w: serve_http(echo, port, r, w), sock=tcp_socket, limit=_MAX_HEAD)
    speaks_first = kind == "banner"
    return await asyncio.start_server(
        lambda r, w: serve_tcp(echo, port, r, w, speaks_first=speaks_first), sock=tcp_socket
    )


async def run(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop.set)
    echo = Echo(arguments.service, arguments.pod)
    servers = []
    for item in arguments.ports:
        number, _, kind = item.partition("=")
        servers.append(await listen(echo, int(number), kind or "http"))
    print(f"{echo.service}: serving {' '.join(arguments.ports)}", flush=True)  # noqa: T201 -- its log
    await stop.wait()
    for server in servers:
        server.close()
    await asyncio.sleep(arguments.linger)  # noqa: TID251 -- a workload, not the product


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ports", nargs="+", metavar="NUMBER=KIND", help="KIND: http, h2, tcp, banner or udp")
    parser.add_argument("--service", default=os.environ.get("SERVICE", "echo"))
    parser.add_argument("--pod", default=os.environ.get("HOSTNAME", socket.gethostname()))
    parser.add_argument("--linger", type=float, default=0.0, help="seconds between SIGTERM and exit")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
