"""Network filters: the state a connection is given, the cluster its bytes go to."""

import pytest
from envoy.config.listener.v3 import listener_components_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.filters import NetworkFilter, SetState, TcpProxy, read_network_filter
from aether.render.envoy.evaluate.manager import Manager
from aether.render.envoy.evaluate.request import Connection, Scene, StateObject
from aether.render.envoy.evaluate.strict import Unsupported

NETWORK = "type.googleapis.com/envoy.extensions.filters.network"
SCENE = Scene(connection=Connection(netns="/n", listener_port=1, address="10.96.0.5", port=9000))


def filter_of(kind: str, fields: str) -> NetworkFilter:
    text = f"{{name: f, typed_config: {{'@type': {NETWORK}.{kind}, {fields}}}}}"
    return read_network_filter(message_of(listener_components_pb2.Filter, text))


def state_of(*entries: str) -> SetState:
    found = filter_of("set_filter_state.v3.Config", f"on_new_connection: [{', '.join(entries)}]")
    assert isinstance(found, SetState)
    return found


def entry(key: str, text: str, more: str = "") -> str:
    return f"{{object_key: {key}, format_string: {{text_format_source: {{inline_string: '{text}'}}}}{more}}}"


def test_filter_state_is_written_in_order() -> None:
    first = entry("one", "%DOWNSTREAM_LOCAL_PORT%", ", factory_key: envoy.string")
    second = entry(
        "two", "<%FILTER_STATE(one:PLAIN)%>", ", factory_key: envoy.hashable_string, shared_with_upstream: ONCE"
    )
    both = state_of(first, second)
    scene = both.apply(SCENE)
    assert scene.state["one"] == StateObject("envoy.string", "9000", is_shared=False)
    assert scene.state["two"] == StateObject("envoy.hashable_string", "<9000>", is_shared=True)
    assert both.written(scene) == "one=9000, two=<9000>"


def test_an_empty_text_can_be_skipped() -> None:
    skipping = state_of(entry("one", "", ", factory_key: envoy.string, skip_if_empty: true"))
    assert skipping.apply(SCENE).state == {}
    assert skipping.written(skipping.apply(SCENE)) == ""
    assert state_of(entry("one", "", ", factory_key: envoy.string")).apply(SCENE).state["one"].text == ""


def test_the_key_names_the_factory_if_nothing_else_does() -> None:
    state = state_of(entry("envoy.tcp_proxy.cluster", "tcp|x")).apply(SCENE).state
    assert state["envoy.tcp_proxy.cluster"].factory == "envoy.tcp_proxy.cluster"


@pytest.mark.parametrize(
    "text",
    [
        entry("no.factory", "x"),
        entry("one", "x", ", factory_key: envoy.string, read_only: true"),
        "{factory_key: envoy.string, format_string: {text_format: x}}",
    ],
)
def test_filter_state_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        state_of(text)


def proxy_of(fields: str) -> TcpProxy:
    found = filter_of("tcp_proxy.v3.TcpProxy", f"stat_prefix: s, {fields}")
    assert isinstance(found, TcpProxy)
    return found


def test_a_tcp_proxy_sends_to_its_cluster() -> None:
    proxy = proxy_of("cluster: here")
    assert proxy.choose(SCENE) == (((1, "here"),), "the filter names it")
    assert not proxy.asks_for_clusters


def test_filter_state_overrides_the_cluster() -> None:
    scene = state_of(entry("envoy.tcp_proxy.cluster", "tcp|%DOWNSTREAM_LOCAL_ADDRESS%")).apply(SCENE)
    proxy = proxy_of("cluster: here, on_demand: {odcds_config: {ads: {}}}")
    assert proxy.choose(scene)[0] == ((1, "tcp|10.96.0.5:9000"),)
    assert proxy.asks_for_clusters


def test_text_under_the_key_of_the_cluster_is_not_the_cluster() -> None:
    scene = state_of(entry("envoy.tcp_proxy.cluster", "x", ", factory_key: envoy.string")).apply(SCENE)
    assert proxy_of("cluster: here").choose(scene)[0] == ((1, "here"),)


def test_weights_are_kept() -> None:
    weighted = "weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 3}]}"
    assert proxy_of(weighted).choose(SCENE)[0] == ((1, "a"), (3, "b"))


def test_the_http_connection_manager_is_a_network_filter() -> None:
    found = filter_of("http_connection_manager.v3.HttpConnectionManager", "stat_prefix: s, rds: {route_config_name: t}")
    assert isinstance(found, Manager)
    assert found.table == "t"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("tcp_proxy.v3.TcpProxy", "tunneling_config: {hostname: x}"),
        ("rbac.v3.RBAC", "stat_prefix: s"),
    ],
)
def test_a_filter_that_is_not_understood_is_refused(kind: str, fields: str) -> None:
    from envoy.extensions.filters.network.rbac.v3 import rbac_pb2  # noqa: F401, PLC0415 - registers the message

    with pytest.raises(Unsupported):
        filter_of(kind, fields)
