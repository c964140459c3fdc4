"""Clusters: where a connection or request really goes, and as whom.

Owns: membership and health of endpoints, the dialled destination, TLS of the hop, the namespace the proxy dials from.
"""

import msgspec
from envoy.config.core.v3 import health_check_pb2
from envoy.extensions.local_address_selectors.filter_state_override.v3 import config_pb2 as selector_pb2
from envoy.extensions.transport_sockets.raw_buffer.v3 import raw_buffer_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, tls_pb2
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2

from aether._proto import filter_state_override_pb2, on_demand_secret_pb2
from aether.render.envoy.evaluate.request import Metadata, Scene, State
from aether.render.envoy.evaluate.strict import Proto, require, shape, unpack
from aether.render.envoy.evaluate.verdict import Dialled, Endpoint, Hop, Members

_CLUSTER = shape(
    "name type eds_cluster_config load_assignment original_dst_lb_config transport_socket upstream_bind_config "
    "common_lb_config typed_extension_protocol_options lb_policy metadata",
    "alt_stat_name connect_timeout per_connection_buffer_limit_bytes circuit_breakers outlier_detection health_checks "
    "upstream_connection_options ignore_health_on_host_removal close_connections_on_host_health_failure "
    "least_request_lb_config round_robin_lb_config cleanup_interval track_cluster_stats",
)
_EDS = shape("service_name", "eds_config")
_ORIGINAL_DST = shape("upstream_port_override")
_METADATA = shape("filter_metadata")
_COMMON_LB = shape("healthy_panic_threshold", "update_merge_window close_connections_on_host_set_change")
_EXTENSION = shape("typed_config", "name")
_UPSTREAM_TLS = shape("common_tls_context sni", "max_session_keys")
_COMMON_TLS = shape(
    "tls_params tls_certificate_sds_secret_configs custom_tls_certificate_selector combined_validation_context "
    "validation_context alpn_protocols"
)
_COMBINED = shape("default_validation_context", "validation_context_sds_secret_config")
_VALIDATION = shape("match_typed_subject_alt_names", "trusted_ca")
_SAN = shape("san_type matcher")
_EXACT = shape("exact")
_SELECTOR = shape("certificate_mapper", "config_source")
_MAPPER = shape("default_value")
_BIND = shape("source_address socket_options local_address_selector", "extra_source_addresses freebind")
_HTTP = shape(
    "explicit_http_config use_downstream_protocol_config auto_config",
    "common_http_protocol_options retry_policy outlier_detection upstream_http_protocol_options",
)
_ASSIGNMENT = shape("cluster_name endpoints policy")
_POLICY = shape("drop_overloads", "overprovisioning_factor endpoint_stale_after")
_DROP = shape("drop_percentage", "category")
_LOCALITY = shape("lb_endpoints priority", "locality load_balancing_weight metadata")
_LB_ENDPOINT = shape("endpoint health_status load_balancing_weight", "metadata")
_ENDPOINT = shape("address", "health_check_config hostname")

IDENTITY_KEY = "envoy.tls.certificate_mappers.on_demand_secret"
NETNS_KEY = "envoy.network.upstream_bind_override.network_namespace"
_SO_MARK = (1, 36)
"""SOL_SOCKET and SO_MARK (asm-generic/socket.h)."""
_DEFAULT_PANIC_PERCENT = 50.0
_USABLE = {"UNKNOWN", "HEALTHY", "DEGRADED"}


