"""The node's three route tables, joined from cached bytes (architecture, decision 10).

Owns: whose names stand in which virtual host, and that a change of one service costs little. Leaves to others: what a
virtual host answers (`routes`).

A repeated field may be written in pieces, so a virtual host is its routes in bytes and its domains in bytes, and a
table is its virtual hosts one after the other: nothing that did not change is encoded again.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

import msgspec
from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.router.cluster_specifiers.lua.v3 import lua_pb2
from google.protobuf import wrappers_pb2

from aether.model.facts import MeshConfig
from aether.model.names import Domains, ServiceId, kubernetes_names, mesh_name
from aether.plan.mesh.services import ServiceView
from aether.render.envoy import names
from aether.render.envoy.resource import Resource, encode, extension, resource_of, wrap
from aether.render.envoy.routes import (
    Route,
    Shape,
    Specifier,
    capture_routes,
    pod_route,
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


class _Group(msgspec.Struct, eq=False, kw_only=True):
    """Names that answer alike, each encoded as a domain: one virtual host of each of the two tables.

    `capture` and `proxy` are the encoded virtual hosts without their domains; `joined` the whole of both, None once a
    name came or went.
    """

    name: str
    capture: bytes
    proxy: bytes
    domains: list[tuple[str, bytes]] = []
    joined: tuple[bytes, bytes] | None = None

    def put(self, key: str, domains: bytes) -> None:
        insort(self.domains, (key, domains))
        self.joined = None

    def take(self, key: str) -> None:
        del self.domains[bisect_left(self.domains, (key, b""))]
        self.joined = None

    def hosts(self) -> tuple[bytes, bytes]:
        if self.joined is None:
            domains = b"".join([encoded for _, encoded in self.domains])
            self.joined = wrap(_VIRTUAL_HOSTS, self.capture + domains), wrap(_VIRTUAL_HOSTS, self.proxy + domains)
        return self.joined


_Owners = tuple[tuple[str, Shape], ...]
"""Who shares a short name: (namespace, shape), sorted."""


class ServiceTables:
    """The capture table and the proxy port's table of one mesh configuration.

    Whatever was rendered before, equal directories give equal bytes; a directory that is nearly the one before it costs
    what changed.
    """

    def __init__(self, config: MeshConfig) -> None:
        self._config = config
        self._directory: tuple[ServiceView, ...] = ()
        self._rendered: tuple[Resource, Resource] | None = None
        self._groups: dict[Shape | _Owners, _Group] = {}
        self._shapes_by_short_name: dict[str, dict[str, Shape]] = {}
        self._capture = _edges(names.CAPTURE_TABLE, config.domains, unknown_capture_routes(config.domains))
        self._proxy = _edges(names.PROXY_TABLE, config.domains, unknown_proxy_routes(config.domains))

    def render(self, directory: tuple[ServiceView, ...]) -> tuple[Resource, Resource]:
        """Both tables. `directory` is sorted by service."""
        gone, come = _changes(self._directory, directory)
        self._directory = directory
        if self._rendered is not None and not gone and not come:
            return self._rendered
        for view in gone:
            self._take(view)
        for view in come:
            self._put(view)
        hosts = [group.hosts() for group in sorted(self._groups.values(), key=lambda group: group.name)]
        self._rendered = (
            _table(names.CAPTURE_TABLE, self._capture, [host for host, _ in hosts]),
            _table(names.PROXY_TABLE, self._proxy, [host for _, host in hosts]),
        )
        return self._rendered

    def _put(self, view: ServiceView) -> None:
        shape = shape_of(view, self._config)
        self._group(shape).put(str(view.service), _domains(view, self._config.domains))
        if not view.is_user_owned:
            self._share(view.service, shape)

    def _take(self, view: ServiceView) -> None:
        self._leave(shape_of(view, self._config), str(view.service))
        if not view.is_user_owned:
            self._share(view.service, None)

    def _share(self, service: ServiceId, shape: Shape | None) -> None:
        """Move a short name to the group of those whose it is now; None: no longer this service's."""
        shapes = self._shapes_by_short_name.setdefault(service.name, {})
        if shapes:
            self._leave(tuple(sorted(shapes.items())), service.name)
        shapes.pop(service.namespace, None)
        if shape is not None:
            shapes[service.namespace] = shape
        if shapes:
            self._group(tuple(sorted(shapes.items()))).put(service.name, _domain(service.name))
        else:
            del self._shapes_by_short_name[service.name]

    def _group(self, key: Shape | _Owners) -> _Group:
        if (group := self._groups.get(key)) is None:
            group = self._groups[key] = _full_group(key) if isinstance(key, Shape) else _short_group(key)
        return group

    def _leave(self, key: Shape | _Owners, name: str) -> None:
        self._groups[key].take(name)
        if not self._groups[key].domains:
            del self._groups[key]


