"""The bootstrap: what an Envoy knows before its agent speaks to it.

Rule: no cluster of the mesh stands here. Static clusters whose secrets come over ADS have crashed Envoy at its start.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import (
    address_pb2,
    backoff_pb2,
    base_pb2,
    config_source_pb2,
    grpc_service_pb2,
    protocol_pb2,
)
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.metrics.v3 import stats_pb2
from envoy.config.overload.v3 import overload_pb2
from envoy.extensions.resource_monitors.downstream_connections.v3 import downstream_connections_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2
from envoy.type.matcher.v3 import string_pb2
from google.protobuf import json_format, struct_pb2

from aether.render.envoy import names
from aether.render.envoy.clusters import tombstone
from aether.render.envoy.resource import ads, pack, seconds

RECONNECT_FIRST_S = 0.1
RECONNECT_LIMIT_S = 1.0
"""How soon Envoy is back at an agent that restarted; its own default goes up to 30 s."""


class BootstrapSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are on the node's file system. Concurrency is a flag of the process, not part of the bootstrap."""

    node: str
    ads_socket: str
    admin_socket: str
    max_downstream_connections: int = 50_000
    """Per process. A guard against running out of file descriptors: a proxied connection takes two of them."""


def render_bootstrap(settings: BootstrapSettings) -> dict[str, Any]:
    """The bootstrap as JSON-able values, for `envoy --config-path`."""
    message = bootstrap_pb2.Bootstrap(
        node=base_pb2.Node(id=settings.node, cluster="aether"),
        admin=bootstrap_pb2.Admin(address=_pipe(settings.admin_socket)),
        dynamic_resources=bootstrap_pb2.Bootstrap.DynamicResources(
            ads_config=_ads_stream(),
            # no default: a node that gave up waiting would serve with nothing (rulings D.5)
            cds_config=ads(fetch_timeout_s=0),
            lds_config=ads(fetch_timeout_s=0),
        ),
        static_resources=bootstrap_pb2.Bootstrap.StaticResources(
            clusters=[_ads_cluster(settings.ads_socket), tombstone(names.NONE)]
        ),
        layered_runtime=bootstrap_pb2.LayeredRuntime(layers=[_static_layer(_RUNTIME)]),
        stats_config=stats_pb2.StatsConfig(stats_matcher=_STATS),
        overload_manager=overload_pb2.OverloadManager(
            resource_monitors=[_connection_limit(settings.max_downstream_connections)]
        ),
    )
    values: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return values


def _ads_stream() -> config_source_pb2.ApiConfigSource:
    back_off = backoff_pb2.BackoffStrategy(
        base_interval=seconds(RECONNECT_FIRST_S), max_interval=seconds(RECONNECT_LIMIT_S)
    )
    agent = grpc_service_pb2.GrpcService.EnvoyGrpc(
        cluster_name=names.ADS, retry_policy=base_pb2.RetryPolicy(retry_back_off=back_off)
    )
    return config_source_pb2.ApiConfigSource(
        api_type=config_source_pb2.ApiConfigSource.DELTA_GRPC,
        transport_api_version=config_source_pb2.V3,
        set_node_on_first_message_only=True,  # else every ACK carries 61 KB of extension names
        grpc_services=[grpc_service_pb2.GrpcService(envoy_grpc=agent)],
    )


def _ads_cluster(socket: str) -> cluster_pb2.Cluster:
    endpoint = endpoint_components_pb2.Endpoint(address=_pipe(socket))
    locality = endpoint_components_pb2.LocalityLbEndpoints(
        lb_endpoints=[endpoint_components_pb2.LbEndpoint(endpoint=endpoint)]
    )
    options = http_protocol_options_pb2.HttpProtocolOptions(
        explicit_http_config=http_protocol_options_pb2.HttpProtocolOptions.ExplicitHttpConfig(
            http2_protocol_options=protocol_pb2.Http2ProtocolOptions(
                connection_keepalive=protocol_pb2.KeepaliveSettings(interval=seconds(30), timeout=seconds(5))
            )
        )
    )
    return cluster_pb2.Cluster(
        name=names.ADS,
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(1),
        load_assignment=endpoint_pb2.ClusterLoadAssignment(cluster_name=names.ADS, endpoints=[locality]),
        typed_extension_protocol_options={"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": pack(options)},
    )


def _static_layer(values: Mapping[str, int]) -> bootstrap_pb2.RuntimeLayer:
    layer = struct_pb2.Struct()
    layer.update(values)
    return bootstrap_pb2.RuntimeLayer(name="aether", static_layer=layer)


_RUNTIME = {"re2.max_program_size.error_level": 1_000}
"""The rule for names that end in the proxy's own port spells RFC 1035 out; Envoy's default of 100 refuses its table."""


def _pipe(path: str) -> address_pb2.Address:
    return address_pb2.Address(pipe=address_pb2.Pipe(path=path))


def _connection_limit(limit: int) -> overload_pb2.ResourceMonitor:
    config = downstream_connections_pb2.DownstreamConnectionsConfig(max_active_downstream_connections=limit)
    return overload_pb2.ResourceMonitor(
        name="envoy.resource_monitors.global_downstream_max_connections", typed_config=pack(config)
    )


_PREFIXES = ("server.", "cluster_manager.", "listener_manager.", "control_plane.", "tls_inspector.")
_SUFFIXES = (
    ".downstream_cx_active",
    ".downstream_cx_no_route",
    ".downstream_cx_total",
    ".downstream_rq_2xx",
    ".downstream_rq_4xx",
    ".downstream_rq_5xx",
    ".downstream_rq_total",
    ".health_check.attempt",
    ".health_check.failure",
    ".health_check.success",
    ".membership_healthy",
    ".membership_total",
    ".no_filter_chain_match",
    ".outlier_detection.ejections_active",
    ".ssl.connection_error",
    ".ssl.fail_verify_error",
    ".ssl.fail_verify_no_cert",
    ".ssl.fail_verify_san",
    ".ssl.handshake",
    ".upstream_cx_active",
    ".upstream_cx_connect_fail",
    ".upstream_cx_none_healthy",
    ".upstream_cx_total",
    ".upstream_rq_2xx",
    ".upstream_rq_4xx",
    ".upstream_rq_5xx",
    ".upstream_rq_active",
    ".upstream_rq_retry",
    ".upstream_rq_time",
    ".upstream_rq_total",
)
_STATS = stats_pb2.StatsMatcher(
    inclusion_list=string_pb2.ListStringMatcher(
        patterns=[
            *(string_pb2.StringMatcher(prefix=prefix) for prefix in _PREFIXES),
            *(string_pb2.StringMatcher(suffix=suffix) for suffix in _SUFFIXES),
        ]
    )
)
"""What is kept of Envoy's statistics: all of them would be 1,000 more for every cluster and pod together."""
