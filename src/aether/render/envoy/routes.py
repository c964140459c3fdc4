"""Routes: what a virtual host answers, as a function of its shape (architecture, decision 10).

Owns: the addressing rule spelled as route matches, in the order they are tried, and the Lua that names a cluster. A
*shape* is all that the answer depends on, so services of equal shape share one list of routes. Leaves to others: whose
names stand in which virtual host (`tables`).

Rule: every list ends in a route that matches everything, and no list delivers but by a port its shape has as http.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from envoy.config.core.v3 import base_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.type.matcher.v3 import filter_state_pb2, regex_pb2, string_pb2

from aether.model.facts import MeshConfig
from aether.model.names import Domains
from aether.model.ports import PROXY_PORT, RETIRED_PORT, PortClass
from aether.plan.mesh.addressing import (
    CALLER_UNKNOWN_TEXT,
    Reason,
    own_port_cluster,
    port_list,
)
from aether.plan.mesh.naming import http_cluster
from aether.plan.mesh.services import ServicePort, ServiceView
from aether.render.envoy import names
from aether.render.envoy.resource import seconds

Route: TypeAlias = route_components_pb2.Route
Condition: TypeAlias = filter_state_pb2.FilterStateMatcher | route_components_pb2.HeaderMatcher
Routes: TypeAlias = Iterator[Route]

DEFAULT_PORT = 80
"""What a Host without a port means on the proxy port; the scheme is never consulted (spec section 3)."""


class Specifier(enum.StrEnum):
    """The cluster specifiers of the tables: which family of names a delivery takes its cluster from."""

    MESH = "mesh"
    OWN = "own"


class Shape(msgspec.Struct, frozen=True, order=True):
    """What the answers for a service depend on, besides its names.

    `ports` are (number, class) of what a client of the Service sees. `own` are the numbers that a captured dial to a
    user-owned service is delivered on (rulings C.4), each with its specifier; None for a service that the mesh owns.
    """

    ports: tuple[tuple[int, PortClass], ...]
    own: tuple[tuple[int, Specifier], ...] | None = None


def shape_of(view: ServiceView, config: MeshConfig) -> Shape:
    ports = tuple(sorted((port.number, port.port_class) for port in view.ports))
    if not view.is_user_owned:
        return Shape(ports)
    own = (port.number for port in view.declared if port.port_class is PortClass.HTTP)
    return Shape(ports, tuple(sorted((number, _specifier(view, number, config)) for number in own)))


def capture_routes(shape: Shape) -> Routes:
    """For a name on the capture table."""
    if shape.own is None:
        yield from _captured(shape, ())
        yield from _proxied(shape, (_PROXIED,))
        yield _refuse(Reason.PORT_NOT_DECLARED, _listing(shape), ())
    else:
        yield from _captured_own(shape.own)
        yield from _proxied(shape, (_PROXIED,))
        yield pass_through()


def proxy_routes(shape: Shape) -> Routes:
    """For a name on the proxy port's table."""
    return _proxied(shape, ())


def short_capture_routes(shape_by_namespace: Iterable[tuple[str, Shape]]) -> Routes:
    """For a short name on the capture table: it means the caller's namespace's, and never another's."""
    for namespace, shape in shape_by_namespace:
        calls = _caller_is(namespace)
        yield from _captured(shape, (calls,))
        yield from _proxied(shape, (calls, _PROXIED))
        yield _refuse(Reason.PORT_NOT_DECLARED, _listing(shape), (calls,))
    yield _not_found((_CALLER_IS_KNOWN, _PROXIED))
    yield pass_through((_CALLER_IS_KNOWN,))
    yield _refuse(Reason.CALLER_NAMESPACE_UNKNOWN, CALLER_UNKNOWN_TEXT, ())


def short_proxy_routes(shape_by_namespace: Iterable[tuple[str, Shape]]) -> Routes:
    """For a short name on the proxy port's table."""
    for namespace, shape in shape_by_namespace:
        yield from _proxied(shape, (_caller_is(namespace),))
    yield _not_found((_CALLER_IS_KNOWN,))
    yield _refuse(Reason.CALLER_NAMESPACE_UNKNOWN, CALLER_UNKNOWN_TEXT, ())


