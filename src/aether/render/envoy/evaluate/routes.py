"""Route tables: which virtual host a request is of, and which of its routes takes it.

Owns: host selection and route matching as Envoy does them. Leaves to others: what a route's action does (`actions`).
"""

import enum
from collections.abc import Iterable, Mapping

import msgspec
from envoy.config.route.v3 import route_components_pb2

from aether.render.envoy.evaluate.actions import (
    Direct,
    ForwardAction,
    Redirect,
    RouteAction,
    Specifiers,
    read_action,
    read_specifiers,
)
from aether.render.envoy.evaluate.formatter import Edits, apply_edits, read_edits
from aether.render.envoy.evaluate.manager import FilterKind, HttpFilter, Overrides, read_overrides
from aether.render.envoy.evaluate.matcher import Tree, TreeReader
from aether.render.envoy.evaluate.predicates import Predicate, StringTest, read_header, read_regex, read_state
from aether.render.envoy.evaluate.request import Headers, Scene
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape, unpack
from aether.render.envoy.evaluate.verdict import Answer, Pairs

_TABLE = shape(
    "name virtual_hosts cluster_specifier_plugins ignore_port_in_host_matching request_headers_to_add "
    "request_headers_to_remove response_headers_to_add response_headers_to_remove typed_per_filter_config",
    "validate_clusters max_direct_response_body_size_bytes metadata internal_only_headers",
)
_HOST = shape(
    "name domains routes matcher request_headers_to_add request_headers_to_remove response_headers_to_add "
    "response_headers_to_remove typed_per_filter_config require_tls",
    "virtual_clusters retry_policy include_request_attempt_count include_attempt_count_in_response metadata "
    "per_request_buffer_limit_bytes request_body_buffer_limit",
)
_ROUTE = shape(
    "name match route redirect direct_response request_headers_to_add request_headers_to_remove "
    "response_headers_to_add response_headers_to_remove typed_per_filter_config",
    "metadata decorator tracing stat_prefix per_request_buffer_limit_bytes request_body_buffer_limit",
)
_MATCH = shape("prefix path safe_regex path_separated_prefix case_sensitive headers filter_state")
_ROUTE_LIST = shape("routes")


class PathKind(enum.StrEnum):
    PREFIX = "starts with"
    EXACT = "is"
    SEGMENTS = "is or is below"
    REGEX = "matches"


class PathTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test of the path. A prefix sees the query as well, the others do not."""

    kind: PathKind
    wanted: str
    is_case_sensitive: bool
    regex: StringTest | None = None

    def holds(self, path: str) -> bool:
        bare = path.partition("?")[0].partition("#")[0]
        if self.regex is not None:
            return self.regex.holds(bare)
        wanted = self.wanted
        if not self.is_case_sensitive:
            wanted, path, bare = wanted.lower(), path.lower(), bare.lower()
        match self.kind:
            case PathKind.PREFIX:
                return path.startswith(wanted)
            case PathKind.SEGMENTS:
                return bare == wanted or bare.startswith(f"{wanted}/")
            case _:
                return bare == wanted

    def __str__(self) -> str:
        return f"the path {self.kind} {self.wanted!r}"


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """What a table, a virtual host or a route does to every request that it takes."""

    request_edits: Edits
    response_edits: Edits
    overrides: Overrides


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route. An unnamed one is called by its place, ``#3``."""

    name: str
    path: PathTest
    conditions: tuple[Predicate, ...]
    action: RouteAction
    hooks: Hooks

    def takes(self, scene: Scene) -> bool:
        """Whether the request is the route's. A request without a path (CONNECT) is no route's."""
        path = scene.headers.get(":path")
        if path is None or not self.path.holds(path[0]):
            return False
        return all(condition.holds(scene) for condition in self.conditions)

    @property
    def because(self) -> str:
        return " and ".join(str(condition) for condition in (self.path, *self.conditions))


