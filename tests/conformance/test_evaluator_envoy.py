"""The evaluator against a real Envoy: arbitrary configuration, the same question to both, the same answer from both."""

import contextlib
import random
import socket
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.arbitrary import (
    ADDRESSES,
    ALPN,
    AUTHORITIES,
    PATHS,
    PORTS,
    SERVER_NAMES,
    TYPE,
    VALUES,
    Arbitrary,
    Config,
)
from tests.support.envoy import EnvoyProcess
from tests.support.envoy_yaml import snapshot_from
from tests.support.http import HttpConnection, proxy_header
from tests.support.ports import free_ports

from aether.render.envoy.evaluate import Connection, Evaluator, Request, Spoken
from aether.render.envoy.evaluate.verdict import Answer, Forward

pytestmark = pytest.mark.envoy

SEED = 20_261
TABLES, REQUESTS = 40, 150
LISTENERS, CONNECTIONS = 40, 60
LOOPBACK = "127.0.0.1"
FILTERS = f"{TYPE}envoy.extensions.filters"


def test_arbitrary_route_tables_choose_the_same_route(tmp_path: Path) -> None:
    draw = Arbitrary(random.Random(SEED))
    ports = free_ports(TABLES)
    listeners = [_http_listener(port, draw.manager(draw.table(f"t{port}"))) for port in ports]
    evaluator = Evaluator(snapshot_from({"listeners": listeners}))
    with _envoy(listeners, tmp_path):
        answers = [_ask(port, evaluator, draw) for port in ports for _ in range(REQUESTS)]
    assert [answer for answer in answers if answer[1] != answer[2]] == []
    hits = sum(real[0] == 200 for _, real, _ in answers)
    assert hits > len(answers) / 10


def test_arbitrary_listeners_choose_the_same_filter_chain(tmp_path: Path) -> None:
    draw = Arbitrary(random.Random(SEED))
    ports = free_ports(LISTENERS)
    chosen_by = [_chain_choice(draw, by_tree=index % 2 == 0) for index in range(LISTENERS)]
    real = [_listener(port, by, _named_answer, proxied=True) for port, by in zip(ports, chosen_by, strict=True)]
    read = [_listener(port, by, _named_cluster, proxied=False) for port, by in zip(ports, chosen_by, strict=True)]
    evaluator = Evaluator(snapshot_from({"listeners": read}))
    with _envoy(real, tmp_path):
        answers = [_dial(port, evaluator, draw) for port in ports for _ in range(CONNECTIONS)]
    assert [answer for answer in answers if answer[1] != answer[2]] == []
    assert len({said for _, said, _ in answers}) > 4


@contextlib.contextmanager
def _envoy(listeners: Iterable[Config], folder: Path) -> Any:
    admin = {"address": {"pipe": {"path": str(folder / "admin.sock")}}}
    with EnvoyProcess({"static_resources": {"listeners": list(listeners)}, "admin": admin}, folder) as envoy:
        envoy.wait_live()
        yield envoy


def _http_listener(port: int, manager: Config) -> Config:
    values = [
        _state("port", "envoy.string", "%DOWNSTREAM_LOCAL_PORT%"),
        _state("host", "envoy.hashable_string", "a%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%"),
        _state("address", "envoy.network.ip", "%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%"),
    ]
    state = {"@type": f"{FILTERS}.network.set_filter_state.v3.Config", "on_new_connection": values}
    filters = [{"name": "state", "typed_config": state}, {"name": "http", "typed_config": manager}]
    return {"name": f"l{port}", "address": _address(port), "filter_chains": [{"name": "c", "filters": filters}]}


def _state(key: str, factory: str, text: str) -> Config:
    return {
        "object_key": key,
        "factory_key": factory,
        "format_string": {"text_format_source": {"inline_string": text}},
    }


def _address(port: int) -> Config:
    return {"socket_address": {"address": LOOPBACK, "port_value": port}}


