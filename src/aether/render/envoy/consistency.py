"""Faults of a snapshot that Envoy accepts without a word, or answers by an outage.

Each check is a function from the snapshot, decoded once, to sentences. A sound snapshot has none.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import address_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, tls_pb2
from envoy.type.v3 import http_pb2
from google.protobuf import wrappers_pb2
from google.protobuf.message import Message
from xds.type.matcher.v3 import ip_pb2

from aether.render.envoy import names
from aether.render.envoy.filters import HASHABLE
from aether.render.envoy.resource import Resource

_SHARED_KEYS = frozenset({names.IDENTITY_KEY, names.NETNS_KEY})
_STATIC = frozenset({names.NONE, names.ADS})


class _Filter(msgspec.Struct, frozen=True, eq=False):
    """A network filter with the place it stands in."""

    place: str
    chain: Any
    config: Any


class _Decoded(msgspec.Struct, frozen=True, eq=False):
    clusters: Mapping[str, Any]
    assignments: frozenset[str]
    listeners: Mapping[str, Any]
    tables: Mapping[str, Any]
    filters: tuple[_Filter, ...]

    def of(self, kind: type[Message]) -> Iterator[_Filter]:
        return (each for each in self.filters if isinstance(each.config, kind))


def consistency(snapshot: Mapping[str, Mapping[str, Resource]]) -> list[str]:
    """What is wrong, in words, sorted; empty for a sound snapshot."""
    decoded = _decode(snapshot)
    return sorted({fault for check in _CHECKS for fault in check(decoded)})


_KINDS: Mapping[str, type[Message]] = {
    "envoy.filters.network.http_connection_manager": http_connection_manager_pb2.HttpConnectionManager,
    "envoy.filters.network.tcp_proxy": tcp_proxy_pb2.TcpProxy,
    "envoy.filters.network.set_filter_state": set_filter_state_pb2.Config,
}


def _decode(snapshot: Mapping[str, Mapping[str, Resource]]) -> _Decoded:
    listeners = _messages(snapshot, names.LISTENER, listener_pb2.Listener)
    return _Decoded(
        clusters=_messages(snapshot, names.CLUSTER, cluster_pb2.Cluster),
        assignments=frozenset(snapshot.get(names.ENDPOINT, {})),
        listeners=listeners,
        tables=_messages(snapshot, names.ROUTE, route_pb2.RouteConfiguration),
        filters=tuple(each for listener in listeners.values() for each in _filters(listener)),
    )


def _messages(snapshot: Mapping[str, Mapping[str, Resource]], type_url: str, kind: type[Message]) -> Mapping[str, Any]:
    return {name: kind.FromString(resource.body) for name, resource in snapshot.get(type_url, {}).items()}


def _chains(listener: Any) -> list[Any]:
    default = [listener.default_filter_chain] if listener.HasField("default_filter_chain") else []
    return [*listener.filter_chains, *default]


def _filters(listener: Any) -> Iterator[_Filter]:
    for chain in _chains(listener):
        for each in chain.filters:
            config = _KINDS[each.name].FromString(each.typed_config.value)
            yield _Filter(f"{listener.name}, chain {chain.name}", chain, config)


def _chains_exist(decoded: _Decoded) -> Iterator[str]:
    """Envoy accepts a matcher that names a chain that is not there, and closes what it matched."""
    for listener in decoded.listeners.values():
        if not listener.HasField("filter_chain_matcher"):
            continue
        named = set(_chain_names(listener.filter_chain_matcher))
        held = {chain.name for chain in listener.filter_chains}
        yield from (f"{listener.name}: chain {name} is named and missing" for name in named - held)
        yield from (f"{listener.name}: chain {name} is never chosen" for name in held - named)


def _chain_names(matcher: Any) -> Iterator[str]:
    tree = matcher.matcher_tree
    branches = list(tree.exact_match_map.map.values())
    if tree.HasField("custom_match"):
        ranges = ip_pb2.IPMatcher.FromString(tree.custom_match.typed_config.value).range_matchers
        branches += [each.on_match for each in ranges]
    if matcher.HasField("on_no_match"):
        branches.append(matcher.on_no_match)
    for branch in branches:
        if branch.HasField("matcher"):
            yield from _chain_names(branch.matcher)
        else:
            yield wrappers_pb2.StringValue.FromString(branch.action.typed_config.value).value


def _tables_exist(decoded: _Decoded) -> Iterator[str]:
    for each in decoded.of(http_connection_manager_pb2.HttpConnectionManager):
        wanted = each.config.rds.route_config_name
        if wanted and wanted not in decoded.tables:
            yield f"{each.place}: table {wanted} is missing"


def _domains_are_unique(decoded: _Decoded) -> Iterator[str]:
    """One name in two virtual hosts, and Envoy refuses the whole table."""
    for table in decoded.tables.values():
        counts = Counter(domain for host in table.virtual_hosts for domain in host.domains)
        yield from (
            f"{table.name}: {domain} stands in {count} virtual hosts" for domain, count in counts.items() if count > 1
        )


def _clusters_exist(decoded: _Decoded) -> Iterator[str]:
    """A cluster that is neither here nor asked for on demand answers nothing but 503."""
    here = decoded.clusters.keys() | _STATIC
    for each in decoded.of(http_connection_manager_pb2.HttpConnectionManager):
        is_on_demand = any(one.name == "envoy.filters.http.on_demand" for one in each.config.http_filters)
        table = decoded.tables.get(each.config.rds.route_config_name, each.config.route_config)
        actions = [route.route for host in table.virtual_hosts for route in host.routes]
        if not is_on_demand and any(action.cluster_header or action.cluster_specifier_plugin for action in actions):
            yield f"{each.place}: requests name their clusters, and nobody asks for them"
        named = {action.cluster for action in actions if action.cluster}
        wanted = {name for name in named if not (is_on_demand and _is_on_demand(name))}
        yield from (f"{each.place}: cluster {name} is missing" for name in wanted - here)
    for each in decoded.of(tcp_proxy_pb2.TcpProxy):
        if each.config.cluster not in here:
            yield f"{each.place}: cluster {each.config.cluster} is missing"


def _is_on_demand(name: str) -> bool:
    """Whether the agent answers for the name: those of the plan name a port, the node's own do not."""
    return ":" in name