class VirtualHost(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual host with its routes in order, or with a tree that leads to routes."""

    name: str
    routes: tuple[Route, ...]
    tree: Tree[tuple[Route, ...]] | None
    hooks: Hooks

    def choose(self, scene: Scene) -> tuple[Route | None, str]:
        routes, before = self.routes, ""
        if self.tree is not None:
            found = self.tree.decide(scene)
            if found is None:
                return None, "the virtual host's tree decides nothing"
            routes, before = found.action, f"{found.because}; "
        for route in routes:
            if route.takes(scene):
                return route, before + route.because
        return None, f"{before}none of {len(routes)} routes takes the request"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A route table. Wildcards are kept without their ``*``, the longest first."""

    name: str
    exact: Mapping[str, VirtualHost]
    suffixes: Mapping[int, Mapping[str, VirtualHost]]
    prefixes: Mapping[int, Mapping[str, VirtualHost]]
    default: VirtualHost | None
    ignores_port: bool
    hooks: Hooks

    def choose(self, authority: str) -> tuple[VirtualHost | None, str]:
        """The virtual host of an authority, and why."""
        host = authority.lower()
        if self.ignores_port:
            host = host[: _port_start(host)]
        if host in self.exact:
            return self.exact[host], f"{host} is one of its domains"
        for length, hosts in self.suffixes.items():
            if length < len(host) and host[-length:] in hosts:
                return hosts[host[-length:]], f"{host} ends in its domain *{host[-length:]}"
        for length, hosts in self.prefixes.items():
            if length < len(host) and host[:length] in hosts:
                return hosts[host[:length]], f"{host} begins with its domain {host[:length]}*"
        return self.default, f"no other virtual host has {host or 'a request without a host'}"


def _port_start(host: str) -> int:
    """Where the port with its colon begins: at the last colon, unless that is inside an IPv6 literal."""
    colon = host.rfind(":")
    return colon if colon >= 0 and host.rfind("]") < colon else len(host)


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A route with what it stands in."""

    route: Route
    host: VirtualHost
    table: Table

    @property
    def levels(self) -> tuple[Hooks, ...]:
        """The most specific first, the order in which Envoy applies header changes unless it is told otherwise."""
        return (self.route.hooks, self.host.hooks, self.table.hooks)

    def settings_of(self, one: HttpFilter) -> tuple[bool, bool]:
        """Whether a filter runs here, and whether it asks for absent clusters: as the most specific level says."""
        found = [level.overrides[one.name] for level in self.levels if one.name in level.overrides]
        is_enabled = next((each.is_enabled for each in found if each.is_enabled is not None), None)
        asks = next((each.asks_for_clusters for each in found if each.asks_for_clusters is not None), None)
        runs = one.is_enabled if is_enabled is None else is_enabled
        wants = one.asks_for_clusters if asks is None else asks
        return runs, runs and one.kind is FilterKind.ON_DEMAND and wants

    def answer(self, action: Direct | Redirect, scene: Scene) -> Answer:
        """The answer that the route gives, with the response headers that its levels add."""
        headers: Headers = {}
        if isinstance(action, Redirect):
            headers = {"location": (action.location(scene),)}
        for level in self.levels:
            headers = apply_edits(level.response_edits, headers, scene)
        body = action.text(scene) if isinstance(action, Direct) else ""
        return Answer(status=action.status, headers=_pairs(headers), body=body)

    def sent_headers(self, action: ForwardAction, scene: Scene) -> Pairs:
        """The request's headers as the upstream gets them."""
        headers = scene.headers
        for level in self.levels:
            headers = apply_edits(level.request_edits, headers, scene.with_headers(headers))
        if action.host:
            headers = {**headers, ":authority": (action.host,)}
        return _pairs(headers)


def _pairs(headers: Headers) -> Pairs:
    return tuple((name, value) for name, values in headers.items() for value in values)


def read_table(message: Proto) -> Table:
    _TABLE.check(message)
    reader = _TableReader(read_specifiers(message.cluster_specifier_plugins))
    domains: dict[str, VirtualHost] = {}
    for one in message.virtual_hosts:
        host = reader.read_host(one)
        for domain in one.domains:
            if domains.setdefault(domain.lower(), host) is not host:
                raise Unsupported(f"the domain {domain} twice in the table {message.name}")
    return Table(
        name=message.name,
        exact={domain: host for domain, host in domains.items() if "*" not in domain},
        suffixes=_by_length((domain[1:], host) for domain, host in domains.items() if domain[:1] == "*" != domain),
        prefixes=_by_length((domain[:-1], host) for domain, host in domains.items() if domain[-1:] == "*" != domain),
        default=domains.get("*"),
        ignores_port=message.ignore_port_in_host_matching,
        hooks=_read_hooks(message),
    )


def _by_length(hosts: Iterable[tuple[str, VirtualHost]]) -> Mapping[int, Mapping[str, VirtualHost]]:
    by_length: dict[int, dict[str, VirtualHost]] = {}
    for wildcard, host in hosts:
        by_length.setdefault(len(wildcard), {})[wildcard] = host
    return dict(sorted(by_length.items(), reverse=True))


class _TableReader:
    """Reads virtual hosts and routes of one table, whose actions may name its cluster specifiers."""

    def __init__(self, specifiers: Specifiers) -> None:
        self._specifiers = specifiers

    def read_host(self, message: Proto) -> VirtualHost:
        _HOST.check(message)
        require(message.require_tls == message.NONE, "a virtual host that requires TLS")
        has_tree = message.HasField("matcher")
        return VirtualHost(
            name=message.name,
            routes=self._read_routes(message.routes),
            tree=TreeReader(self._read_tree_action).read(message.matcher) if has_tree else None,
            hooks=_read_hooks(message),
        )

    def _read_tree_action(self, packed: Proto) -> tuple[Route, ...]:
        classes = [route_components_pb2.Route, route_components_pb2.RouteList]
        config = unpack(packed, classes, where="a virtual host's tree")
        if isinstance(config, route_components_pb2.Route):
            return self._read_routes([config])
        _ROUTE_LIST.check(config)
        return self._read_routes(config.routes)

    def _read_routes(self, messages: Iterable[Proto]) -> tuple[Route, ...]:
        return tuple(self._read_route(message, f"#{index}") for index, message in enumerate(messages))

    def _read_route(self, message: Proto, place: str) -> Route:
        _ROUTE.check(message)
        _MATCH.check(message.match)
        return Route(
            name=message.name or place,
            path=_read_path(message.match),
            conditions=(
                *(read_state(one) for one in message.match.filter_state),
                *(read_header(one) for one in message.match.headers),
            ),
            action=read_action(message, self._specifiers),
            hooks=_read_hooks(message),
        )


_PATHS: Mapping[str, PathKind] = {
    "prefix": PathKind.PREFIX,
    "path": PathKind.EXACT,
    "path_separated_prefix": PathKind.SEGMENTS,
    "safe_regex": PathKind.REGEX,
}


def _read_path(message: Proto) -> PathTest:
    kind = message.WhichOneof("path_specifier")
    if kind not in _PATHS:
        raise Unsupported(f"route match by {kind}")
    wanted = getattr(message, kind)
    is_regex = kind == "safe_regex"
    return PathTest(
        kind=_PATHS[kind],
        wanted=wanted.regex if is_regex else wanted,
        is_case_sensitive=message.case_sensitive.value if message.HasField("case_sensitive") else True,
        regex=read_regex(wanted) if is_regex else None,
    )


def _read_hooks(message: Proto) -> Hooks:
    return Hooks(
        request_edits=read_edits(message.request_headers_to_add, message.request_headers_to_remove),
        response_edits=read_edits(message.response_headers_to_add, message.response_headers_to_remove),
        overrides=read_overrides(message.typed_per_filter_config),
    )
