"""The lint of snapshots: each fault is found in a snapshot that is sound but for it."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import address_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from envoy.type.v3 import http_pb2
from google.protobuf.message import Message
from tests.support.envoy_plans import CONFIG, HTTP_CLUSTER, POD, POD_DIAL, RAW_CLUSTER, view

from aether.plan.mesh.node import NodePlan
from aether.render.envoy import names
from aether.render.envoy.consistency import consistency
from aether.render.envoy.resource import Resource, encode, resource_of
from aether.render.envoy.snapshot import render_snapshot

SOUND = render_snapshot(
    NodePlan(
        node="n1",
        config=CONFIG,
        directory=(view("shop/cart", "8080"),),
        pods=(POD,),
        clusters=(HTTP_CLUSTER, POD_DIAL, RAW_CLUSTER),
    )
)
CAPTURE = names.capture_listener(POD.uid)
RAW = names.raw_listener(POD.uid)
INBOUND = names.inbound_listener(POD.uid)
PROBE = names.probe_cluster(POD.uid)

Snapshot = Mapping[str, Mapping[str, Resource]]
_KINDS: Mapping[str, type[Message]] = {
    names.CLUSTER: cluster_pb2.Cluster,
    names.LISTENER: listener_pb2.Listener,
    names.ROUTE: route_pb2.RouteConfiguration,
}


def spoil(type_url: str, name: str, change: Callable[[Any], None]) -> list[str]:
    """What is found after one resource was changed."""
    message = _KINDS[type_url].FromString(SOUND[type_url][name].body)
    change(message)
    spoiled = resource_of(name, type_url, encode(message))
    return consistency({**SOUND, type_url: {**SOUND[type_url], name: spoiled}})


def without(type_url: str, name: str) -> Snapshot:
    return {**SOUND, type_url: {key: value for key, value in SOUND[type_url].items() if key != name}}


def spoil_packed(packed: Any, kind: type[Message], change: Callable[[Any], None]) -> None:
    message = kind.FromString(packed.value)
    change(message)
    packed.value = encode(message)


def spoil_filter(chain: int, kind: type[Message], change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Change the filter of this kind in one of a listener's chains."""

    def apply(listener: Any) -> None:
        for each in listener.filter_chains[chain].filters:
            if each.typed_config.type_url.endswith(kind.DESCRIPTOR.full_name):
                spoil_packed(each.typed_config, kind, change)

    return apply


def spoil_tls(kind: type[Message], change: Callable[[Any], None]) -> Callable[[Any], None]:
    """Change the TLS context of a cluster, or of a listener's first chain."""

    def apply(message: Any) -> None:
        owner = message if isinstance(message, cluster_pb2.Cluster) else message.filter_chains[0]
        spoil_packed(owner.transport_socket.typed_config, kind, change)

    return apply


Manager = http_connection_manager_pb2.HttpConnectionManager


def test_a_rendered_snapshot_is_sound() -> None:
    assert consistency(SOUND) == []


def test_an_empty_snapshot_is_sound() -> None:
    assert consistency({}) == []


def test_a_matcher_that_names_no_chain_is_found_and_a_chain_nobody_names() -> None:
    def rename(listener: Any) -> None:
        listener.filter_chains[1].name = "other"

    assert spoil(names.LISTENER, CAPTURE, rename) == [
        f"{CAPTURE}: chain other is never chosen",
        f"{CAPTURE}: chain pod_http is named and missing",
    ]


def test_a_missing_table_is_found() -> None:
    found = consistency(without(names.ROUTE, names.CAPTURE_TABLE))
    assert f"{CAPTURE}, chain cap_http: table cap_http is missing" in found


def test_a_name_in_two_virtual_hosts_is_found() -> None:
    found = spoil(names.ROUTE, names.PROXY_TABLE, lambda table: table.virtual_hosts[0].domains.append("cart"))
    assert found == ["out_http: cart stands in 2 virtual hosts"]


