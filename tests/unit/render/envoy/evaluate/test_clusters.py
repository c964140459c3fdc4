"""Clusters: members and their health, the dialled destination, TLS, the namespace dialled from."""

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.clusters import (
    IDENTITY_KEY,
    NETNS_KEY,
    Cluster,
    assignment_name,
    read_cluster,
)
from aether.render.envoy.evaluate.request import Connection, Scene, StateObject
from aether.render.envoy.evaluate.strict import Unsupported
from aether.render.envoy.evaluate.verdict import Dialled, Members

TLS = "type.googleapis.com/envoy.extensions.transport_sockets.tls"
SCENE = Scene(connection=Connection(netns="", listener_port=1, address="10.244.1.7", port=8080))


def cluster_of(text: str, assignment: str = "") -> Cluster:
    loads = message_of(endpoint_pb2.ClusterLoadAssignment, assignment) if assignment else None
    return read_cluster(message_of(cluster_pb2.Cluster, f"name: c\n{text}"), loads)


def members(*healths: str) -> str:
    endpoints = ", ".join(
        f"{{health_status: {health}, endpoint: {{address: {{socket_address: {{address: 10.0.0.{index}}}}}}}}}"
        for index, health in enumerate(healths)
    )
    return f"{{cluster_name: c, endpoints: [{{lb_endpoints: [{endpoints}]}}]}}"


def usable(cluster: Cluster) -> list[str]:
    upstream = cluster.upstream(SCENE)
    assert isinstance(upstream, Members)
    return [endpoint.health for endpoint in upstream.usable]


def test_members_are_usable_by_their_health() -> None:
    cluster = cluster_of("type: EDS", members("UNKNOWN", "HEALTHY", "DEGRADED", "UNHEALTHY", "DRAINING", "TIMEOUT"))
    assert usable(cluster) == ["UNKNOWN", "HEALTHY", "DEGRADED"]


def test_below_half_the_members_healthy_all_are_used() -> None:
    assert len(usable(cluster_of("type: EDS", members("HEALTHY", "UNHEALTHY", "UNHEALTHY")))) == 3


def test_panic_can_be_switched_off() -> None:
    calm = "type: EDS\ncommon_lb_config: {healthy_panic_threshold: {value: 0}}"
    assert usable(cluster_of(calm, members("HEALTHY", "UNHEALTHY", "UNHEALTHY"))) == ["HEALTHY"]
    assert usable(cluster_of(calm, members("UNHEALTHY"))) == []


def test_a_cluster_without_an_assignment_has_no_members() -> None:
    assert cluster_of("type: EDS").upstream(SCENE) == Members(())
    assert usable(cluster_of("type: STATIC")) == []


def test_a_static_cluster_carries_its_members() -> None:
    assert usable(cluster_of(f"type: STATIC\nload_assignment: {members('HEALTHY')}")) == ["HEALTHY"]


def test_a_member_may_be_a_unix_socket() -> None:
    endpoint = "{endpoint: {address: {pipe: {path: /run/app.sock}}}, load_balancing_weight: 3}"
    cluster = cluster_of(f"load_assignment: {{cluster_name: c, endpoints: [{{lb_endpoints: [{endpoint}]}}]}}")
    assert cluster.endpoints is not None
    assert [(one.address, one.port, one.weight) for one in cluster.endpoints] == [("/run/app.sock", 0, 3)]


DROP = "policy: {drop_overloads: [{category: x, drop_percentage: {numerator: %d, denominator: %s}}]}"


def test_an_assignment_can_drop_every_request() -> None:
    assert cluster_of("type: EDS", f"{{cluster_name: c, {DROP % (100, 'HUNDRED')}}}").drops_requests
    assert not cluster_of("type: EDS", members("HEALTHY")).drops_requests


def test_an_assignment_that_drops_some_requests_is_refused() -> None:
    for share in ((50, "HUNDRED"), (100, "TEN_THOUSAND")):
        with pytest.raises(Unsupported, match="some requests"):
            cluster_of("type: EDS", f"{{cluster_name: c, {DROP % share}}}")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("type: EDS", "c"),
        ("type: EDS\neds_cluster_config: {service_name: s}", "s"),
        ("type: STATIC", ""),
    ],
)
def test_an_eds_cluster_names_its_assignment(text: str, name: str) -> None:
    assert assignment_name(message_of(cluster_pb2.Cluster, f"name: c\n{text}")) == name


def test_the_dialled_destination_is_dialled_perhaps_on_another_port() -> None:
    plain = "type: ORIGINAL_DST\nlb_policy: CLUSTER_PROVIDED"
    override = f"{plain}\noriginal_dst_lb_config: {{upstream_port_override: 18008}}"
    assert cluster_of(plain).upstream(SCENE) == Dialled("10.244.1.7", 8080)
    assert cluster_of(override).upstream(SCENE) == Dialled("10.244.1.7", 18008)


def socket(context: str) -> str:
    return (
        f"type: EDS\ntransport_socket: {{name: t, typed_config: {{'@type': {TLS}.v3.UpstreamTlsContext, {context}}}}}"
    )


