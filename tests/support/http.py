"""A small HTTP/1.1 client: one connection, any Host, optionally behind a PROXY header that says what was dialled."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """A response as text. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: str


class HttpConnection:
    """Requests on one connection, one after the other; opened again when the server closed it."""

    def __init__(self, port: int, *, dialled: tuple[str, int] | None = None) -> None:
        self._port = port
        self._prologue = b"" if dialled is None else proxy_header(*dialled)
        self._socket: socket.socket | None = None
        self._rest = b""

    def get(self, host: str, *, path: str = "/path", headers: str = "") -> Answer:
        """`headers` are whole lines."""
        self._open().sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode("latin-1"))
        head = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        fields = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        body = self._exactly(int(fields.get("content-length", "0")))
        if fields.get("connection") == "close":
            self.close()
        return Answer(int(head[0].split()[1]), fields, body.decode("latin-1"))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def _open(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=10)
            self._socket.sendall(self._prologue)
        return self._socket

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._receive()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _exactly(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._receive()
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def _receive(self) -> None:
        data = self._open().recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection within a response")
        self._rest += data


def proxy_header(address: str, port: int) -> bytes:
    """Version 1 (the PROXY protocol, section 2.1): the destination is what was dialled."""
    family, source = ("TCP6", "::1") if ":" in address else ("TCP4", "127.0.0.1")
    return f"PROXY {family} {source} {address} 40000 {port}\r\n".encode()


@contextmanager
def over_unix(path: Path, *, timeout_s: float = 10.0) -> Iterator[http.client.HTTPConnection]:
    """A connection to whoever listens on a unix socket."""
    connection = http.client.HTTPConnection("unix", timeout=timeout_s)
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(timeout_s)
        connection.sock.connect(str(path))
        yield connection
    finally:
        connection.close()