def _assignments_fit(decoded: _Decoded) -> Iterator[str]:
    """A cluster without its load assignment warms, and while one warms no other name is answered."""
    wanted = {name for name, cluster in decoded.clusters.items() if cluster.type == cluster_pb2.Cluster.EDS}
    yield from (f"cluster {name}: its load assignment is missing" for name in wanted - decoded.assignments)
    yield from (f"load assignment {name}: it is no cluster's" for name in decoded.assignments - wanted)
    for name in wanted:
        if not _has_duration(decoded.clusters[name].eds_cluster_config.eds_config):
            yield f"cluster {name}: it waits for its endpoints for ever"


def _has_duration(source: Any) -> bool:
    timeout = source.initial_fetch_timeout
    return bool(timeout.seconds or timeout.nanos)


def _peers_are_pinned(decoded: _Decoded) -> Iterator[str]:
    """A mesh cluster without an exact name of its peer would speak to anybody of the mesh."""
    for name, cluster in decoded.clusters.items():
        if cluster.HasField("transport_socket"):
            context = tls_pb2.UpstreamTlsContext.FromString(cluster.transport_socket.typed_config.value)
            yield from _upstream_faults(name, context)
        elif cluster.type == cluster_pb2.Cluster.EDS or cluster.HasField("original_dst_lb_config"):
            yield f"cluster {name}: the mesh hop is without TLS"


def _upstream_faults(name: str, context: Any) -> Iterator[str]:
    sans = context.common_tls_context.combined_validation_context.default_validation_context
    if not [san for san in sans.match_typed_subject_alt_names if san.matcher.exact]:
        yield f"cluster {name}: its peer is not pinned"
    if not context.sni:
        yield f"cluster {name}: no server name"
    if not _is_only_1_3(context.common_tls_context):
        yield f"cluster {name}: TLS below 1.3"


def _is_only_1_3(common: Any) -> bool:
    only = common_pb2.TlsParameters.TLSv1_3
    return bool(
        common.tls_params.tls_minimum_protocol_version == only
        and common.tls_params.tls_maximum_protocol_version == only
    )


