"""Calls made from inside a pod, as any program there would make them: no library of the mesh, ordinary names.

``python3 caller.py`` reads one call a line from its standard input (JSON, see `Call` in demo.py), makes it twice, and
answers with one line: what came, and for either time the milliseconds from looking the name up to the last byte.
"""

import http.client
import json
import socket
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import grpc

LIMIT_S = 10.0
PROXY = ("127.0.0.1", 18081)

Fields = Mapping[str, Any]


def connect(call: Fields, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """A connection to the call's name and port, over IPv6 if it asks for that."""
    host, port = PROXY if call["by_proxy"] else (call["host"], call["port"])
    family = socket.AF_INET6 if call["is_ipv6"] else socket.AF_INET
    *_, address = socket.getaddrinfo(host, port, family, kind)[0]
    connection = socket.socket(family, kind)
    connection.settimeout(LIMIT_S)
    connection.connect(address)
    return connection


def call_http(call: Fields) -> Fields:
    """GET /. A delivery is who answered, and whom it saw calling; a refusal is its status, its reason and its text."""
    authority = call["authority"] or call["host"] + ("" if call["port"] == 80 else f":{call['port']}")
    connection = http.client.HTTPConnection(call["host"], call["port"])
    connection.sock = connect(call)
    connection.request("GET", f"http://{authority}/" if call["by_proxy"] else "/", headers={"host": authority})
    answer = connection.getresponse()
    body = answer.read().decode()
    if answer.status == 200:
        return delivered(json.loads(body))
    reason = answer.getheader("x-aether-error", "")
    return {"got": f"{answer.status} {reason}".strip(), "text": body}


def call_grpc(call: Fields) -> Fields:
    """One unary gRPC call, h2c with prior knowledge."""
    with grpc.insecure_channel(f"{call['host']}:{call['port']}") as channel:
        method = channel.unary_unary("/shop.Cart/Add", lambda body: body, lambda body: body)
        try:
            return delivered(json.loads(method(b"one apple", timeout=LIMIT_S)))
        except grpc.RpcError as error:
            reason = dict(error.trailing_metadata() or ()).get("x-aether-error")
            return {"got": reason or error.code().name, "text": error.details()}


def call_redis(call: Fields) -> Fields:
    """PING in Redis' own protocol; where no Redis is installed, the echo in its place answers with its name."""
    with connect(call) as connection:
        connection.sendall(b"PING\r\n")
        return named(first_line(connection))


def call_tcp(call: Fields) -> Fields:
    """Bytes that are no HTTP; the echo answers them with its name."""
    with connect(call) as connection:
        connection.sendall(b"\x00hello\n")
        return named(first_line(connection))


def call_banner(call: Fields) -> Fields:
    """Says nothing and waits for the server to begin, as clients of SMTP, SSH and MySQL do."""
    with connect(call) as connection:
        return named(first_line(connection))


def call_udp(call: Fields) -> Fields:
    """One datagram there, one back."""
    with connect(call, socket.SOCK_DGRAM) as connection:
        connection.send(b"hello")
        return named(connection.recv(2048).decode())


def delivered(answer: Mapping[str, Any]) -> Fields:
    """Who answered, and the identity that its side of the mesh proved the caller to have."""
    caller = answer["xfcc"].rpartition("URI=")[2].split(";")[0]
    return {"got": f"{answer['service']}:{answer['port']}", "caller": caller}


def named(line: str) -> Fields:
    """The echo's line ``service=… port=… pod=…``, as ``service:port``."""
    words = dict(word.split("=", 1) for word in line.split() if "=" in word)
    return {"got": f"{words['service']}:{words['port']}" if "service" in words else line[:40]}


def first_line(connection: socket.socket) -> str:
    with connection.makefile("rb") as stream:
        return stream.readline().decode(errors="replace").strip()


KINDS: Mapping[str, Callable[[Fields], Fields]] = {
    "http": call_http,
    "grpc": call_grpc,
    "redis": call_redis,
    "tcp": call_tcp,
    "banner": call_banner,
    "udp": call_udp,
}


def attempt(call: Fields) -> Fields:
    """What came of a call, whatever it was: a connection that failed is an answer too."""
    began = time.perf_counter()
    try:
        came = KINDS[call["kind"]](call)
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        came = {"got": type(error).__name__, "text": str(error)}
    return {**came, "ms": [(time.perf_counter() - began) * 1000]}


def answer(call: Fields) -> Fields:
    """The call made twice; both answers are told where they differ."""
    first, again = attempt(call), attempt(call)
    got = first["got"] if first["got"] == again["got"] else f"{first['got']}, then {again['got']}"
    return {**again, "got": got, "ms": first["ms"] + again["ms"]}


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
