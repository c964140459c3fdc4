"""Network filters: what a connection carries, and who takes its bytes.

Owns: the HTTP connection manager and the TCP proxy in the forms the mesh uses, and the text of what they answer by
themselves. Leaves to others: which chains they stand in (`listeners`, `inbound`), the routes (`routes`).
"""

from collections.abc import Iterable

import msgspec
from envoy.config.accesslog.v3 import accesslog_pb2
from envoy.config.common.mutation_rules.v3 import mutation_rules_pb2
from envoy.config.core.v3 import base_pb2, extension_pb2, protocol_pb2, substitution_format_string_pb2
from envoy.config.listener.v3 import listener_components_pb2
from envoy.extensions.filters.common.set_filter_state.v3 import value_pb2
from envoy.extensions.filters.http.on_demand.v3 import on_demand_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import header_mutation_pb2
from google.protobuf import wrappers_pb2

from aether.plan.mesh.addressing import NAME_LIMIT_BYTES
from aether.render.envoy import names
from aether.render.envoy.accesslog import HTTP_FAILURES, LAST_HOP_FAILURES, REFUSED, Failure, failed, has_status
from aether.render.envoy.resource import ads, extension, pack, seconds

ON_DEMAND_S = 1.0
"""How long a cold request waits for its cluster. The agent answers every name, so this is for an agent that is away."""
STREAM_IDLE_S = 3600.0
"""No application's stream is cut sooner than an idle connection is."""
HASHABLE = "envoy.hashable_string"
"""The factory of filter state that must part connection pools. `envoy.string` is not part of a pool's key."""
PLAIN = "envoy.string"


class Carried(msgspec.Struct, frozen=True):
    """One value of a connection's filter state. `is_shared` reaches upstream connections and so must be hashable."""

    key: str
    value: str
    is_shared: bool = False


def carry(values: Iterable[Carried]) -> listener_components_pb2.Filter:
    """Write filter state when a connection begins. No client byte can change it."""
    config = set_filter_state_pb2.Config(on_new_connection=[_filter_state(value) for value in values])
    return listener_components_pb2.Filter(name="envoy.filters.network.set_filter_state", typed_config=pack(config))


def http_proxy(
    *, stat_prefix: str, table: str, log: Iterable[accesslog_pb2.AccessLog]
) -> listener_components_pb2.Filter:
    """The source's HTTP connection manager, on a route table of the node."""
    manager = _manager(stat_prefix, log)
    is_pods = table == names.POD_TABLE
    refusal = _pod_refusal() if is_pods else _refusal_text()
    manager.local_reply_config.mappers.extend([refusal, *map(_failure_text, HTTP_FAILURES)])
    manager.codec_type = http_connection_manager_pb2.HttpConnectionManager.AUTO
    manager.rds.route_config_name = table
    manager.rds.config_source.CopyFrom(ads(fetch_timeout_s=0))
    manager.early_header_mutation_extensions.append(_CLUSTER_HEADER if is_pods else _CALLER_HEADER)
    manager.http_protocol_options.accept_http_10 = True
    manager.http_protocol_options.default_host_for_http_10 = "host.invalid"  # RFC 6761, section 6.4: never a name
    manager.http_filters.extend([_ON_DEMAND, _ROUTER])
    return _http_filter(manager)


def http_inbound(
    *, stat_prefix: str, routes: object, log: Iterable[accesslog_pb2.AccessLog], before: Iterable[object] = ()
) -> listener_components_pb2.Filter:
    """The destination's HTTP connection manager: h2 only, the peer's identity in `x-forwarded-client-cert`."""
    manager = _manager(stat_prefix, log)
    manager.local_reply_config.mappers.extend(map(_failure_text, LAST_HOP_FAILURES))
    manager.codec_type = http_connection_manager_pb2.HttpConnectionManager.HTTP2
    manager.route_config.CopyFrom(routes)
    manager.forward_client_cert_details = http_connection_manager_pb2.HttpConnectionManager.SANITIZE_SET
    manager.set_current_client_cert_details.uri = True
    manager.http_filters.extend([*before, _ROUTER])
    return _http_filter(manager)


def tcp_forward(
    *, stat_prefix: str, cluster: str, log: Iterable[accesslog_pb2.AccessLog], is_on_demand: bool = False
) -> listener_components_pb2.Filter:
    """Bytes to a cluster; with `is_on_demand`, to the one that the filter state names, asked for if it is missing."""
    proxy = _tcp(stat_prefix, cluster, log)
    if is_on_demand:
        proxy.max_connect_attempts.value = 3
        proxy.on_demand.odcds_config.CopyFrom(ads(fetch_timeout_s=0))
        proxy.on_demand.timeout.CopyFrom(seconds(ON_DEMAND_S))
    return _tcp_filter(proxy)


def tcp_inbound(
    *, stat_prefix: str, cluster: str, log: Iterable[accesslog_pb2.AccessLog]
) -> listener_components_pb2.Filter:
    """Bytes to the application, dialled only after the peer proved who it is (architecture, decision 22)."""
    proxy = _tcp(stat_prefix, cluster, log)
    proxy.upstream_connect_mode = tcp_proxy_pb2.ON_DOWNSTREAM_TLS_HANDSHAKE
    proxy.max_early_data_bytes.value = 0
    return _tcp_filter(proxy)


def _filter_state(carried: Carried) -> value_pb2.FilterStateValue:
    text = substitution_format_string_pb2.SubstitutionFormatString(
        text_format_source=base_pb2.DataSource(inline_string=carried.value)
    )
    value = value_pb2.FilterStateValue(object_key=carried.key, format_string=text)
    if carried.is_shared:
        value.factory_key = HASHABLE
        value.shared_with_upstream = value_pb2.FilterStateValue.ONCE
    elif carried.key != names.TCP_CLUSTER_KEY:  # the one key that has a factory of its own
        value.factory_key = PLAIN
    return value