def _ask(port: int, evaluator: Evaluator, draw: Arbitrary) -> tuple[object, tuple[int, str, str], tuple[int, str, str]]:
    """The request, Envoy's answer and the evaluator's: status, body and the header that levels add to."""
    headers = [("x-a", str(draw.one(VALUES))) for _ in range(int(draw.one((0, 1, 1, 2))))]
    headers += [("X-B", str(draw.one(VALUES)))] if draw.chance(0.4) else []
    request = Request(authority=draw.one(AUTHORITIES), path=draw.one(PATHS), headers=tuple(headers))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    with contextlib.closing(HttpConnection(port)) as client:
        said = client.get(request.authority, path=request.path, headers=lines)
    connection = Connection(
        netns="", listener_port=port, address=LOOPBACK, port=port, spoken=Spoken.HTTP11, source=LOOPBACK
    )
    answer = evaluator.evaluate_request(connection, request).outcome
    assert isinstance(answer, Answer)
    seen = [value for name, value in answer.headers if name == "x-seen"]
    read = (answer.status, answer.body, seen[-1] if seen else "")
    return (port, request), (said.status, said.body, said.headers.get("x-seen", "")), read


def _chain_choice(draw: Arbitrary, *, by_tree: bool) -> Config:
    """How a listener chooses: a matcher over chains named a to d, or a match for each."""
    names = ("a", "b", "c", "d")
    choice: Config = {"default": draw.chance(0.7), "names": names, "matches": [{}] * len(names)}
    if by_tree:
        return {**choice, "matcher": draw.chain_matcher(names)}
    return {**choice, "matches": draw.chain_matches(len(names))}


def _listener(port: int, by: Config, filters: Any, *, proxied: bool) -> Config:
    inspectors = ["tls_inspector.v3.TlsInspector", "http_inspector.v3.HttpInspector"]
    kinds = ["proxy_protocol.v3.ProxyProtocol", *inspectors] if proxied else inspectors
    chains = [
        {"name": name, "filters": [filters(name)], "filter_chain_match": match}
        for name, match in zip(by["names"], by["matches"], strict=True)
    ]
    listener: Config = {
        "name": f"l{port}",
        "address": _address(port) if proxied else {"socket_address": {"address": "0.0.0.0", "port_value": port}},
        "listener_filters": [{"name": kind, "typed_config": {"@type": f"{FILTERS}.listener.{kind}"}} for kind in kinds],
        "filter_chains": chains,
    }
    if "matcher" in by:
        listener["filter_chain_matcher"] = by["matcher"]
        for chain in chains:
            del chain["filter_chain_match"]
    if by["default"]:
        listener["default_filter_chain"] = {"name": "rest", "filters": [filters("rest")]}
    return listener


def _named_answer(name: str) -> Config:
    config = {"@type": f"{FILTERS}.network.direct_response.v3.Config", "response": {"inline_string": name}}
    return {"name": "envoy.filters.network.direct_response", "typed_config": config}


def _named_cluster(name: str) -> Config:
    config = {"@type": f"{FILTERS}.network.tcp_proxy.v3.TcpProxy", "stat_prefix": name, "cluster": name}
    return {"name": "tcp", "typed_config": config}


def _dial(port: int, evaluator: Evaluator, draw: Arbitrary) -> tuple[Connection, str, str]:
    """The connection, and the chain that took it, "" for none, by Envoy and by the evaluator."""
    spoken = draw.one((Spoken.HTTP11, Spoken.HTTP10, Spoken.H2C, Spoken.TLS, Spoken.TLS, Spoken.OTHER))
    is_tls = spoken is Spoken.TLS
    connection = Connection(
        netns="",
        listener_port=port,
        address=draw.one(ADDRESSES),
        port=draw.one(PORTS),
        spoken=spoken,
        server_name=draw.one(("", *SERVER_NAMES)) if is_tls else "",
        alpn=draw.one(((), ALPN, ALPN[:1], ALPN[1:])) if is_tls else (),
    )
    outcome = evaluator.evaluate_connection(connection).outcome
    return connection, _converse(port, connection), outcome.cluster if isinstance(outcome, Forward) else ""


_FIRST_BYTES = {
    Spoken.HTTP10: b"GET / HTTP/1.0\r\n\r\n",
    Spoken.HTTP11: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    Spoken.H2C: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    Spoken.OTHER: b"\x00\x01\x02\x03 neither this nor that",
}


def _converse(port: int, connection: Connection) -> str:
    first = _FIRST_BYTES.get(connection.spoken) or _client_hello(connection.server_name, connection.alpn)
    received = b""
    with socket.create_connection((LOOPBACK, port), timeout=10) as client, contextlib.suppress(ConnectionError):
        client.sendall(proxy_header(connection.address, connection.port) + first)
        while data := client.recv(4096):
            received += data
    return received.decode()


def _client_hello(server_name: str, alpn: Sequence[str]) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=server_name or None).do_handshake()
    return outgoing.read()
