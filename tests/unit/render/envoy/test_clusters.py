"""Clusters of each kind."""

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import socket_option_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from envoy.type.v3 import http_pb2
from tests.support.envoy_plans import HTTP_CLUSTER, IDENTITY, POD, POD_DIAL, PORTS, RAW_CLUSTER, unpack

from aether.plan.mesh.addressing import Reason
from aether.plan.mesh.node import PassThroughCluster, Tombstone
from aether.render.envoy import names
from aether.render.envoy.clusters import application_cluster, mesh_cluster, pass_through, probe_cluster, tombstone

HOPS = (HTTP_CLUSTER, RAW_CLUSTER, POD_DIAL)
RAW, H1, H2, UDS = PORTS


def http_options(cluster: cluster_pb2.Cluster) -> http_protocol_options_pb2.HttpProtocolOptions:
    packed = cluster.typed_extension_protocol_options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
    return unpack(http_protocol_options_pb2.HttpProtocolOptions, packed)


@pytest.mark.parametrize("plan", HOPS, ids=lambda plan: plan.name)
def test_every_mesh_hop_pins_its_peer_names_its_port_and_never_panics(plan: object) -> None:
    cluster = mesh_cluster(plan)  # type: ignore[arg-type]
    context = unpack(tls_pb2.UpstreamTlsContext, cluster.transport_socket.typed_config)
    sans = context.common_tls_context.combined_validation_context.default_validation_context
    assert [san.matcher.exact for san in sans.match_typed_subject_alt_names] == [str(IDENTITY)]
    assert context.sni in cluster.name
    assert cluster.common_lb_config.HasField("healthy_panic_threshold")
    assert cluster.common_lb_config.healthy_panic_threshold.value == 0


def test_endpoints_come_over_ads_and_are_not_waited_for_long() -> None:
    source = mesh_cluster(HTTP_CLUSTER).eds_cluster_config.eds_config
    assert source.HasField("ads")
    assert 0 < source.initial_fetch_timeout.seconds <= 1


def test_at_most_half_of_the_endpoints_are_ejected() -> None:
    assert mesh_cluster(HTTP_CLUSTER).outlier_detection.max_ejection_percent.value == 50


def test_http_hops_are_h2_retry_only_what_no_application_saw_and_end_before_their_certificate() -> None:
    options = http_options(mesh_cluster(HTTP_CLUSTER))
    assert options.explicit_http_config.HasField("http2_protocol_options")
    assert options.common_http_protocol_options.max_connection_duration.seconds == 6 * 3600
    short = http_options(mesh_cluster(HTTP_CLUSTER, leaf_lifetime_s=12.0))
    assert short.common_http_protocol_options.max_connection_duration.seconds == 3
    longest = http_options(mesh_cluster(HTTP_CLUSTER, leaf_lifetime_s=1e6))
    assert longest == options, "no leaf lives longer than a day"
    assert options.retry_policy.retry_on == "connect-failure,refused-stream,reset-before-request"


def test_raw_tcp_hops_have_no_protocol() -> None:
    assert not mesh_cluster(RAW_CLUSTER).typed_extension_protocol_options


def test_a_tombstone_refuses_at_once() -> None:
    assert mesh_cluster(Tombstone(name="gone")) == tombstone("gone")
    assert tombstone("gone").load_assignment.policy.drop_overloads


def test_a_tombstone_with_a_reason_tells_it_in_its_metadata() -> None:
    plan = Tombstone(name="pod|10.244.1.2:1", reason=Reason.PORT_NOT_DECLARED, listing="serves 80=http")
    refusing = mesh_cluster(plan)
    told = refusing.metadata.filter_metadata["aether"]
    assert dict(told) == {"error": "port-not-declared", "ports": "serves 80=http"}
    refusing.ClearField("metadata")
    assert refusing == tombstone(plan.name)


def test_the_answer_for_an_address_that_is_not_the_meshs_is_the_pass_through_under_its_name() -> None:
    named = mesh_cluster(PassThroughCluster(name="tcp|10.0.0.1:25"))
    shared = pass_through()
    named.name = shared.name
    assert named == shared


def test_the_pass_through_dials_from_the_pods_namespace_with_the_proxys_mark_in_both_families() -> None:
    bind = pass_through().upstream_bind_config
    assert bind.local_address_selector.name == "envoy.upstream.local_address_selector.filter_state_override"
    assert [bind.source_address.address, *(each.address.address for each in bind.extra_source_addresses)] == [
        "0.0.0.0",
        "::",
    ]
    assert [(o.level, o.name, o.int_value, o.state) for o in bind.socket_options] == [
        (1, 36, 2, socket_option_pb2.SocketOption.STATE_PREBIND)
    ]


def test_the_pass_through_speaks_what_its_caller_speaks() -> None:
    assert http_options(pass_through()).HasField("use_downstream_protocol_config")


def test_the_last_hop_is_the_pods_own_loopback() -> None:
    cluster = application_cluster(POD, H1)
    address = cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.socket_address
    assert (address.address, address.port_value) == ("127.0.0.1", 8080)
    assert cluster.upstream_bind_config.source_address.network_namespace_filepath == POD.netns


def test_the_last_hop_can_be_a_unix_socket() -> None:
    cluster = application_cluster(POD, UDS)
    assert cluster.load_assignment.endpoints[0].lb_endpoints[0].endpoint.address.pipe.path == "/run/app.sock"
    assert not cluster.HasField("upstream_bind_config")


def test_the_last_hop_speaks_the_declared_codec() -> None:
    assert http_options(application_cluster(POD, H1)).explicit_http_config.HasField("http_protocol_options")
    assert http_options(application_cluster(POD, H2)).explicit_http_config.HasField("http2_protocol_options")
    assert not application_cluster(POD, RAW).typed_extension_protocol_options


def test_an_idle_http_1_connection_to_an_application_is_dropped_before_the_application_drops_it() -> None:
    options = http_options(application_cluster(POD, H1)).common_http_protocol_options
    assert options.idle_timeout.seconds == 1


def test_readiness_is_an_h2_request_through_the_mesh_hop_as_the_node() -> None:
    cluster = probe_cluster(POD)
    (check,) = cluster.health_checks
    context = unpack(tls_pb2.UpstreamTlsContext, cluster.transport_socket.typed_config)
    assert check.http_health_check.path == names.LIVE_PATH
    assert check.http_health_check.codec_client_type == http_pb2.HTTP2
    assert context.sni == names.LIVE_SERVER_NAME
    assert [each.name for each in context.common_tls_context.tls_certificate_sds_secret_configs] == ["node"]
    assert cluster.alt_stat_name == names.probe_stat_key(POD.uid)


def test_a_probe_is_made_on_a_new_connection_as_often_without_traffic() -> None:
    (check,) = probe_cluster(POD).health_checks
    assert not check.reuse_connection.value
    assert check.no_traffic_interval == check.no_traffic_healthy_interval == check.interval
