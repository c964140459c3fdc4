"""Faults put into a snapshot, to see that somebody notices."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2

from aether.render.envoy import names
from aether.render.envoy.resource import Resource, encode, resource_of
from aether.render.envoy.snapshot import Snapshot

Edit = Callable[[Any], None]
Mutation = Callable[[Snapshot], Snapshot]

_KINDS: Mapping[str, Any] = {
    names.CLUSTER: cluster_pb2.Cluster,
    names.ENDPOINT: endpoint_pb2.ClusterLoadAssignment,
    names.LISTENER: listener_pb2.Listener,
    names.ROUTE: route_pb2.RouteConfiguration,
}


def edited(snapshot: Snapshot, type_url: str, edit: Edit, *, only: str = "") -> Snapshot:
    """The snapshot with every resource of a type edited, or `only` the one of a name."""
    resources: dict[str, Resource] = {}
    for name, resource in snapshot[type_url].items():
        message = _KINDS[type_url].FromString(resource.body)
        if not only or name == only:
            edit(message)
        resources[name] = resource_of(name, type_url, encode(message))
    return {**snapshot, type_url: resources}


def without_caller(snapshot: Snapshot) -> Snapshot:
    """Listeners whose connections carry no caller namespace."""
    return edited(snapshot, names.LISTENER, lambda one: _edit_state(one, _drop_key(names.CALLER_NAMESPACE_KEY)))


def _drop_key(key: str) -> Edit:
    def edit(config: Any) -> None:
        kept = [value for value in config.on_new_connection if value.object_key != key]
        del config.on_new_connection[:]
        config.on_new_connection.extend(kept)

    return edit


def _edit_state(listener: Any, edit: Edit) -> None:
    _edit_filters(listener, set_filter_state_pb2.Config, edit)


def _edit_filters(listener: Any, kind: Any, edit: Edit) -> None:
    chains = [*listener.filter_chains]
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    for chain in chains:
        for one in chain.filters:
            config = kind()
            if one.typed_config.Is(kind.DESCRIPTOR):
                one.typed_config.Unpack(config)
                edit(config)
                one.typed_config.Pack(config)


def _in_state(edit_value: Edit, key: str) -> Mutation:
    def edit(config: Any) -> None:
        for value in config.on_new_connection:
            if value.object_key == key:
                edit_value(value)

    return lambda snapshot: edited(snapshot, names.LISTENER, lambda one: _edit_state(one, edit))


def _in_routes(wanted: Callable[[Any], bool], edit: Edit, table: str = names.CAPTURE_TABLE) -> Mutation:
    """Edit the routes of a table that are `wanted`."""

    def edit_table(message: Any) -> None:
        for host in message.virtual_hosts:
            for route in host.routes:
                if wanted(route):
                    edit(route)

    return lambda snapshot: edited(snapshot, names.ROUTE, edit_table, only=table)


def _in_hosts(edit_hosts: Edit, table: str = names.CAPTURE_TABLE) -> Mutation:
    return lambda snapshot: edited(snapshot, names.ROUTE, lambda one: edit_hosts(one.virtual_hosts), only=table)


def _in_clusters(edit: Edit, kinds: tuple[int, ...] = (cluster_pb2.Cluster.EDS,)) -> Mutation:
    def edit_one(message: Any) -> None:
        if message.type in kinds:
            edit(message)

    return lambda snapshot: edited(snapshot, names.CLUSTER, edit_one)


def _in_tls(edit: Edit) -> Mutation:
    def edit_cluster(message: Any) -> None:
        context = tls_pb2.UpstreamTlsContext.FromString(message.transport_socket.typed_config.value)
        edit(context)
        message.transport_socket.typed_config.Pack(context)

    return _in_clusters(edit_cluster)


def _conditions_on(route: Any, key: str) -> list[Any]:
    return [one for one in route.match.filter_state if one.key == key]


def _drop_condition(key: str) -> Edit:
    def edit(route: Any) -> None:
        kept = [one for one in route.match.filter_state if one.key != key]
        del route.match.filter_state[:]
        route.match.filter_state.extend(kept)

    return edit


def _is_refusal(route: Any) -> bool:
    return bool(route.WhichOneof("action") == "direct_response" and route.direct_response.status == 421)


def _swap_first_routes(hosts: Any) -> None:
    for host in hosts:
        if len(host.routes) > 1:
            last = route_components_pb2.Route()
            last.CopyFrom(host.routes[len(host.routes) - 1])
            host.routes[len(host.routes) - 1].CopyFrom(host.routes[0])
            host.routes[0].CopyFrom(last)


def _drop_first_routes(hosts: Any) -> None:
    for host in hosts:
        if len(host.routes) > 1:
            del host.routes[0]


def _widen_to_all(hosts: Any) -> None:
    """The first virtual host takes every name; the one that did is gone."""
    del hosts[len(hosts) - 1]
    hosts[0].domains.append("*")


def _widen_to_suffix(hosts: Any) -> None:
    for host in hosts:
        for domain in list(host.domains):
            if domain.endswith(".svc"):
                host.domains.append(f"*.{domain}")


def _move_domain(hosts: Any) -> None:
    """A full name of one virtual host stands in another."""
    full = [host for host in hosts if any("." in domain for domain in host.domains)]
    domain = full[0].domains.pop()
    full[1].domains.append(domain)


def _loosen_suffix(route: Any) -> None:
    for header in route.match.headers:
        if header.string_match.suffix:
            header.string_match.suffix = header.string_match.suffix.removeprefix(":")


def _contain_suffix(route: Any) -> None:
    for header in route.match.headers:
        if header.string_match.suffix:
            header.string_match.contains = header.string_match.suffix


def _to_cluster(name: str) -> Edit:
    def edit(route: Any) -> None:
        route.ClearField("response_headers_to_add")
        route.route.cluster = name

    return edit


def _empty_pins(context: Any) -> None:
    trusted = context.common_tls_context.combined_validation_context.default_validation_context
    del trusted.match_typed_subject_alt_names[:]


def _pin(name: str) -> Edit:
    def edit(context: Any) -> None:
        trusted = context.common_tls_context.combined_validation_context.default_validation_context
        trusted.match_typed_subject_alt_names[0].matcher.exact = name

    return edit


def _lower_tls(context: Any) -> None:
    context.common_tls_context.tls_params.tls_minimum_protocol_version = 3


def _set(field: str, value: object) -> Edit:
    return lambda message: setattr(message, field, value)


def _say(text: str) -> Edit:
    return lambda value: setattr(value.format_string.text_format_source, "inline_string", text)


def _spill_endpoints(snapshot: Snapshot) -> Snapshot:
    """Every load assignment gets the endpoints of one."""
    resources = snapshot[names.ENDPOINT]
    donor = next(endpoint_pb2.ClusterLoadAssignment.FromString(one.body) for one in resources.values() if one.body)

    def edit(message: Any) -> None:
        message.endpoints.extend(donor.endpoints)

    return edited(snapshot, names.ENDPOINT, edit)


def _keep_caller_header(message: Any) -> None:
    del message.request_headers_to_remove[:]


def _forget_early_header(listener: Any) -> None:
    def edit(config: Any) -> None:
        config.ClearField("early_header_mutation_extensions")

    _edit_filters(listener, http_connection_manager_pb2.HttpConnectionManager, edit)


def _keep_dot(listener: Any) -> None:
    keep = _set("strip_trailing_host_dot", value=False)
    _edit_filters(listener, http_connection_manager_pb2.HttpConnectionManager, keep)


def _swap_tables(listener: Any) -> None:
    swap = {names.CAPTURE_TABLE: names.PROXY_TABLE, names.PROXY_TABLE: names.CAPTURE_TABLE}

    def edit(config: Any) -> None:
        table = config.rds.route_config_name
        config.rds.route_config_name = swap.get(table, table)

    _edit_filters(listener, http_connection_manager_pb2.HttpConnectionManager, edit)


def _forget_inspectors(listener: Any) -> None:
    kept = [one for one in listener.listener_filters if "http_inspector" not in one.name]
    del listener.listener_filters[:]
    listener.listener_filters.extend(kept)


def _believe_the_client(hosts: Any) -> None:
    for host in hosts:
        for route in host.routes:
            route.route.cluster_header = "x-request"


def _change_lua(message: Any) -> None:
    for plugin in message.cluster_specifier_plugins:
        config = plugin.extension.typed_config
        config.value = config.value.replace(b'"^([^.]*)%.([^.]*)"', b'"^([^.]*)%.([^.]+)"').replace(
            b'if dialled ~= "18081" then', b'if dialled == "18081" then'
        )


_PORT, _NAMESPACE = names.DIALLED_PORT_KEY, names.CALLER_NAMESPACE_KEY

MUTATIONS: Mapping[str, Mutation] = {
    "drop the first route of each virtual host": _in_hosts(_drop_first_routes),
    "drop the first route of each virtual host on the proxy port": _in_hosts(_drop_first_routes, names.PROXY_TABLE),
    "swap the first and last routes": _in_hosts(_swap_first_routes),
    "widen a domain to every name": _in_hosts(_widen_to_all),
    "widen a domain to a suffix": _in_hosts(_widen_to_suffix),
    "move a domain to another virtual host": _in_hosts(_move_domain),
    "loosen the suffix of Host's port": _in_routes(lambda _: True, _loosen_suffix),
    "look for Host's port anywhere": _in_routes(lambda _: True, _contain_suffix, names.PROXY_TABLE),
    "remove the condition on the dialled port": _in_routes(
        lambda route: bool(_conditions_on(route, _PORT)), _drop_condition(_PORT)
    ),
    "remove the condition on the caller's namespace": _in_routes(
        lambda route: bool(_conditions_on(route, _NAMESPACE)), _drop_condition(_NAMESPACE)
    ),
    "remove it on the proxy port": _in_routes(
        lambda route: bool(_conditions_on(route, _NAMESPACE)), _drop_condition(_NAMESPACE), names.PROXY_TABLE
    ),
    "point refusals at a mesh cluster": _in_routes(_is_refusal, _to_cluster("cart.shop.aether.internal:8080")),
    "point refusals at the pass-through": _in_routes(_is_refusal, _to_cluster(names.PASS_THROUGH)),
    "point deliveries at the pass-through": _in_routes(
        lambda route: bool(route.route.cluster_specifier_plugin), _to_cluster(names.PASS_THROUGH)
    ),
    "match Host's port with the port left in": lambda snapshot: edited(
        snapshot, names.ROUTE, _set("ignore_port_in_host_matching", value=False)
    ),
    "keep the trailing dot": lambda snapshot: edited(snapshot, names.LISTENER, _keep_dot),
    "believe the client's caller header": lambda snapshot: edited(snapshot, names.LISTENER, _forget_early_header),
    "send the caller header on": lambda snapshot: edited(snapshot, names.ROUTE, _keep_caller_header),
    "swap the tables of captured and proxied requests": lambda snapshot: edited(snapshot, names.LISTENER, _swap_tables),
    "look for no HTTP": lambda snapshot: edited(snapshot, names.LISTENER, _forget_inspectors),
    "let a client name the cluster of a dialled pod": _in_hosts(_believe_the_client, names.POD_TABLE),
    "change the program that names clusters": lambda snapshot: edited(snapshot, names.ROUTE, _change_lua),
    "drop the pinned peer": _in_tls(_empty_pins),
    "pin another peer": _in_tls(_pin("spiffe://aether.internal/ns/shop/sa/other")),
    "accept TLS 1.2": _in_tls(_lower_tls),
    "ask for another port of the pod": _in_tls(_set("sni", "1")),
    "mesh hop without TLS": _in_clusters(lambda one: one.ClearField("transport_socket")),
    "endpoints of another service": _spill_endpoints,
    "panic": _in_clusters(lambda one: one.ClearField("common_lb_config")),
    "part pools by text that is not hashed": _in_state(_set("factory_key", "envoy.string"), names.IDENTITY_KEY),
    "dial from a namespace that is not hashed": _in_state(_set("factory_key", "envoy.string"), names.NETNS_KEY),
    "everybody is one pod": _in_state(_say("out/shop/cart"), names.IDENTITY_KEY),
    "every pod is of one namespace": _in_state(_say("shop"), _NAMESPACE),
    "one dialled port for all": _in_state(_say("8080"), _PORT),
    "one raw cluster for all": _in_state(_say("tcp|10.96.0.21:9000"), names.TCP_CLUSTER_KEY),
    "pass through from Envoy's own namespace": _in_state(_set("shared_with_upstream", 0), names.NETNS_KEY),
    "pass through without the mark": _in_clusters(
        lambda one: one.upstream_bind_config.ClearField("socket_options"), (cluster_pb2.Cluster.ORIGINAL_DST,)
    ),
    "pass through to another port": _in_clusters(
        lambda one: setattr(one.original_dst_lb_config.upstream_port_override, "value", 8080),
        (cluster_pb2.Cluster.ORIGINAL_DST,),
    ),
}
"""By what is done. Each must be noticed: by the delivery property, or by the consistency check of snapshots."""


class Loss(msgspec.Struct, frozen=True):
    """A snapshot without one route. `place` names it, `domain` is one that its virtual host answers for."""

    place: str
    domain: str
    snapshot: Snapshot


def each_route_lost(snapshot: Snapshot, table: str) -> Iterator[Loss]:
    """Every route of a table, lost one at a time, but for those whose answer the next one gives as well."""
    message = route_pb2.RouteConfiguration.FromString(snapshot[names.ROUTE][table].body)
    for host, virtual_host in enumerate(message.virtual_hosts):
        for place, route in enumerate(virtual_host.routes):
            if _is_covered(route, virtual_host.routes[place + 1 : place + 2]):
                continue
            mutated = edited(snapshot, names.ROUTE, _drop_route(host, place), only=table)
            yield Loss(f"{virtual_host.name}, #{place} {route.name}", virtual_host.domains[0], mutated)


def _is_covered(route: Any, behind: Any) -> bool:
    """Whether the route behind takes all that this one takes, and answers it alike."""
    if not behind:
        return False
    bare, next_bare = (_without_match(one) for one in (route, behind[0]))
    conditions = [encode(one) for one in (*route.match.filter_state, *route.match.headers)]
    wider = [encode(one) for one in (*behind[0].match.filter_state, *behind[0].match.headers)]
    return bare == next_bare and all(one in conditions for one in wider)


def _without_match(route: Any) -> Any:
    copy = route_components_pb2.Route()
    copy.CopyFrom(route)
    copy.ClearField("match")
    return copy


def _drop_route(host: int, place: int) -> Edit:
    def edit(message: Any) -> None:
        del message.virtual_hosts[host].routes[place]

    return edit