def _manager(
    stat_prefix: str, log: Iterable[accesslog_pb2.AccessLog]
) -> http_connection_manager_pb2.HttpConnectionManager:
    """What both ends share: nothing is added to a request, nothing in it is rewritten, upgrades pass."""
    manager_type = http_connection_manager_pb2.HttpConnectionManager
    return manager_type(
        stat_prefix=stat_prefix,
        access_log=log,
        generate_request_id=wrappers_pb2.BoolValue(value=False),
        server_header_transformation=manager_type.PASS_THROUGH,
        strip_trailing_host_dot=True,
        stream_idle_timeout=seconds(STREAM_IDLE_S),
        http_protocol_options=protocol_pb2.Http1ProtocolOptions(enable_trailers=True),
        http2_protocol_options=protocol_pb2.Http2ProtocolOptions(allow_connect=True),
        upgrade_configs=[manager_type.UpgradeConfig(upgrade_type="websocket")],
    )


def _failure_text(failure: Failure) -> http_connection_manager_pb2.ResponseMapper:
    return http_connection_manager_pb2.ResponseMapper(
        filter=failed(failure),
        body_format_override=_text(f"%REQ(:authority):{NAME_LIMIT_BYTES}%: {failure.text} ({failure.word})"),
        headers_to_add=[_set(names.ERROR_HEADER, failure.word)],
    )


def _refusal_text() -> http_connection_manager_pb2.ResponseMapper:
    """The name as the client spelled it, without its port, then what the route says of it (rulings C.6).

    Once here instead of in every refusing route: each would compile the expression again.
    """
    return http_connection_manager_pb2.ResponseMapper(
        filter=has_status(accesslog_pb2.ComparisonFilter.EQ, 421),
        body_format_override=_text(f"{_NAME}%LOCAL_REPLY_BODY%"),
    )


def _pod_refusal() -> http_connection_manager_pb2.ResponseMapper:
    """421 instead of the 503 of a cluster that says why it has no endpoints (rulings B.4)."""
    return http_connection_manager_pb2.ResponseMapper(
        filter=failed(REFUSED),
        status_code=wrappers_pb2.UInt32Value(value=421),
        body_format_override=_text(f"{_NAME} {_told('ports')}"),
        headers_to_add=[_set(names.ERROR_HEADER, _told("error"))],
    )


def _told(key: str) -> str:
    """What a tombstone's metadata says under a key."""
    return f"%CLUSTER_METADATA({names.REFUSAL_METADATA}:{key})%"


def _text(template: str) -> substitution_format_string_pb2.SubstitutionFormatString:
    return substitution_format_string_pb2.SubstitutionFormatString(
        text_format_source=base_pb2.DataSource(inline_string=template)
    )


_HOST = r"^(?:(\\[.*?|[^:]*)(?::[^:\\]]*)?|(.*))$"
"""A host with or without a port, else the whole text; backslashes doubled, since CEL reads it as a string literal."""
_HOST_ALONE = r"\\1\\2"
_NAME = f"%CEL(re.extract(request.host, '{_HOST}', '{_HOST_ALONE}')):{NAME_LIMIT_BYTES}%"

_ROUTER = http_connection_manager_pb2.HttpFilter(
    name="envoy.filters.http.router", typed_config=pack(router_pb2.Router(suppress_envoy_headers=True))
)
_ON_DEMAND = http_connection_manager_pb2.HttpFilter(
    name="envoy.filters.http.on_demand",
    typed_config=pack(
        on_demand_pb2.OnDemand(
            odcds=on_demand_pb2.OnDemandCds(source=ads(fetch_timeout_s=0), timeout=seconds(ON_DEMAND_S))
        )
    ),
)


def _set(key: str, value: str) -> base_pb2.HeaderValueOption:
    return base_pb2.HeaderValueOption(
        header=base_pb2.HeaderValue(key=key, value=value),
        append_action=base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD,
    )


def _overwrite_header(key: str, value: str) -> extension_pb2.TypedExtensionConfig:
    mutation = header_mutation_pb2.HeaderMutation(
        mutations=[mutation_rules_pb2.HeaderMutation(append=_set(key, value))]
    )
    return extension("envoy.http.early_header_mutation.header_mutation", mutation)


_CALLER_HEADER = _overwrite_header(
    names.CALLER_HEADER,
    f"%FILTER_STATE({names.CALLER_NAMESPACE_KEY}:PLAIN)%/%FILTER_STATE({names.DIALLED_PORT_KEY}:PLAIN)%",
)
_CLUSTER_HEADER = _overwrite_header(names.CLUSTER_HEADER, "pod|%DOWNSTREAM_LOCAL_ADDRESS%")


def _tcp(stat_prefix: str, cluster: str, log: Iterable[accesslog_pb2.AccessLog]) -> tcp_proxy_pb2.TcpProxy:
    """Idle connections stay: keep-alive probes of the kernel tell a dead peer from a quiet one."""
    return tcp_proxy_pb2.TcpProxy(stat_prefix=stat_prefix, cluster=cluster, access_log=log, idle_timeout=seconds(0))


def _http_filter(manager: http_connection_manager_pb2.HttpConnectionManager) -> listener_components_pb2.Filter:
    return listener_components_pb2.Filter(
        name="envoy.filters.network.http_connection_manager", typed_config=pack(manager)
    )


def _tcp_filter(proxy: tcp_proxy_pb2.TcpProxy) -> listener_components_pb2.Filter:
    return listener_components_pb2.Filter(name="envoy.filters.network.tcp_proxy", typed_config=pack(proxy))