class Secrets(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate of a hop: one `name`, or the one that filter state names, with `name` as the default."""

    name: str
    is_by_state: bool


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    server_name: str
    alpn: tuple[str, ...]
    pinned: tuple[str, ...]
    secrets: Secrets
    minimum_version: str


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """How the proxy dials: from which namespace ("" its own; by filter state if it says so), with which mark."""

    netns: str = ""
    is_by_state: bool = False
    mark: int = 0


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster. `endpoints` is None for one that dials the connection's destination, on `port` unless that is 0.

    `drops_requests`: its load assignment drops all HTTP requests, whatever its endpoints. Raw TCP is not dropped.
    """

    name: str
    endpoints: tuple[Endpoint, ...] | None
    drops_requests: bool
    port: int
    tls: Tls | None
    source: Source
    metadata: Metadata

    def upstream(self, scene: Scene) -> Members | Dialled:
        if self.endpoints is not None:
            return Members(self.endpoints)
        return Dialled(scene.connection.address, self.port or scene.connection.port)

    def hop(self, state: State) -> Hop | None:
        if self.tls is None:
            return None
        found = state.get(IDENTITY_KEY) if self.tls.secrets.is_by_state else None
        return Hop(
            server_name=self.tls.server_name,
            alpn=self.tls.alpn,
            pinned=self.tls.pinned,
            secret=found.text if found is not None and found.is_shared else self.tls.secrets.name,
            is_pooled_by_identity=found is None or found.parts_pools,
            minimum_version=self.tls.minimum_version,
        )

    def netns(self, state: State) -> str:
        """The namespace that the proxy dials from. One that pools could mix up is refused."""
        found = state.get(NETNS_KEY) if self.source.is_by_state else None
        if found is None or not found.is_shared:
            return self.source.netns
        require(found.parts_pools, f"filter state {NETNS_KEY} made by {found.factory}: pools would be shared")
        return found.text


def assignment_name(message: Proto) -> str:
    """The name of the load assignment that an EDS cluster takes its endpoints from; "" for any other cluster."""
    return message.eds_cluster_config.service_name or message.name if message.type == message.EDS else ""


def read_cluster(message: Proto, assignment: Proto | None) -> Cluster:
    """A cluster with its load assignment; None for an EDS cluster whose assignment nobody sent."""
    _CLUSTER.check(message)
    require(message.WhichOneof("cluster_discovery_type") in {None, "type"}, "a custom cluster type")
    _check_protocol(message)
    _ORIGINAL_DST.check(message.original_dst_lb_config)
    _EDS.check(message.eds_cluster_config)
    kinds = (message.ORIGINAL_DST, message.EDS, message.STATIC)
    require(message.type in kinds, f"cluster discovery {message.DiscoveryType.Name(message.type)}")
    if message.type == message.STATIC:
        assignment = message.load_assignment
    return Cluster(
        name=message.name,
        endpoints=None if message.type == message.ORIGINAL_DST else _read_endpoints(assignment, message),
        drops_requests=assignment is not None and _drops_all(assignment.policy),
        port=message.original_dst_lb_config.upstream_port_override.value,
        tls=_read_tls(message.transport_socket) if message.HasField("transport_socket") else None,
        source=_read_source(message.upstream_bind_config),
        metadata=_read_metadata(message.metadata),
    )


def _read_metadata(message: Proto) -> Metadata:
    """What is text in it."""
    _METADATA.check(message)
    return {
        name: {key: value.string_value for key, value in struct.fields.items() if value.HasField("string_value")}
        for name, struct in message.filter_metadata.items()
    }


def _check_protocol(message: Proto) -> None:
    for packed in message.typed_extension_protocol_options.values():
        classes = [http_protocol_options_pb2.HttpProtocolOptions]
        _HTTP.check(unpack(packed, classes, where="the protocol options of a cluster"))


def _drops_all(policy: Proto) -> bool:
    """Whether an assignment drops every request. One that drops some of them is refused."""
    _POLICY.check(policy)
    for one in policy.drop_overloads:
        _DROP.check(one)
        share = one.drop_percentage
        require(share.denominator == share.HUNDRED and share.numerator >= 100, "an assignment that drops some requests")
    return len(policy.drop_overloads) > 0


def _read_endpoints(assignment: Proto | None, cluster: Proto) -> tuple[Endpoint, ...]:
    """Members with whether they get traffic now: in panic, every member does. None before an assignment came."""
    if assignment is None:
        return ()
    _ASSIGNMENT.check(assignment)
    found: list[Endpoint] = []
    for locality in assignment.endpoints:
        _LOCALITY.check(locality)
        require(locality.priority == 0, "endpoints of more than one priority")
        found += [_read_endpoint(one) for one in locality.lb_endpoints]
    healthy = sum(endpoint.is_usable for endpoint in found)
    if found and 100 * healthy < _panic_percent(cluster) * len(found):
        found = [msgspec.structs.replace(endpoint, is_usable=True) for endpoint in found]
    return tuple(sorted(found))


def _panic_percent(cluster: Proto) -> float:
    """Below this share of healthy members Envoy sends to all of them."""
    _COMMON_LB.check(cluster.common_lb_config)
    if not cluster.common_lb_config.HasField("healthy_panic_threshold"):
        return _DEFAULT_PANIC_PERCENT
    return float(cluster.common_lb_config.healthy_panic_threshold.value)


def _read_endpoint(message: Proto) -> Endpoint:
    _LB_ENDPOINT.check(message)
    _ENDPOINT.check(message.endpoint)
    health = health_check_pb2.HealthStatus.Name(message.health_status)
    address = message.endpoint.address
    is_socket = address.WhichOneof("address") == "socket_address"
    require(is_socket or address.WhichOneof("address") == "pipe", "an endpoint that is no socket and no pipe")
    return Endpoint(
        address=address.socket_address.address if is_socket else address.pipe.path,
        port=address.socket_address.port_value,
        health=health,
        is_usable=health in _USABLE,
        weight=message.load_balancing_weight.value or 1,
    )


def _read_source(message: Proto) -> Source:
    _BIND.check(message)
    is_by_state = message.HasField("local_address_selector")
    if is_by_state:
        _EXTENSION.check(message.local_address_selector)
        unpack(message.local_address_selector.typed_config, [selector_pb2.Config], where="a local address selector")
    marks = [one.int_value for one in message.socket_options if (one.level, one.name) == _SO_MARK]
    return Source(
        netns=message.source_address.network_namespace_filepath,
        is_by_state=is_by_state,
        mark=marks[-1] if marks else 0,
    )


def _read_tls(message: Proto) -> Tls | None:
    _EXTENSION.check(message)
    classes = [tls_pb2.UpstreamTlsContext, raw_buffer_pb2.RawBuffer]
    config = unpack(message.typed_config, classes, where="a cluster's transport socket")
    if isinstance(config, raw_buffer_pb2.RawBuffer):
        return None
    _UPSTREAM_TLS.check(config)
    common = config.common_tls_context
    _COMMON_TLS.check(common)
    version = common.tls_params.tls_minimum_protocol_version
    return Tls(
        server_name=config.sni,
        alpn=tuple(common.alpn_protocols),
        pinned=_read_pinned(common),
        secrets=_read_secrets(common),
        minimum_version=common_pb2.TlsParameters.TlsProtocol.Name(version),
    )


def _read_pinned(common: Proto) -> tuple[str, ...]:
    """The subject names that are accepted, each a whole URI."""
    if common.WhichOneof("validation_context_type") == "combined_validation_context":
        _COMBINED.check(common.combined_validation_context)
        context = common.combined_validation_context.default_validation_context
    else:
        context = common.validation_context
    _VALIDATION.check(context)
    pinned = []
    for san in context.match_typed_subject_alt_names:
        _SAN.check(san)
        _EXACT.check(san.matcher)
        require(san.san_type == san.URI, "a pinned name that is no URI")
        pinned.append(san.matcher.exact)
    return tuple(pinned)


def _read_secrets(common: Proto) -> Secrets:
    if not common.HasField("custom_tls_certificate_selector"):
        names = [one.name for one in common.tls_certificate_sds_secret_configs]
        return Secrets(name=names[0] if names else "", is_by_state=False)
    _EXTENSION.check(common.custom_tls_certificate_selector)
    packed = common.custom_tls_certificate_selector.typed_config
    selector = unpack(packed, [on_demand_secret_pb2.Config], where="a certificate selector")
    _SELECTOR.check(selector)
    _EXTENSION.check(selector.certificate_mapper)
    classes = [filter_state_override_pb2.Config]
    mapper = unpack(selector.certificate_mapper.typed_config, classes, where="a certificate mapper")
    _MAPPER.check(mapper)
    return Secrets(name=mapper.default_value, is_by_state=True)
