"""Clusters: the mesh hop, the tombstone, the pass-through, the last hop and the readiness probe.

Owns: how each kind of cluster dials, pools, judges health and fails. Leaves to others: which clusters exist (the plan),
who they present (`secrets`), their endpoints (`endpoints`).
"""

import functools

from envoy.config.cluster.v3 import circuit_breaker_pb2, cluster_pb2, outlier_detection_pb2
from envoy.config.core.v3 import address_pb2, health_check_pb2, protocol_pb2, socket_option_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.extensions.local_address_selectors.filter_state_override.v3 import config_pb2 as selector_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from envoy.type.v3 import http_pb2, percent_pb2
from google.protobuf import wrappers_pb2

from aether.model.ports import INBOUND_PORT, Codec, PortClass
from aether.model.settings import LEAF_LIFETIME_LIMIT_S
from aether.plan.mesh.node import (
    ClusterPlan,
    InboundPort,
    MeshCluster,
    PassThroughCluster,
    PodPlan,
    Tombstone,
)
from aether.render.envoy import names
from aether.render.envoy.endpoints import empty_assignment, socket_address
from aether.render.envoy.resource import CLUSTER_FETCH_S, ads, extension, pack, seconds
from aether.render.envoy.secrets import ALPN_H2, ALPN_NONE, caller_tls, node_tls

HOP_CONNECT_S = 2.5
"""TCP and TLS of the mesh hop: one lost SYN (1 s) and a certificate asked for on the way."""
LAST_HOP_CONNECT_S = 1.0
PASS_THROUGH_CONNECT_S = 30.0
"""Long, since without the mesh the caller itself would choose; the kernel's own limit is about two minutes."""
HOP_LIFE_SHARE = 1 / 4
"""Of a leaf's lifetime. An open connection keeps the certificates it began with, and a leaf is renewed when half of its
life is left (rulings E.2)."""
LAST_HOP_IDLE_S = 1.0
"""Shorter than any usual keep-alive of an HTTP/1 server, so that no request meets a connection just being closed."""
PROBE_INTERVAL_S = 0.5
PROBE_TIMEOUT_S = 1.0
PROBE_FAILURES = 3
"""In a row, before an inbound counts as closed: on a busy machine a handshake can take a second."""
PASS_MARK = 2
"""SO_MARK of pass-through connections: the pod's capture table leaves them alone."""

_UNLIMITED = wrappers_pb2.UInt32Value(value=1_000_000)
_RETRIES = wrappers_pb2.UInt32Value(value=1_000)
_BREAKERS = circuit_breaker_pb2.CircuitBreakers(
    thresholds=[
        circuit_breaker_pb2.CircuitBreakers.Thresholds(
            max_connections=_UNLIMITED, max_pending_requests=_UNLIMITED, max_requests=_UNLIMITED, max_retries=_RETRIES
        )
    ]
)
"""Envoy's defaults (1,024) would refuse a busy but healthy service; overload is the destination's to tell."""

_OUTLIERS = outlier_detection_pb2.OutlierDetection(
    interval=seconds(1),
    base_ejection_time=seconds(5),
    max_ejection_percent=wrappers_pb2.UInt32Value(value=50),
    split_external_local_origin_errors=True,
    consecutive_local_origin_failure=wrappers_pb2.UInt32Value(value=3),
    enforcing_local_origin_success_rate=wrappers_pb2.UInt32Value(value=0),
    consecutive_gateway_failure=wrappers_pb2.UInt32Value(value=5),
    enforcing_consecutive_gateway_failure=wrappers_pb2.UInt32Value(value=100),
    enforcing_consecutive_5xx=wrappers_pb2.UInt32Value(value=0),
    enforcing_success_rate=wrappers_pb2.UInt32Value(value=0),
)
"""An endpoint that cannot be reached leaves for 5 s. An application's own 500s are its answer, not an outlier."""

_KEEPALIVE = cluster_pb2.UpstreamConnectionOptions(
    tcp_keepalive=address_pb2.TcpKeepalive(
        keepalive_probes=wrappers_pb2.UInt32Value(value=3),
        keepalive_time=wrappers_pb2.UInt32Value(value=60),
        keepalive_interval=wrappers_pb2.UInt32Value(value=10),
    )
)
_NO_PANIC = cluster_pb2.Cluster.CommonLbConfig(healthy_panic_threshold=percent_pb2.Percent(value=0))
_RETRY = route_components_pb2.RetryPolicy(
    retry_on="connect-failure,refused-stream,reset-before-request", num_retries=wrappers_pb2.UInt32Value(value=2)
)
"""Only what no application has seen a byte of."""