def pod_table(config: MeshConfig) -> Resource:
    """The table of dialled pods. It names none of them: each dial names its own cluster."""
    head, _ = _edges(names.POD_TABLE, config.domains, ())
    host = _host("pods", (pod_route(),)) + _domain("*")
    return _table(names.POD_TABLE, (head, b""), [wrap(_VIRTUAL_HOSTS, host)])


def _changes(old: tuple[ServiceView, ...], new: tuple[ServiceView, ...]) -> tuple[list[ServiceView], list[ServiceView]]:
    """What to take and what to put. The common ends are skipped, since one change leaves nearly all in its place."""
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    old_by_service = {view.service: view for view in old[head : len(old) - tail]}
    new_by_service = {view.service: view for view in new[head : len(new) - tail]}
    gone = [view for service, view in old_by_service.items() if new_by_service.get(service) != view]
    come = [view for service, view in new_by_service.items() if old_by_service.get(service) != view]
    return gone, come


def _common(old: Sequence[ServiceView], new: Sequence[ServiceView]) -> int:
    """How many views at the start are the same."""
    for count, (one, other) in enumerate(zip(old, new, strict=False)):
        if one is not other and one != other:
            return count
    return min(len(old), len(new))


def _full_group(shape: Shape) -> _Group:
    name = _text(shape)
    return _Group(
        name=name, capture=_host(name, capture_routes(shape)), proxy=_host(name, proxy_routes(shape)), domains=[]
    )


def _short_group(owners: _Owners) -> _Group:
    name = "short: " + "; ".join(f"{namespace} {_text(shape)}" for namespace, shape in owners)
    return _Group(
        name=name,
        capture=_host(name, short_capture_routes(owners)),
        proxy=_host(name, short_proxy_routes(owners)),
        domains=[],
    )


def _domains(view: ServiceView, domains: Domains) -> bytes:
    """The full names that a service answers to: of a user-owned one the mesh name alone."""
    answered = [mesh_name(view.service, domains)]
    if not view.is_user_owned:
        answered += kubernetes_names(view.service, domains)
    return b"".join([_domain(name) for name in dict.fromkeys(answered)])


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


_Edges = tuple[bytes, bytes]
"""An encoded table but for its virtual hosts, and the virtual host that comes after all others."""


def _edges(name: str, domains: Domains, unknown: Iterable[Route]) -> _Edges:
    head = route_pb2.RouteConfiguration(
        name=name,
        ignore_port_in_host_matching=True,
        request_headers_to_remove=[names.CALLER_HEADER, names.CLUSTER_HEADER],
        max_direct_response_body_size_bytes=wrappers_pb2.UInt32Value(value=BODY_LIMIT_BYTES),
        validate_clusters=wrappers_pb2.BoolValue(value=False),
        cluster_specifier_plugins=[_plugin(specifier, domains) for specifier in Specifier],
    )
    everything_else = route_components_pb2.VirtualHost(name="unknown", domains=["*"], routes=unknown)
    return encode(head), wrap(_VIRTUAL_HOSTS, encode(everything_else))


def _table(name: str, edges: _Edges, hosts: list[bytes]) -> Resource:
    head, tail = edges
    return resource_of(name, names.ROUTE, b"".join([head, *hosts, tail]))


def _plugin(specifier: Specifier, domains: Domains) -> route_components_pb2.ClusterSpecifierPlugin:
    source = base_pb2.DataSource(inline_string=specifier_source(specifier, domains))
    config = lua_pb2.LuaConfig(source_code=source, default_cluster=names.NONE)
    return route_components_pb2.ClusterSpecifierPlugin(extension=extension(specifier.value, config))