PINNED = (
    "combined_validation_context: {default_validation_context: {match_typed_subject_alt_names:"
    " [{san_type: URI, matcher: {exact: 'spiffe://td/ns/shop/sa/cart'}}]}}"
)
ON_DEMAND = (
    f"custom_tls_certificate_selector: {{name: s, typed_config: {{'@type': {TLS}.cert_selectors.on_demand_secret.v3."
    f"Config, certificate_mapper: {{name: m, typed_config: {{'@type': {TLS}.cert_mappers.filter_state_override.v3."
    "Config, default_value: out/none}}}}"
)


def test_tls_of_a_hop_is_read() -> None:
    common = f"{{alpn_protocols: [h2], tls_params: {{tls_minimum_protocol_version: TLSv1_3}}, {PINNED}, {ON_DEMAND}}}"
    hop = cluster_of(socket(f"sni: '8080', common_tls_context: {common}")).hop({})
    assert hop is not None
    assert (hop.server_name, hop.alpn, hop.pinned) == ("8080", ("h2",), ("spiffe://td/ns/shop/sa/cart",))
    assert (hop.minimum_version, hop.secret, hop.is_pooled_by_identity) == ("TLSv1_3", "out/none", True)


@pytest.mark.parametrize(
    ("factory", "is_shared", "secret", "is_parted"),
    [
        ("envoy.hashable_string", True, "out/shop/cart", True),
        ("envoy.string", True, "out/shop/cart", False),
        ("envoy.hashable_string", False, "out/none", False),
    ],
)
def test_filter_state_names_the_certificate_if_upstream_sees_it(
    factory: str, is_shared: bool, secret: str, is_parted: bool
) -> None:
    hop = cluster_of(socket(f"common_tls_context: {{{ON_DEMAND}}}")).hop(
        {IDENTITY_KEY: StateObject(factory, "out/shop/cart", is_shared)}
    )
    assert hop is not None
    assert (hop.secret, hop.is_pooled_by_identity) == (secret, is_parted)


@pytest.mark.parametrize(
    ("common", "secret"),
    [("tls_certificate_sds_secret_configs: [{name: node}]", "node"), ("alpn_protocols: [h2]", "")],
)
def test_a_certificate_may_be_the_same_for_all_or_none(common: str, secret: str) -> None:
    hop = cluster_of(socket(f"common_tls_context: {{{common}}}")).hop({IDENTITY_KEY: StateObject("envoy.string", "x")})
    assert hop is not None
    assert (hop.secret, hop.pinned, hop.is_pooled_by_identity) == (secret, (), True)


def test_without_a_transport_socket_there_is_no_tls() -> None:
    raw = "{'@type': type.googleapis.com/envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer}"
    assert cluster_of("type: EDS").hop({}) is None
    assert cluster_of(f"type: EDS\ntransport_socket: {{name: t, typed_config: {raw}}}").hop({}) is None


SELECTOR = (
    "local_address_selector: {name: s, typed_config: {'@type': type.googleapis.com/envoy.extensions."
    "local_address_selectors.filter_state_override.v3.Config}}"
)
BOUND = "type: EDS\nupstream_bind_config: {source_address: {address: 127.0.0.1, network_namespace_filepath: /n}%s}"


def test_the_proxy_dials_from_the_namespace_of_its_source_address() -> None:
    assert cluster_of(BOUND % "").netns({NETNS_KEY: StateObject("envoy.hashable_string", "/m", True)}) == "/n"
    assert cluster_of("type: EDS").netns({}) == ""


def test_filter_state_names_the_namespace_if_the_cluster_asks() -> None:
    cluster = cluster_of(BOUND % f", {SELECTOR}")
    assert cluster.netns({NETNS_KEY: StateObject("envoy.hashable_string", "/m", True)}) == "/m"
    assert cluster.netns({NETNS_KEY: StateObject("envoy.hashable_string", "/m", False)}) == "/n"
    with pytest.raises(Unsupported, match="pools would be shared"):
        cluster.netns({NETNS_KEY: StateObject("envoy.string", "/m", True)})


def test_the_mark_of_the_socket_is_read() -> None:
    options = ", socket_options: [{level: 6, name: 4, int_value: 60}, {level: 1, name: 36, int_value: 2}]"
    assert cluster_of(BOUND % options).source.mark == 2
    assert cluster_of(BOUND % "").source.mark == 0


HTTP = "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


@pytest.mark.parametrize(
    "text",
    [
        "type: STRICT_DNS",
        "cluster_type: {name: x}",
        "type: EDS\ntransport_socket_matches: [{name: a}]",
        "type: ORIGINAL_DST\noriginal_dst_lb_config: {use_http_header: true}",
        f"type: EDS\ntyped_extension_protocol_options: {{h: {{'@type': {HTTP}, http_filters: [{{name: f}}]}}}}",
        socket("auto_host_sni: true"),
        socket(f"common_tls_context: {{{PINNED.replace('exact', 'prefix')}}}"),
        socket(f"common_tls_context: {{{PINNED.replace('URI', 'DNS')}}}"),
        "type: STATIC\nload_assignment: {cluster_name: c, endpoints: [{priority: 1}]}",
        "load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {}}}]}]}",
    ],
)
def test_a_cluster_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        cluster_of(text)


def test_the_second_form_of_pinning_is_read() -> None:
    context = PINNED.removeprefix("combined_validation_context: {default_").removesuffix("}")
    hop = cluster_of(socket(f"common_tls_context: {{{context}}}")).hop({})
    assert hop is not None
    assert hop.pinned == ("spiffe://td/ns/shop/sa/cart",)