def mesh_cluster(plan: ClusterPlan, *, leaf_lifetime_s: float = LEAF_LIFETIME_LIMIT_S) -> cluster_pb2.Cluster:
    """The cluster that answers a name of the plan."""
    life_s = min(leaf_lifetime_s, LEAF_LIFETIME_LIMIT_S) * HOP_LIFE_SHARE
    match plan:
        case MeshCluster():
            return _hop(
                plan,
                life_s,
                type=cluster_pb2.Cluster.EDS,
                eds_cluster_config=cluster_pb2.Cluster.EdsClusterConfig(
                    eds_config=ads(fetch_timeout_s=CLUSTER_FETCH_S)
                ),
                lb_policy=cluster_pb2.Cluster.LEAST_REQUEST,
                outlier_detection=_OUTLIERS,
            )
        case Tombstone(reason=None):
            return tombstone(plan.name)
        case Tombstone():
            return _refusing(plan)
        case PassThroughCluster():
            return pass_through(plan.name)


def tombstone(name: str) -> cluster_pb2.Cluster:
    """A cluster that refuses at once: 503 `no-endpoint`, or a closed connection."""
    return cluster_pb2.Cluster(
        name=name,
        alt_stat_name="tombstone",
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(1),
        load_assignment=empty_assignment(name),
    )


def _refusing(plan: Tombstone) -> cluster_pb2.Cluster:
    """A tombstone whose metadata turns the 503 into a 421 (`filters`)."""
    cluster = tombstone(plan.name)
    told = {"error": str(plan.reason), "ports": plan.listing}
    cluster.metadata.filter_metadata[names.REFUSAL_METADATA].update(told)
    return cluster


def pass_through(name: str = names.PASS_THROUGH) -> cluster_pb2.Cluster:
    """To the dialled address, from the caller's own namespace, in the protocol that the caller speaks."""
    return cluster_pb2.Cluster(
        name=name,
        alt_stat_name=names.PASS_THROUGH,
        type=cluster_pb2.Cluster.ORIGINAL_DST,
        lb_policy=cluster_pb2.Cluster.CLUSTER_PROVIDED,
        connect_timeout=seconds(PASS_THROUGH_CONNECT_S),
        circuit_breakers=_BREAKERS,
        upstream_bind_config=address_pb2.BindConfig(
            source_address=socket_address("0.0.0.0", 0),
            extra_source_addresses=[address_pb2.ExtraSourceAddress(address=socket_address("::", 0))],
            socket_options=[_mark(PASS_MARK)],
            local_address_selector=extension(
                "envoy.upstream.local_address_selector.filter_state_override", selector_pb2.Config()
            ),
        ),
        typed_extension_protocol_options=_http(
            use_downstream_protocol_config=http_protocol_options_pb2.HttpProtocolOptions.UseDownstreamHttpConfig(
                http_protocol_options=protocol_pb2.Http1ProtocolOptions(enable_trailers=True),
                http2_protocol_options=protocol_pb2.Http2ProtocolOptions(),
            )
        ),
    )


def application_cluster(pod: PodPlan, port: InboundPort) -> cluster_pb2.Cluster:
    """The last hop: 127.0.0.1 in the pod's namespace, or its unix socket."""
    name = names.application_cluster(pod.uid, port.number)
    cluster = cluster_pb2.Cluster(
        name=name,
        alt_stat_name=names.inbound_stat_prefix(pod.service.namespace, pod.pod),
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(LAST_HOP_CONNECT_S),
        circuit_breakers=_BREAKERS,
    )
    if port.uds_socket:
        address = address_pb2.Address(pipe=address_pb2.Pipe(path=port.uds_socket))
    else:
        address = address_pb2.Address(socket_address=socket_address("127.0.0.1", port.number))
        cluster.upstream_bind_config.source_address.CopyFrom(socket_address("127.0.0.1", 0, netns=pod.netns))
    cluster.load_assignment.CopyFrom(_single(name, address))
    if port.port_class is PortClass.HTTP:
        options = _H2_LAST_HOP if port.codec is Codec.H2 else _H1_LAST_HOP
        for key, value in options.items():
            cluster.typed_extension_protocol_options[key].CopyFrom(value)
    return cluster


