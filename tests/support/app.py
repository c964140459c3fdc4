"""Applications of tests, on loopback: HTTP/1.1 that says what it was asked, and raw TCP that greets first."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Echo(BaseHTTPRequestHandler):
    """``/status/<code>`` answers that; a WebSocket handshake is accepted and echoed in upper case."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self._switch()
            return
        status = int(self.path.removeprefix("/status/")) if self.path.startswith("/status/") else HTTPStatus.OK
        body = json.dumps({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}}).encode()
        self.send_response(status)
        self.send_header("x-aether-error", "forged")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _switch(self) -> None:
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "upgrade")
        self.end_headers()
        while data := self.connection.recv(1024):
            self.wfile.write(data.upper())
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing: tests read the answers."""


class _Greeter(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        self.request.sendall(b"hello\n")
        while data := self.request.recv(1024):
            self.request.sendall(data.upper())


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class _RawServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def applications(*, http: int, raw: int) -> Iterator[None]:
    """Serve on 127.0.0.1 while the block runs."""
    servers = [_HttpServer(("127.0.0.1", http), _Echo), _RawServer(("127.0.0.1", raw), _Greeter)]
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for thread in threads:
            thread.join()
