"""A pod's inbound listener."""

from typing import Any

import pytest
from envoy.extensions.filters.http.health_check.v3 import health_check_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from google.protobuf import wrappers_pb2
from tests.support.envoy_plans import PLACE, POD, chain_of, unpack

from aether.render.envoy import names
from aether.render.envoy.inbound import inbound_listener

INBOUND = inbound_listener(PLACE)
CHAIN_BY_SERVER_NAME = {
    name: unpack(wrappers_pb2.StringValue, then.action.typed_config).value
    for name, then in INBOUND.filter_chain_matcher.matcher_tree.exact_match_map.map.items()
}


def manager_of(chain: str) -> Any:
    last = chain_of(INBOUND, chain).filters[-1]
    return unpack(http_connection_manager_pb2.HttpConnectionManager, last.typed_config)


def alpn_of(chain: str) -> list[str]:
    context = unpack(tls_pb2.DownstreamTlsContext, chain_of(INBOUND, chain).transport_socket.typed_config)
    return list(context.common_tls_context.alpn_protocols)


def test_there_is_one_chain_per_declared_tcp_port_and_one_for_readiness() -> None:
    assert CHAIN_BY_SERVER_NAME == {
        "7000": "in_tcp_cart-1_7000",
        "8080": "in_http_cart-1_8080",
        "8081": "in_http_cart-1_8081",
        "8082": "in_http_cart-1_8082",
        "live": "live",
    }


def test_an_unknown_server_name_gets_no_chain() -> None:
    assert not INBOUND.filter_chain_matcher.HasField("on_no_match")
    assert not INBOUND.HasField("default_filter_chain")


def test_it_stands_on_every_address_of_the_pod() -> None:
    address = INBOUND.address.socket_address
    assert (address.address, address.port_value, address.ipv4_compat) == ("::", 18008, True)
    assert address.network_namespace_filepath == POD.netns


def test_its_statistics_are_the_pods() -> None:
    assert INBOUND.stat_prefix == "inbound_shop_cart-1"
    assert manager_of("in_http_cart-1_8080").stat_prefix == "inbound_shop_cart-1"


@pytest.mark.parametrize("port", [8080, 8081, 8082])
def test_http_goes_to_the_application_without_a_time_limit(port: int) -> None:
    (host,) = manager_of(f"in_http_cart-1_{port}").route_config.virtual_hosts
    (route,) = host.routes
    assert route.route.cluster == names.application_cluster(POD.uid, port)
    assert route.route.HasField("timeout")
    assert route.route.timeout.ByteSize() == 0


def test_an_application_cannot_make_a_word_of_the_mesh_its_own() -> None:
    (host,) = manager_of("in_http_cart-1_8080").route_config.virtual_hosts
    assert list(host.routes[0].response_headers_to_remove) == [names.ERROR_HEADER]


def test_raw_tcp_goes_to_the_application() -> None:
    proxy = unpack(tcp_proxy_pb2.TcpProxy, chain_of(INBOUND, "in_tcp_cart-1_7000").filters[-1].typed_config)
    assert proxy.cluster == names.application_cluster(POD.uid, 7000)


def test_http_speaks_h2_on_the_hop_and_raw_tcp_nothing() -> None:
    assert alpn_of("in_http_cart-1_8080") == alpn_of("live") == ["h2"]
    assert alpn_of("in_tcp_cart-1_7000") == []


def test_readiness_is_answered_by_the_proxy_itself() -> None:
    health, router = manager_of("live").http_filters
    answer = unpack(health_check_pb2.HealthCheck, health.typed_config)
    assert not answer.pass_through_mode.value
    assert answer.headers[0].string_match.exact == "/-/-/live"
    assert router.name == "envoy.filters.http.router"
    assert manager_of("live").route_config.virtual_hosts[0].routes[0].direct_response.status == 404


def test_every_chain_presents_the_pods_own_certificate() -> None:
    for chain in INBOUND.filter_chains:
        context = unpack(tls_pb2.DownstreamTlsContext, chain.transport_socket.typed_config)
        named = context.common_tls_context.tls_certificate_sds_secret_configs
        assert [each.name for each in named] == [POD.inbound_secret]


def test_a_peer_that_vanished_is_noticed() -> None:
    assert [(each.level, each.name) for each in INBOUND.socket_options] == [(1, 9), (6, 4), (6, 5), (6, 6)]
