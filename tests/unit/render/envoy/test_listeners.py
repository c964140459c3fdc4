"""A pod's outbound listeners."""

from typing import Any

import msgspec
import pytest
from envoy.config.listener.v3 import listener_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from google.protobuf import wrappers_pb2
from tests.support.envoy_plans import PLACE, POD, chain_of, unpack
from xds.type.matcher.v3 import ip_pb2, matcher_pb2

from aether.render.envoy import names
from aether.render.envoy.listeners import outbound_listeners, to_chain

CAPTURE, RAW, PROXY = outbound_listeners(PLACE)


def carried(listener: listener_pb2.Listener, chain: str) -> dict[str, str]:
    config = unpack(set_filter_state_pb2.Config, chain_of(listener, chain).filters[0].typed_config)
    return {
        value.object_key: value.format_string.text_format_source.inline_string for value in config.on_new_connection
    }


def table_of(listener: listener_pb2.Listener, chain: str) -> str:
    manager = unpack(
        http_connection_manager_pb2.HttpConnectionManager, chain_of(listener, chain).filters[1].typed_config
    )
    return str(manager.rds.route_config_name)


def forward_of(listener: listener_pb2.Listener, chain: str) -> Any:
    return unpack(tcp_proxy_pb2.TcpProxy, chain_of(listener, chain).filters[1].typed_config)


def chain_named(on_match: matcher_pb2.Matcher.OnMatch) -> str:
    return str(unpack(wrappers_pb2.StringValue, on_match.action.typed_config).value)


def ranges_of(matcher: matcher_pb2.Matcher) -> tuple[list[str], str]:
    (each,) = unpack(ip_pb2.IPMatcher, matcher.matcher_tree.custom_match.typed_config).range_matchers
    return [f"{r.address_prefix}/{r.prefix_len.value}" for r in each.ranges], chain_named(each.on_match)


@pytest.mark.parametrize(("listener", "port"), [(CAPTURE, 18001), (RAW, 18002)])
def test_a_capture_listener_stands_transparent_on_every_address_of_the_pods_namespace(listener: Any, port: int) -> None:
    address = listener.address.socket_address
    assert (address.address, address.port_value, address.ipv4_compat) == ("::", port, True)
    assert address.network_namespace_filepath == POD.netns
    assert listener.transparent.value


def test_the_proxy_port_stands_on_the_pods_loopback_alone() -> None:
    address = PROXY.address.socket_address
    assert (address.address, address.port_value) == ("127.0.0.1", 18081)
    assert address.network_namespace_filepath == POD.netns


def test_only_18001_waits_for_bytes_and_for_a_second_at_most() -> None:
    inspectors = [each.name.rpartition(".")[2] for each in CAPTURE.listener_filters]
    assert inspectors == ["original_dst", "tls_inspector", "http_inspector"]
    assert CAPTURE.listener_filters_timeout.seconds == 1
    assert CAPTURE.continue_on_listener_filters_timeout
    assert [each.name.rpartition(".")[2] for each in RAW.listener_filters] == ["original_dst"]


def test_cleartext_http_goes_to_the_tables_and_the_transport_is_asked_first() -> None:
    transport = CAPTURE.filter_chain_matcher.matcher_tree
    assert transport.input.typed_config.type_url.endswith("TransportProtocolInput")
    assert set(transport.exact_match_map.map) == {"raw_buffer"}
    protocol = transport.exact_match_map.map["raw_buffer"].matcher.matcher_tree
    assert set(protocol.exact_match_map.map) == {"'http/1.0'", "'http/1.1'", "'h2c'"}


def test_http_to_a_pods_address_has_its_own_table_but_for_the_proxy_port() -> None:
    transport = CAPTURE.filter_chain_matcher.matcher_tree.exact_match_map.map["raw_buffer"].matcher
    by_port = transport.matcher_tree.exact_match_map.map["'h2c'"].matcher
    assert chain_named(by_port.matcher_tree.exact_match_map.map["18081"]) == names.CAPTURE_CHAIN
    by_address = by_port.on_no_match.matcher
    assert ranges_of(by_address) == (list(PLACE.config.pod_cidrs), names.POD_CHAIN)
    assert chain_named(by_address.on_no_match) == names.CAPTURE_CHAIN
    assert table_of(CAPTURE, names.POD_CHAIN) == names.POD_TABLE
    assert table_of(CAPTURE, names.CAPTURE_CHAIN) == names.CAPTURE_TABLE
    assert table_of(PROXY, names.PROXY_CHAIN) == names.PROXY_TABLE


def test_raw_tcp_inside_the_meshs_ranges_is_one_chain_that_names_its_cluster_after_the_dial() -> None:
    config = PLACE.config
    assert ranges_of(RAW.filter_chain_matcher) == ([*config.service_cidrs, *config.pod_cidrs], names.RAW_CHAIN)
    assert not RAW.filter_chain_matcher.HasField("on_no_match")
    assert carried(RAW, names.RAW_CHAIN)[names.TCP_CLUSTER_KEY] == "tcp|%DOWNSTREAM_LOCAL_ADDRESS%"
    assert forward_of(RAW, names.RAW_CHAIN).HasField("on_demand")


@pytest.mark.parametrize("listener", [CAPTURE, RAW])
def test_everything_else_passes_through_from_the_pods_own_namespace(listener: Any) -> None:
    assert listener.default_filter_chain.name == names.PASS_THROUGH_CHAIN
    assert forward_of(listener, names.PASS_THROUGH_CHAIN).cluster == names.PASS_THROUGH
    assert carried(listener, names.PASS_THROUGH_CHAIN)[names.NETNS_KEY] == POD.netns


def test_a_request_carries_who_calls_and_what_was_dialled() -> None:
    state = carried(CAPTURE, names.CAPTURE_CHAIN)
    assert state[names.IDENTITY_KEY] == POD.outbound_secret
    assert state[names.CALLER_NAMESPACE_KEY] == "shop"
    assert state[names.DIALLED_PORT_KEY] == "%DOWNSTREAM_LOCAL_PORT%"
    assert carried(CAPTURE, names.POD_CHAIN) == state


def test_a_request_to_the_proxy_port_dialled_the_proxy_port_whatever_its_address() -> None:
    assert carried(PROXY, names.PROXY_CHAIN)[names.DIALLED_PORT_KEY] == "18081"


def test_two_pods_have_no_listener_and_no_address_in_common() -> None:
    other = msgspec.structs.replace(PLACE, pod=msgspec.structs.replace(POD, uid="other", netns="/run/netns/other"))
    mine, theirs = outbound_listeners(PLACE), outbound_listeners(other)
    assert not {each.name for each in mine} & {each.name for each in theirs}
    assert not any(one.address == two.address for one in mine for two in theirs)


def test_a_chain_is_named_by_its_text() -> None:
    assert chain_named(to_chain("a")) == "a"
