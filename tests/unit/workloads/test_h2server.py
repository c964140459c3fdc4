"""HTTP/2 with prior knowledge of the echo workload, gRPC included."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import grpc
import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from tests.support.echo import POD, SERVICE, RunningEcho, running_echo

LIMIT_S = 10.0


@pytest.fixture(scope="module")
def echo() -> Iterator[RunningEcho]:
    with running_echo("h2") as running:
        yield running


class Answer:
    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_ended = False

    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One connection. `window_bytes` is how much of an answer may be on its way at a time."""

    def __init__(self, port: int, *, window_bytes: int = 65_535) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._h2.initiate_connection()
        self._h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window_bytes})
        self.answers: dict[int, Answer] = {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def ask(self, path: str, body: bytes = b"", *, authority: str = "cart.shop:8080", **headers: str) -> int:
        """Send a request; its stream."""
        stream = self._h2.get_next_available_stream_id()
        pseudo = [(":method", "POST"), (":path", path), (":scheme", "http"), (":authority", authority)]
        given = [(name.replace("_", "-"), value) for name, value in headers.items()]
        self._h2.send_headers(stream, [*pseudo, *given], end_stream=not body)
        if body:
            self._h2.send_data(stream, body, end_stream=True)
        self.answers[stream] = Answer()
        self._flush()
        return stream

    def reset(self, stream: int) -> None:
        self._h2.reset_stream(stream)
        self._flush()

    def read(self, stream: int) -> Answer:
        """The whole answer; what comes of other streams meanwhile is kept."""
        while not self.answers[stream].is_ended:
            self.receive()
        return self.answers[stream]

    def receive(self) -> None:
        data = self._socket.recv(65_536)
        assert data, "the server closed the connection"
        for event in self._h2.receive_data(data):
            self._on_event(event)
        self._flush()

    def _on_event(self, event: Any) -> None:
        match event:
            case h2.events.ResponseReceived():
                self.answers[event.stream_id].headers = {str(name): str(value) for name, value in event.headers}
            case h2.events.DataReceived():
                self.answers[event.stream_id].body += event.data
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self.answers[event.stream_id].is_ended = True
            case _:
                pass

    def _flush(self) -> None:
        self._socket.sendall(self._h2.data_to_send())


@pytest.fixture
def client(echo: RunningEcho) -> Iterator[Client]:
    with Client(echo.ports["h2"]) as client:
        yield client


def test_an_answer_says_who_was_asked_what(client: Client, echo: RunningEcho) -> None:
    answer = client.read(client.ask("/orders", b"12345", x_trace="7"))
    assert answer.headers[":status"] == "200"
    said = answer.json()
    assert (said["service"], said["pod"], said["port"]) == (SERVICE, POD, echo.ports["h2"])
    assert (said["method"], said["path"], said["host"], said["body_bytes"]) == ("POST", "/orders", "cart.shop:8080", 5)
    assert said["headers"] == {"x-trace": "7"}


def test_the_path_chooses_the_status(client: Client) -> None:
    assert client.read(client.ask("/status/503")).headers[":status"] == "503"


def test_a_slow_answer_holds_up_no_other_stream(client: Client) -> None:
    slow, fast = client.ask("/slow/100"), client.ask("/")
    client.read(fast)
    assert not client.answers[slow].is_ended
    assert client.read(slow).json()["path"] == "/slow/100"


def test_a_request_that_was_taken_back_is_not_answered_and_the_connection_goes_on(client: Client) -> None:
    taken_back = client.ask("/slow/10")
    client.reset(taken_back)
    client.read(client.ask("/slow/30"))
    assert client.answers[taken_back].headers == {}


def test_an_answer_is_sent_as_far_as_the_client_has_room(echo: RunningEcho) -> None:
    with Client(echo.ports["h2"], window_bytes=16) as client:
        streams = [client.ask("/one"), client.ask("/two")]
        assert [client.read(stream).json()["path"] for stream in streams] == ["/one", "/two"]


def test_what_is_no_http2_is_closed(echo: RunningEcho) -> None:
    with socket.create_connection(("127.0.0.1", echo.ports["h2"]), timeout=LIMIT_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        while connection.recv(1024):
            pass


def test_a_grpc_call_of_any_method_gets_the_answer_as_its_message(echo: RunningEcho) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{echo.ports['h2']}") as channel:
        said = json.loads(channel.unary_unary("/shop.Cart/Get")(b"request", timeout=LIMIT_S))
    assert (said["service"], said["path"]) == (SERVICE, "/shop.Cart/Get")
    assert said["body_bytes"] == len(b"request") + 5, "with the frame's header"
