"""The node's three route tables, joined from cached bytes (architecture, decision 10).

Owns: whose names stand in which virtual host, and that a change of one service costs little. Leaves to others: what a
virtual host answers (`routes`).

A repeated field may be written in pieces, so a virtual host is its routes in bytes and its domains in bytes, and a
table is its virtual hosts one after the other: nothing that did not change is encoded again.
"""

from collections.abc import Iterable, Iterator

import msgspec
from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.matching.common_inputs.network.v3 import network_inputs_pb2
from envoy.extensions.router.cluster_specifiers.lua.v3 import lua_pb2
from google.protobuf import wrappers_pb2
from xds.type.matcher.v3 import matcher_pb2

from aether.model.facts import MeshConfig
from aether.model.names import Domains, ServiceId, kubernetes_names, mesh_name
from aether.plan.mesh.addressing import DialledPod
from aether.plan.mesh.services import ServiceView
from aether.render.envoy import names
from aether.render.envoy.resource import as_input, encode, extension, then, wrap
from aether.render.envoy.routes import (
    Route,
    Shape,
    Specifier,
    capture_routes,
    pass_through,
    pod_refusal,
    pod_routes,
    proxy_routes,
    shape_of,
    short_capture_routes,
    short_proxy_routes,
    specifier_source,
    unknown_capture_routes,
    unknown_proxy_routes,
)

BODY_LIMIT_BYTES = 64 * 1024
"""A refusal that lists many ports. Envoy's 4 KiB would reject the whole table."""

_VIRTUAL_HOSTS, _DOMAINS = 2, 2  # RouteConfiguration.virtual_hosts, VirtualHost.domains
_MATCHER, _TREE, _ON_NO_MATCH, _NESTED = 21, 2, 3, 1  # VirtualHost.matcher, Matcher, Matcher.OnMatch.matcher
_INPUT, _EXACT, _MAP, _KEY, _VALUE = 1, 2, 1, 1, 2  # Matcher.MatcherTree, its MatchMap, a map entry


class _Class(msgspec.Struct, frozen=True, eq=False):
    """Names that answer alike: the encoded virtual host without its domains, for each table. Compared by identity."""

    shape: Shape
    capture: bytes
    proxy: bytes


class _Member(msgspec.Struct, frozen=True, eq=False):
    """A service in the tables: the view it was made from, its class, its encoded domains, its encoded short name."""

    view: ServiceView
    kind: _Class
    domains: bytes
    short_domain: bytes


class _Pod(msgspec.Struct, frozen=True, eq=False):
    """A dialled pod: the map entries of its ports, and that of its address."""

    plan: DialledPod
    ports: bytes
    address: bytes


class TableCache(msgspec.Struct, eq=False):
    """Encoded parts of the tables of one mesh configuration. Speed only: any cache gives the same tables."""

    config: MeshConfig
    classes: dict[Shape, _Class] = {}
    members: dict[ServiceId, _Member] = {}
    shorts: dict[tuple[tuple[str, _Class], ...], tuple[bytes, bytes]] = {}
    pods: dict[str, _Pod] = {}


def service_tables(directory: Iterable[ServiceView], cache: TableCache) -> tuple[bytes, bytes]:
    """The capture table and the proxy port's table. `directory` is sorted by service."""
    members = _members(directory, cache)
    cache.members = {member.view.service: member for member in members}
    hosts = [*_class_hosts(members), *_short_hosts(members, cache)]
    domains = cache.config.domains
    capture = _table(names.CAPTURE_TABLE, domains, (capture for capture, _ in hosts), unknown_capture_routes(domains))
    proxy = _table(names.PROXY_TABLE, domains, (proxy for _, proxy in hosts), unknown_proxy_routes(domains))
    return capture, proxy


def pod_table(pods: Iterable[DialledPod], cache: TableCache) -> bytes:
    """The table of dialled pods: by address and port, then by address. `pods` are sorted by address."""
    spelled = [_pod(pod, cache) for pod in pods]
    cache.pods = {pod.plan.address: pod for pod in spelled}
    host = route_components_pb2.VirtualHost(name="pods", domains=["*"])
    if not spelled:
        host.routes.append(pass_through())
        return _frame(names.POD_TABLE, [wrap(_VIRTUAL_HOSTS, encode(host))], cache.config.domains)
    otherwise = encode(_then(pass_through()))
    by_address = _lookup(names.DIALLED_ADDRESS_KEY, (pod.address for pod in spelled), otherwise)
    by_port = _lookup(names.DIALLED_KEY, (pod.ports for pod in spelled), wrap(_NESTED, by_address))
    return _frame(names.POD_TABLE, [wrap(_VIRTUAL_HOSTS, encode(host) + wrap(_MATCHER, by_port))], cache.config.domains)


def _members(directory: Iterable[ServiceView], cache: TableCache) -> list[_Member]:
    known = cache.members
    found = []
    for view in directory:
        member = known.get(view.service)
        if member is None or (member.view is not view and not _is_alike(member.view, view)):
            member = _member(view, cache)
        found.append(member)
    return found


def _is_alike(old: ServiceView, new: ServiceView) -> bool:
    """Whether the tables say the same of both: they do not know addresses."""
    return (old.ports, old.declared, old.is_user_owned) == (new.ports, new.declared, new.is_user_owned)