def test_a_cluster_that_nobody_will_ever_answer_for_is_found() -> None:
    found = consistency(without(names.CLUSTER, names.PASS_THROUGH))
    assert f"{CAPTURE}, chain cap_http: cluster passthrough is missing" in found
    assert f"{RAW}, chain passthrough: cluster passthrough is missing" in found
    application = names.application_cluster(POD.uid, 8080)
    assert consistency(without(names.CLUSTER, application)) == [
        f"{INBOUND}, chain in_http_cart-1_8080: cluster {application} is missing"
    ]


def test_a_cluster_asked_for_on_demand_need_not_be_there_but_without_the_filter_it_must() -> None:
    def name_it(table: Any) -> None:
        table.virtual_hosts[0].routes[0].route.cluster = "later.shop.aether.internal:80"

    assert spoil(names.ROUTE, names.POD_TABLE, name_it) == []
    forget = spoil_filter(1, Manager, lambda manager: manager.http_filters.pop(0))
    listener = listener_pb2.Listener.FromString(SOUND[names.LISTENER][CAPTURE].body)
    forget(listener)
    table = route_pb2.RouteConfiguration.FromString(SOUND[names.ROUTE][names.POD_TABLE].body)
    name_it(table)
    spoiled = {
        names.LISTENER: {**SOUND[names.LISTENER], CAPTURE: resource_of(CAPTURE, names.LISTENER, encode(listener))},
        names.ROUTE: {**SOUND[names.ROUTE], names.POD_TABLE: resource_of(names.POD_TABLE, names.ROUTE, encode(table))},
    }
    assert consistency({**SOUND, **spoiled}) == [
        f"{CAPTURE}, chain pod_http: cluster later.shop.aether.internal:80 is missing"
    ]


@pytest.mark.parametrize(("chain", "name"), [(0, names.CAPTURE_CHAIN), (1, names.POD_CHAIN)])
def test_requests_that_name_their_clusters_need_the_filter_that_asks_for_them(chain: int, name: str) -> None:
    forget = spoil_filter(chain, Manager, lambda manager: manager.http_filters.pop(0))
    assert spoil(names.LISTENER, CAPTURE, forget) == [
        f"{CAPTURE}, chain {name}: requests name their clusters, and nobody asks for them"
    ]


def test_a_cluster_without_its_load_assignment_is_found_and_the_reverse() -> None:
    assert consistency(without(names.ENDPOINT, RAW_CLUSTER.name)) == [
        f"cluster {RAW_CLUSTER.name}: its load assignment is missing"
    ]
    assert consistency(without(names.CLUSTER, HTTP_CLUSTER.name)) == [
        f"load assignment {HTTP_CLUSTER.name}: it is no cluster's"
    ]


def test_a_cluster_that_waits_for_ever_is_found() -> None:
    def wait(cluster: Any) -> None:
        cluster.eds_cluster_config.eds_config.ClearField("initial_fetch_timeout")

    found = spoil(names.CLUSTER, HTTP_CLUSTER.name, wait)
    assert found == [f"cluster {HTTP_CLUSTER.name}: it waits for its endpoints for ever"]


@pytest.mark.parametrize("name", [HTTP_CLUSTER.name, POD_DIAL.name])
def test_a_mesh_hop_without_tls_is_found(name: str) -> None:
    found = spoil(names.CLUSTER, name, lambda cluster: cluster.ClearField("transport_socket"))
    assert found == [f"cluster {name}: the mesh hop is without TLS"]


@pytest.mark.parametrize("name", [HTTP_CLUSTER.name, RAW_CLUSTER.name, POD_DIAL.name, PROBE])
def test_a_peer_that_is_not_pinned_is_found(name: str) -> None:
    def unpin(context: Any) -> None:
        trust = context.common_tls_context.combined_validation_context.default_validation_context
        trust.ClearField("match_typed_subject_alt_names")

    found = spoil(names.CLUSTER, name, spoil_tls(tls_pb2.UpstreamTlsContext, unpin))
    assert found == [f"cluster {name}: its peer is not pinned"]