def probe_cluster(pod: PodPlan) -> cluster_pb2.Cluster:
    """A cluster without traffic: it is healthy while the pod's inbound accepts the node and answers (rulings E.1)."""
    name = names.probe_cluster(pod.uid)
    address = address_pb2.Address(socket_address=socket_address(pod.addresses[0], INBOUND_PORT))
    return cluster_pb2.Cluster(
        name=name,
        alt_stat_name=names.probe_stat_key(pod.uid),
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(PROBE_TIMEOUT_S),
        common_lb_config=_NO_PANIC,
        load_assignment=_single(name, address),
        health_checks=[_PROBE],
        ignore_health_on_host_removal=True,
        typed_extension_protocol_options=_http(explicit_http_config=_explicit_h2()),
        transport_socket=node_tls(
            server_name=names.LIVE_SERVER_NAME, pinned=str(pod.identity), secret=names.NODE_SECRET
        ),
    )


_PROBE = health_check_pb2.HealthCheck(
    timeout=seconds(PROBE_TIMEOUT_S),
    interval=seconds(PROBE_INTERVAL_S),
    no_traffic_interval=seconds(PROBE_INTERVAL_S),
    no_traffic_healthy_interval=seconds(PROBE_INTERVAL_S),
    unhealthy_threshold=wrappers_pb2.UInt32Value(value=PROBE_FAILURES),
    healthy_threshold=wrappers_pb2.UInt32Value(value=1),
    reuse_connection=wrappers_pb2.BoolValue(value=False),
    http_health_check=health_check_pb2.HealthCheck.HttpHealthCheck(
        host=names.LIVE_SERVER_NAME, path=names.LIVE_PATH, codec_client_type=http_pb2.HTTP2
    ),
)
"""Without `no_traffic_interval` a cluster nobody calls is probed once a minute."""


def _hop(plan: MeshCluster, life_s: float, **kind: object) -> cluster_pb2.Cluster:
    """What every cluster of the mesh hop has: a pinned peer, the caller's identity, no panic routing."""
    cluster = cluster_pb2.Cluster(
        name=plan.name,
        alt_stat_name=plan.stat_key,
        connect_timeout=seconds(HOP_CONNECT_S),
        circuit_breakers=_BREAKERS,
        common_lb_config=_NO_PANIC,
        upstream_connection_options=_KEEPALIVE,
        transport_socket=caller_tls(
            server_name=plan.server_name, pinned=str(plan.pinned), alpn=ALPN_H2 if plan.is_http else ALPN_NONE
        ),
        **kind,
    )
    if plan.is_http:
        for key, value in _h2_hop(life_s).items():
            cluster.typed_extension_protocol_options[key].CopyFrom(value)
    return cluster


def _http(**options: object) -> dict[str, object]:
    key = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    return {key: pack(http_protocol_options_pb2.HttpProtocolOptions(**options))}


def _explicit_h2(**options: object) -> http_protocol_options_pb2.HttpProtocolOptions.ExplicitHttpConfig:
    return http_protocol_options_pb2.HttpProtocolOptions.ExplicitHttpConfig(
        http2_protocol_options=protocol_pb2.Http2ProtocolOptions(**options)
    )


@functools.cache
def _h2_hop(life_s: float) -> dict[str, object]:
    return _http(
        common_http_protocol_options=protocol_pb2.HttpProtocolOptions(max_connection_duration=seconds(life_s)),
        explicit_http_config=_explicit_h2(
            connection_keepalive=protocol_pb2.KeepaliveSettings(interval=seconds(30), timeout=seconds(5))
        ),
        retry_policy=_RETRY,
    )


_H2_LAST_HOP = _http(explicit_http_config=_explicit_h2())
_H1_LAST_HOP = _http(
    common_http_protocol_options=protocol_pb2.HttpProtocolOptions(idle_timeout=seconds(LAST_HOP_IDLE_S)),
    explicit_http_config=http_protocol_options_pb2.HttpProtocolOptions.ExplicitHttpConfig(
        http_protocol_options=protocol_pb2.Http1ProtocolOptions(enable_trailers=True)
    ),
)


def _single(name: str, address: address_pb2.Address) -> endpoint_pb2.ClusterLoadAssignment:
    endpoint = endpoint_components_pb2.LbEndpoint(endpoint=endpoint_components_pb2.Endpoint(address=address))
    locality = endpoint_components_pb2.LocalityLbEndpoints(lb_endpoints=[endpoint])
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=name, endpoints=[locality])


def _mark(value: int) -> socket_option_pb2.SocketOption:
    """SO_MARK: level SOL_SOCKET (1), option 36 (Linux, asm-generic/socket.h)."""
    return socket_option_pb2.SocketOption(
        level=1, name=36, int_value=value, state=socket_option_pb2.SocketOption.STATE_PREBIND
    )