def unknown_capture_routes(domains: Domains) -> Routes:
    """For every name that is not the mesh's, on the capture table."""
    yield _refuse(Reason.PORT_NOT_DECLARED, port_list(()), (_PROXIED, _names_the_proxy(domains)))
    yield _not_found((_PROXIED,))
    yield pass_through()


def unknown_proxy_routes(domains: Domains) -> Routes:
    """For every name that is not the mesh's, on the proxy port's table."""
    yield _refuse(Reason.PORT_NOT_DECLARED, port_list(()), (_names_the_proxy(domains),))
    yield _not_found(())


def pod_route() -> Route:
    """For every dial of a pod's address: the answer is the cluster of that name (rulings B.4)."""
    action = route_components_pb2.RouteAction(cluster_header=names.CLUSTER_HEADER, timeout=seconds(0))
    return _route("dialled-pod", (), route=action)


def pass_through(given: tuple[Condition, ...] = ()) -> Route:
    action = route_components_pb2.RouteAction(cluster=names.PASS_THROUGH, timeout=seconds(0))
    return _route("pass-through", given, route=action, response_headers_to_remove=[names.ERROR_HEADER])


def specifier_source(specifier: Specifier, domains: Domains) -> str:
    """The Lua that names the cluster of a delivery. The virtual host has already found the name to be a service's."""
    prefix = {Specifier.MESH: "", Specifier.OWN: "own|"}[specifier]
    return _LUA.format(
        prefix=prefix, domain=domains.mesh, proxy=PROXY_PORT, default=DEFAULT_PORT, caller=names.CALLER_HEADER
    )


_LUA = """\
function envoy_on_route(handle)
  local headers = handle:headers()
  local host, port = string.match(string.lower(headers:get(":authority")), "^([^:]*):?(.*)$")
  local caller, dialled = string.match(headers:get("{caller}"), "^(.*)/(.*)$")
  local service, namespace = string.match(host, "^([^.]*)%.([^.]*)")
  if service == nil then
    service, namespace = host, caller
  end
  if dialled ~= "{proxy}" then
    port = dialled
  elseif port == "" then
    port = "{default}"
  end
  return "{prefix}" .. service .. "." .. namespace .. ".{domain}:" .. port
end
"""


def _specifier(view: ServiceView, number: int, config: MeshConfig) -> Specifier:
    is_mesh = own_port_cluster(view, number, config) == http_cluster(view.service, number, config.domains)
    return Specifier.MESH if is_mesh else Specifier.OWN


def _captured(shape: Shape, given: tuple[Condition, ...]) -> Routes:
    """What a dialled port that the service declares answers."""
    for number, port_class in shape.ports:
        dialled = (*given, _dialled(number))
        if port_class is PortClass.HTTP:
            yield _deliver(Specifier.MESH, (*dialled, _host_port_is(number)))
            yield _deliver(Specifier.MESH, (*dialled, _HOST_HAS_NO_PORT))
            yield _refuse(Reason.PORT_MISMATCH, _listing(shape), dialled)
        elif port_class is PortClass.TCP:
            yield _refuse(Reason.PORT_NOT_HTTP, _listing(shape), dialled)


def _captured_own(own: Iterable[tuple[int, Specifier]]) -> Routes:
    for number, specifier in own:
        yield _deliver(specifier, (_dialled(number), _host_port_is(number)))
        yield _deliver(specifier, (_dialled(number), _HOST_HAS_NO_PORT))


def _proxied(shape: Shape, given: tuple[Condition, ...]) -> Routes:
    """The whole answer on the proxy port, where the port in Host is the port."""
    for number, is_http in sorted(_is_http_by_number(shape).items()):
        spelled = (*given, _host_port_is(number))
        yield _answer_declared(is_http=is_http, shape=shape, given=spelled)
    spelled = (*given, _HOST_HAS_NO_PORT)
    if DEFAULT_PORT in _is_http_by_number(shape):
        yield _answer_declared(is_http=_is_http_by_number(shape)[DEFAULT_PORT], shape=shape, given=spelled)
    else:
        yield _refuse(Reason.PORT_REQUIRED, _listing(shape), spelled)
    yield _refuse(Reason.PORT_NOT_DECLARED, _listing(shape), given)