def _member(view: ServiceView, cache: TableCache) -> _Member:
    config = cache.config
    shape = shape_of(view, config)
    if shape not in cache.classes:
        cache.classes[shape] = _Class(
            shape=shape,
            capture=_host(_text(shape), capture_routes(shape)),
            proxy=_host(_text(shape), proxy_routes(shape)),
        )
    answered = [mesh_name(view.service, config.domains)]
    if not view.is_user_owned:
        answered += kubernetes_names(view.service, config.domains)
    return _Member(
        view=view,
        kind=cache.classes[shape],
        domains=b"".join(_domain(name) for name in dict.fromkeys(answered)),
        short_domain=b"" if view.is_user_owned else _domain(view.service.name),
    )


def _class_hosts(members: Iterable[_Member]) -> Iterator[tuple[bytes, bytes]]:
    """One virtual host per class, for both tables."""
    domains_by_class: dict[_Class, list[bytes]] = {}
    for member in members:
        domains_by_class.setdefault(member.kind, []).append(member.domains)
    for kind, domains in domains_by_class.items():
        joined = b"".join(domains)
        yield wrap(_VIRTUAL_HOSTS, kind.capture + joined), wrap(_VIRTUAL_HOSTS, kind.proxy + joined)


def _short_hosts(members: Iterable[_Member], cache: TableCache) -> Iterator[tuple[bytes, bytes]]:
    """One virtual host per set of (namespace, class) that share a short name, for both tables."""
    owners_by_name: dict[bytes, tuple[_Member, ...]] = {}
    for member in members:
        if member.short_domain:
            owners_by_name[member.short_domain] = (*owners_by_name.get(member.short_domain, ()), member)
    names_by_kinds: dict[tuple[tuple[str, _Class], ...], list[bytes]] = {}
    for name, owners in owners_by_name.items():
        kinds = tuple((owner.view.service.namespace, owner.kind) for owner in owners)
        names_by_kinds.setdefault(kinds, []).append(name)
    shorts = {kinds: cache.shorts.get(kinds) or _short(kinds) for kinds in names_by_kinds}
    cache.shorts = shorts
    for kinds, spelled in names_by_kinds.items():
        capture, proxy = shorts[kinds]
        joined = b"".join(spelled)
        yield wrap(_VIRTUAL_HOSTS, capture + joined), wrap(_VIRTUAL_HOSTS, proxy + joined)


def _short(kinds: Iterable[tuple[str, _Class]]) -> tuple[bytes, bytes]:
    shapes = [(namespace, kind.shape) for namespace, kind in kinds]
    name = "short: " + "; ".join(f"{namespace} {_text(shape)}" for namespace, shape in shapes)
    return _host(name, short_capture_routes(shapes)), _host(name, short_proxy_routes(shapes))


def _host(name: str, routes: Iterable[Route]) -> bytes:
    return encode(route_components_pb2.VirtualHost(name=name, routes=routes))


def _domain(name: str) -> bytes:
    return wrap(_DOMAINS, name.encode())


def _text(shape: Shape) -> str:
    ports = ",".join(f"{number}={port_class.value}" for number, port_class in shape.ports)
    if shape.own is None:
        return f"ports {ports}"
    own = ",".join(f"{number}={specifier.value}" for number, specifier in shape.own)
    return f"user-owned, ports {ports}, own {own}"


def _table(name: str, domains: Domains, hosts: Iterable[bytes], unknown: Iterable[Route]) -> bytes:
    everything_else = encode(route_components_pb2.VirtualHost(name="unknown", domains=["*"], routes=unknown))
    return _frame(name, [*hosts, wrap(_VIRTUAL_HOSTS, everything_else)], domains)


def _frame(name: str, hosts: Iterable[bytes], domains: Domains) -> bytes:
    """A table around encoded virtual hosts."""
    head = route_pb2.RouteConfiguration(
        name=name,
        ignore_port_in_host_matching=True,
        request_headers_to_remove=[names.CALLER_HEADER],
        max_direct_response_body_size_bytes=wrappers_pb2.UInt32Value(value=BODY_LIMIT_BYTES),
        validate_clusters=wrappers_pb2.BoolValue(value=False),
        cluster_specifier_plugins=[_plugin(specifier, domains) for specifier in Specifier],
    )
    return b"".join((encode(head), *hosts))


def _plugin(specifier: Specifier, domains: Domains) -> route_components_pb2.ClusterSpecifierPlugin:
    source = base_pb2.DataSource(inline_string=specifier_source(specifier, domains))
    config = lua_pb2.LuaConfig(source_code=source, default_cluster=names.NONE)
    return route_components_pb2.ClusterSpecifierPlugin(extension=extension(specifier.value, config))


def _pod(plan: DialledPod, cache: TableCache) -> _Pod:
    known = cache.pods.get(plan.address)
    if known is not None and known.plan == plan:
        return known
    host = f"[{plan.address}]" if ":" in plan.address else plan.address
    ports = b"".join(_entry(f"{host}:{number}", route) for number, route in pod_routes(plan))
    return _Pod(plan=plan, ports=ports, address=_entry(plan.address, pod_refusal(plan)))


def _entry(key: str, route: Route) -> bytes:
    """One entry of an exact-match map."""
    return wrap(_MAP, wrap(_KEY, key.encode()) + wrap(_VALUE, encode(_then(route))))


def _then(route: Route) -> matcher_pb2.Matcher.OnMatch:
    return then(route.name, route)


def _lookup(key: str, entries: Iterable[bytes], otherwise: bytes) -> bytes:
    """A matcher that looks filter state up among encoded entries; `otherwise` is an encoded OnMatch."""
    state = encode(as_input("state", network_inputs_pb2.FilterStateInput(key=key)))
    tree = wrap(_INPUT, state) + wrap(_EXACT, b"".join(entries))
    return wrap(_TREE, tree) + wrap(_ON_NO_MATCH, otherwise)
