"""Three connections that are used again and again and never opened anew: HTTP/1.1, HTTP/2 and raw TCP.

    python3 steady.py HOST HTTP_PORT RAW_PORT SECONDS

Says `begun` once each has had an answer. Prints JSON at the end: for each connection how many answers it had, which
error ended it ("" for none), and the digests of the caller's certificates as the destination saw them.
"""

import hashlib
import http.client
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Callable

import h2.config
import h2.connection
import h2.events

PAUSE_S = 0.1
TIMEOUT_S = 5.0
_HASH = re.compile("Hash=([0-9a-f]+)")


class Steady:
    """One connection: `ask` uses it once and returns what the answer tells of the caller's certificate."""

    def __init__(self, ask: Callable[[], str]) -> None:
        self._ask = ask
        self.answers = 0
        self.error = ""
        self.certificates: dict[str, None] = {}

    def once(self) -> None:
        self.certificates[self._ask()] = None
        self.answers += 1

    def run(self, until: float) -> None:
        try:
            while time.monotonic() < until:
                self.once()
                time.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 -- any end of a connection is what this looks for
            self.error = repr(error)


def h1(host: str, port: int) -> Callable[[], str]:
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.connect()
    connection.auto_open = 0

    def ask() -> str:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return certificate(answer.status, answer.read())

    return ask


def h2c(host: str, port: int) -> Callable[[], str]:
    plain = socket.create_connection((host, port), timeout=TIMEOUT_S)
    client = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
    client.initiate_connection()

    def ask() -> str:
        stream = client.get_next_available_stream_id()
        headers = [(":method", "GET"), (":scheme", "http"), (":authority", f"{host}:{port}"), (":path", "/")]
        client.send_headers(stream, headers, end_stream=True)
        plain.sendall(client.data_to_send())
        status, body = 0, b""
        while True:
            data = plain.recv(65536)
            if not data:
                raise ConnectionResetError("closed")
            for event in client.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    status = int(next(value for name, value in event.headers or () if str(name) == ":status"))
                if isinstance(event, h2.events.DataReceived):
                    body += event.data
                    client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if isinstance(event, h2.events.StreamEnded):
                    return certificate(status, body)

    return ask


def raw(host: str, port: int) -> Callable[[], str]:
    plain = socket.create_connection((host, port), timeout=TIMEOUT_S)
    plain.sendall(b"begin\n")
    stream = plain.makefile("rb")
    assert stream.readline().startswith(b"service=")
    assert stream.readline() == b"begin\n"

    def ask() -> str:
        line = hashlib.sha256(str(time.monotonic()).encode()).hexdigest().encode() + b"\n"
        plain.sendall(line)
        if (got := stream.readline()) != line:
            raise ConnectionResetError(f"{got!r} for {line!r}")
        return ""

    return ask


def certificate(status: int, body: bytes) -> str:
    if status != 200:
        raise ConnectionResetError(f"{status}: {body!r}")
    return str(_HASH.findall(json.loads(body)["xfcc"])[0])


def main(host: str, http_port: str, raw_port: str, seconds: str) -> None:
    steady = {
        "h1": Steady(h1(host, int(http_port))),
        "h2": Steady(h2c(host, int(http_port))),
        "raw": Steady(raw(host, int(raw_port))),
    }
    for one in steady.values():
        one.once()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    until = time.monotonic() + float(seconds)
    threads = [threading.Thread(target=one.run, args=(until,)) for one in steady.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fields = ("answers", "error", "certificates")
    sys.stdout.write(json.dumps({n: {f: getattr(one, f) for f in fields} for n, one in steady.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
