"""The echo workload: every answer names its service, port and pod."""

import http.client
import json
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.echo import POD, SERVICE, RunningEcho, running_echo

LIMIT_S = 10.0


@pytest.fixture(scope="module")
def echo() -> Iterator[RunningEcho]:
    with running_echo("http", "tcp", "banner", "udp") as running:
        yield running


@pytest.fixture
def web(echo: RunningEcho) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection("127.0.0.1", echo.ports["http"], timeout=LIMIT_S)
    yield connection
    connection.close()


def dial(echo: RunningEcho, kind: str, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection((address, echo.ports[kind]), timeout=LIMIT_S)


def answer(connection: http.client.HTTPConnection) -> Any:
    return json.loads(connection.getresponse().read())


def test_an_http_answer_says_who_was_asked_what(web: http.client.HTTPConnection, echo: RunningEcho) -> None:
    headers = {"Host": "cart.shop:8080", "X-Trace": "7", "X-Forwarded-Client-Cert": "URI=spiffe://m/ns/a/sa/b"}
    web.request("POST", "/orders?id=3", body=b"12345", headers=headers)
    said = answer(web)
    assert (said["service"], said["pod"], said["port"]) == (SERVICE, POD, echo.ports["http"])
    assert (said["method"], said["path"], said["host"], said["body_bytes"]) == (
        "POST",
        "/orders?id=3",
        "cart.shop:8080",
        5,
    )
    assert said["xfcc"] == "URI=spiffe://m/ns/a/sa/b"
    assert said["headers"]["x-trace"] == "7"


def test_a_connection_is_kept_and_connections_are_counted(web: http.client.HTTPConnection, echo: RunningEcho) -> None:
    web.request("GET", "/")
    first = answer(web)["connections"]
    web.request("GET", "/")
    assert answer(web)["connections"] == first, "the same connection"
    dial(echo, "tcp").close()
    other = http.client.HTTPConnection("127.0.0.1", echo.ports["http"], timeout=LIMIT_S)
    other.request("GET", "/")
    assert answer(other)["connections"] == first + 1
    other.close()


def test_the_path_chooses_the_status(web: http.client.HTTPConnection) -> None:
    for status in (404, 503, 200):
        web.request("GET", f"/status/{status}?x")
        response = web.getresponse()
        assert response.status == status
        response.read()


def test_the_path_delays_the_answer(web: http.client.HTTPConnection) -> None:
    before = time.monotonic()
    web.request("GET", "/slow/50")
    assert answer(web)["path"] == "/slow/50"
    assert time.monotonic() - before >= 0.05


def test_a_chunked_body_is_read_to_its_end(web: http.client.HTTPConnection) -> None:
    web.request("PUT", "/", body=iter([b"123", b"4567"]), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert answer(web)["body_bytes"] == 7
    web.request("GET", "/")
    assert answer(web)["body_bytes"] == 0


def test_an_answer_to_head_has_no_body(web: http.client.HTTPConnection) -> None:
    web.request("HEAD", "/")
    assert web.getresponse().read() == b""
    web.request("GET", "/")
    assert answer(web)["method"] == "GET"


def test_a_client_that_asks_to_close_is_closed(web: http.client.HTTPConnection) -> None:
    web.request("GET", "/", headers={"Connection": "close"})
    assert web.sock is not None
    connection = web.sock
    web.getresponse().read()
    assert connection.recv(1) == b""


def test_what_is_no_http_is_closed(echo: RunningEcho) -> None:
    with dial(echo, "http") as connection:
        connection.sendall(b"HELLO\r\n\r\n")
        assert connection.recv(100) == b""


def test_a_websocket_is_accepted_and_echoes(echo: RunningEcho) -> None:
    with dial(echo, "http") as connection:
        connection.sendall(b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n")
        with connection.makefile("rb") as reader:
            assert reader.readline().startswith(b"HTTP/1.1 101 ")
            while reader.readline() != b"\r\n":
                pass
            connection.sendall(b"frame")
            assert reader.read(5) == b"frame"


def test_raw_tcp_names_itself_at_the_first_bytes_and_echoes(echo: RunningEcho) -> None:
    with dial(echo, "tcp", "::1") as connection, connection.makefile("rb") as reader:
        connection.sendall(b"one")
        assert reader.readline().rstrip() == echo.line("tcp")
        assert reader.read(3) == b"one"
        connection.sendall(b"two")
        assert reader.read(3) == b"two"


def test_a_banner_comes_before_any_byte_of_the_client(echo: RunningEcho) -> None:
    with dial(echo, "banner") as connection, connection.makefile("rb") as reader:
        assert reader.readline().rstrip() == echo.line("banner")
        connection.sendall(b"one")
        assert reader.read(3) == b"one"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_datagram_comes_back_behind_the_name(echo: RunningEcho, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        client.settimeout(LIMIT_S)
        client.connect((address, echo.ports["udp"]))
        client.send(b"ping")
        assert client.recv(200) == echo.line("udp") + b" ping"


def test_told_to_end_it_listens_no_more_and_serves_what_it_has_while_it_lingers() -> None:
    with running_echo("tcp", linger_s=10 * LIMIT_S) as echo, dial(echo, "tcp") as connection:
        reader = connection.makefile("rb")
        connection.sendall(b"x")
        assert reader.readline().rstrip() == echo.line("tcp")
        assert reader.read(1) == b"x"
        echo.process.send_signal(signal.SIGTERM)
        while listens(echo):
            pass
        connection.sendall(b"still")
        assert reader.read(5) == b"still"
        assert echo.process.poll() is None
        reader.close()


def listens(echo: RunningEcho) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", echo.ports["tcp"])) == 0


def test_it_ends_when_it_has_lingered() -> None:
    with running_echo("tcp") as echo:
        echo.process.send_signal(signal.SIGTERM)
        assert echo.process.wait(LIMIT_S) == 0