def _inbound_is_closed(decoded: _Decoded) -> Iterator[str]:
    """Every chain with TLS demands a certificate, and no application is dialled before it was seen."""
    for listener in decoded.listeners.values():
        for chain in _chains(listener):
            if chain.HasField("transport_socket"):
                context = tls_pb2.DownstreamTlsContext.FromString(chain.transport_socket.typed_config.value)
                yield from _downstream_faults(f"{listener.name}, chain {chain.name}", context)
    for each in decoded.of(tcp_proxy_pb2.TcpProxy):
        is_early = each.config.upstream_connect_mode != tcp_proxy_pb2.ON_DOWNSTREAM_TLS_HANDSHAKE
        if each.chain.HasField("transport_socket") and is_early:
            yield f"{each.place}: the application is dialled before the handshake ends"


def _downstream_faults(place: str, context: Any) -> Iterator[str]:
    if not context.require_client_certificate.value:
        yield f"{place}: no client certificate is demanded"
    if not _is_only_1_3(context.common_tls_context):
        yield f"{place}: TLS below 1.3"
    accepted = context.common_tls_context.combined_validation_context.default_validation_context
    if not accepted.match_typed_subject_alt_names:
        yield f"{place}: peers of any trust domain are accepted"


def _state_parts_pools(decoded: _Decoded) -> Iterator[str]:
    """With any other factory, connections of two pods share a pool, and one speaks as the other."""
    for each in decoded.of(set_filter_state_pb2.Config):
        for value in each.config.on_new_connection:
            is_shared = value.object_key in _SHARED_KEYS or value.shared_with_upstream
            if is_shared and value.factory_key != HASHABLE:
                yield f"{each.place}: {value.object_key} is made by {value.factory_key or value.object_key}"


def _secrets_have_one_use(decoded: _Decoded) -> Iterator[str]:
    """A name that is asked for both on demand and by name is never delivered to the second."""
    on_demand = {
        value.format_string.text_format_source.inline_string
        for each in decoded.of(set_filter_state_pb2.Config)
        for value in each.config.on_new_connection
        if value.object_key == names.IDENTITY_KEY
    }
    yield from (f"secret {name}: it is both on demand and named" for name in on_demand & set(_named_secrets(decoded)))


def _named_secrets(decoded: _Decoded) -> Iterator[str]:
    contexts = [
        tls_pb2.DownstreamTlsContext.FromString(chain.transport_socket.typed_config.value)
        for listener in decoded.listeners.values()
        for chain in _chains(listener)
    ] + [
        tls_pb2.UpstreamTlsContext.FromString(cluster.transport_socket.typed_config.value)
        for cluster in decoded.clusters.values()
    ]
    for context in contexts:
        yield from (each.name for each in context.common_tls_context.tls_certificate_sds_secret_configs)


def _nothing_is_quic(decoded: _Decoded) -> Iterator[str]:
    """The selector of identities does not work on QUIC, and an HTTP/3 health check kills Envoy at its start."""
    for listener in decoded.listeners.values():
        if listener.address.socket_address.protocol == address_pb2.SocketAddress.UDP:
            yield f"{listener.name}: UDP"
    for each in decoded.of(http_connection_manager_pb2.HttpConnectionManager):
        if each.config.codec_type == http_connection_manager_pb2.HttpConnectionManager.HTTP3:
            yield f"{each.place}: HTTP/3"
    for name, cluster in decoded.clusters.items():
        if any(check.http_health_check.codec_client_type == http_pb2.HTTP3 for check in cluster.health_checks):
            yield f"cluster {name}: HTTP/3 health check"


def _addresses_are_the_pods(decoded: _Decoded) -> Iterator[str]:
    """A listener without a namespace would stand on the node, and of two on one address the second is refused."""
    places: Counter[tuple[str, int, str]] = Counter()
    for listener in decoded.listeners.values():
        address = listener.address.socket_address
        if not address.network_namespace_filepath:
            yield f"{listener.name}: not in a pod's network namespace"
        places[address.address, address.port_value, address.network_namespace_filepath] += 1
    yield from (f"{count} listeners stand on {place}" for place, count in places.items() if count > 1)


_CHECKS: Iterable[Callable[[_Decoded], Iterator[str]]] = (
    _chains_exist,
    _tables_exist,
    _domains_are_unique,
    _clusters_exist,
    _assignments_fit,
    _peers_are_pinned,
    _inbound_is_closed,
    _state_parts_pools,
    _secrets_have_one_use,
    _nothing_is_quic,
    _addresses_are_the_pods,
)