def _answer_declared(*, is_http: bool, shape: Shape, given: tuple[Condition, ...]) -> Route:
    return _deliver(Specifier.MESH, given) if is_http else _refuse(Reason.PORT_NOT_HTTP, _listing(shape), given)


def _is_http_by_number(shape: Shape) -> Mapping[int, bool]:
    """A number can be http and UDP at once: then it is http here."""
    http = {number for number, port_class in shape.ports if port_class is PortClass.HTTP}
    return {number: number in http for number, _ in shape.ports}


def _listing(shape: Shape) -> str:
    return port_list(ServicePort(number, port_class, number) for number, port_class in shape.ports)


def _deliver(specifier: Specifier, given: tuple[Condition, ...]) -> Route:
    action = route_components_pb2.RouteAction(cluster_specifier_plugin=specifier.value, timeout=seconds(0))
    return _route("deliver", given, route=action)


def _refuse(reason: Reason, text: str, given: tuple[Condition, ...]) -> Route:
    """421 at once. The connection manager puts the name as spelled before `text`."""
    header = base_pb2.HeaderValue(key=names.ERROR_HEADER, value=reason.value)
    return _route(
        reason.value,
        given,
        direct_response=route_components_pb2.DirectResponseAction(
            status=421, body=base_pb2.DataSource(inline_string=f" {text}")
        ),
        response_headers_to_add=[
            base_pb2.HeaderValueOption(
                header=header, append_action=base_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
            )
        ],
    )


def _not_found(given: tuple[Condition, ...]) -> Route:
    text = base_pb2.DataSource(inline_string="this name is no service of the mesh")
    return _route("not-found", given, direct_response=route_components_pb2.DirectResponseAction(status=404, body=text))


def _route(name: str, given: Iterable[Condition], **answer: Any) -> Route:
    route = Route(name=name, match=route_components_pb2.RouteMatch(prefix="/"), **answer)
    for condition in given:
        if isinstance(condition, route_components_pb2.HeaderMatcher):
            route.match.headers.append(condition)
        else:
            route.match.filter_state.append(condition)
    return route


def _state(key: str, text: string_pb2.StringMatcher) -> Condition:
    return filter_state_pb2.FilterStateMatcher(key=key, string_match=text)


def _authority(text: string_pb2.StringMatcher, *, is_inverted: bool = False) -> Condition:
    return route_components_pb2.HeaderMatcher(name=":authority", string_match=text, invert_match=is_inverted)


def _dialled(number: int) -> Condition:
    return _state(names.DIALLED_PORT_KEY, string_pb2.StringMatcher(exact=str(number)))


def _caller_is(namespace: str) -> Condition:
    return _state(names.CALLER_NAMESPACE_KEY, string_pb2.StringMatcher(exact=namespace))


def _host_port_is(number: int) -> Condition:
    return _authority(string_pb2.StringMatcher(suffix=f":{number}"))


def _regex(pattern: str) -> string_pb2.StringMatcher:
    return string_pb2.StringMatcher(safe_regex=regex_pb2.RegexMatcher(regex=pattern))


def _names_the_proxy(domains: Domains) -> Condition:
    """A full name, whether or not there is such a service, with a port that is the proxy's own."""
    quote = str.maketrans({".": r"\."})
    suffixes = "|".join(text.translate(quote) for text in (domains.mesh, "svc", f"svc.{domains.cluster}"))
    return _authority(_regex(rf"(?i){_SERVICE_LABEL}\.{_LABEL}(\.({suffixes}))?:({PROXY_PORT}|{RETIRED_PORT})"))


_SERVICE_LABEL = "[a-z]([-a-z0-9]{0,61}[a-z0-9])?"  # RFC 1035, section 2.3.1
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"  # RFC 1123, section 2.1

_PROXIED = _dialled(PROXY_PORT)
_HOST_HAS_NO_PORT = _authority(string_pb2.StringMatcher(contains=":"), is_inverted=True)
_CALLER_IS_KNOWN = _state(names.CALLER_NAMESPACE_KEY, _regex(".+"))