def test_a_hop_without_a_server_name_or_below_tls_1_3_is_found() -> None:
    def weaken(context: Any) -> None:
        context.sni = ""
        context.common_tls_context.ClearField("tls_params")

    found = spoil(names.CLUSTER, PROBE, spoil_tls(tls_pb2.UpstreamTlsContext, weaken))
    assert found == [f"cluster {PROBE}: TLS below 1.3", f"cluster {PROBE}: no server name"]


def test_an_inbound_chain_that_accepts_anybody_is_found() -> None:
    def open_up(context: Any) -> None:
        context.ClearField("require_client_certificate")
        context.common_tls_context.ClearField("tls_params")
        context.common_tls_context.ClearField("combined_validation_context")

    place = f"{INBOUND}, chain in_tcp_cart-1_7000"
    assert spoil(names.LISTENER, INBOUND, spoil_tls(tls_pb2.DownstreamTlsContext, open_up)) == [
        f"{place}: TLS below 1.3",
        f"{place}: no client certificate is demanded",
        f"{place}: peers of any trust domain are accepted",
    ]


def test_an_application_that_is_dialled_too_early_is_found() -> None:
    hurry = spoil_filter(0, tcp_proxy_pb2.TcpProxy, lambda proxy: proxy.ClearField("upstream_connect_mode"))
    assert spoil(names.LISTENER, INBOUND, hurry) == [
        f"{INBOUND}, chain in_tcp_cart-1_7000: the application is dialled before the handshake ends"
    ]


@pytest.mark.parametrize("key", [names.IDENTITY_KEY, names.NETNS_KEY])
def test_filter_state_that_does_not_part_pools_is_found(key: str) -> None:
    def share(config: Any) -> None:
        next(each for each in config.on_new_connection if each.object_key == key).factory_key = "envoy.string"

    found = spoil(names.LISTENER, CAPTURE, spoil_filter(0, set_filter_state_pb2.Config, share))
    assert found == [f"{CAPTURE}, chain cap_http: {key} is made by envoy.string"]


def test_a_secret_with_two_uses_is_found() -> None:
    def use_the_outbound_one(context: Any) -> None:
        context.common_tls_context.tls_certificate_sds_secret_configs[0].name = POD.outbound_secret

    found = spoil(names.LISTENER, INBOUND, spoil_tls(tls_pb2.DownstreamTlsContext, use_the_outbound_one))
    assert found == [f"secret {POD.outbound_secret}: it is both on demand and named"]


def test_quic_in_any_form_is_found() -> None:
    def udp(listener: Any) -> None:
        listener.address.socket_address.protocol = address_pb2.SocketAddress.UDP

    def http3(manager: Any) -> None:
        manager.codec_type = Manager.HTTP3

    def check(cluster: Any) -> None:
        cluster.health_checks[0].http_health_check.codec_client_type = http_pb2.HTTP3

    assert spoil(names.LISTENER, CAPTURE, udp) == [f"{CAPTURE}: UDP"]
    assert spoil(names.LISTENER, CAPTURE, spoil_filter(0, Manager, http3)) == [f"{CAPTURE}, chain cap_http: HTTP/3"]
    assert spoil(names.CLUSTER, PROBE, check) == [f"cluster {PROBE}: HTTP/3 health check"]


def test_a_listener_on_the_node_and_two_on_one_address_are_found() -> None:
    def on_the_node(listener: Any) -> None:
        listener.address.socket_address.ClearField("network_namespace_filepath")

    def on_18002(listener: Any) -> None:
        listener.address.socket_address.port_value = 18002

    assert spoil(names.LISTENER, CAPTURE, on_the_node) == [f"{CAPTURE}: not in a pod's network namespace"]
    assert spoil(names.LISTENER, CAPTURE, on_18002) == [f"2 listeners stand on ('::', 18002, '{POD.netns}')"]


def test_faults_come_sorted_and_once() -> None:
    plan = NodePlan(node="n1", config=CONFIG, pods=(POD, msgspec.structs.replace(POD, uid="other")))
    found = consistency(render_snapshot(plan))
    assert found == sorted(set(found))
    assert len(found) == 4
