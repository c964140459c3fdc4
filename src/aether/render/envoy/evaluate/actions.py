"""What a route does with a request: forward it, answer it, or send the client elsewhere.

Owns: the actions of a route and the cluster specifier plugin. A specifier's program is not run here: the caller gives,
for each plugin name, a function that keeps the program's contract.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from envoy.extensions.router.cluster_specifiers.lua.v3 import lua_pb2

from aether.render.envoy.evaluate.formatter import Format, read_format_source
from aether.render.envoy.evaluate.request import Headers, Scene, header_value
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape, unpack

_ROUTE = shape(
    "cluster cluster_header weighted_clusters cluster_specifier_plugin inline_cluster_specifier_plugin "
    "host_rewrite_literal",
    "cluster_not_found_response_code timeout idle_timeout flush_timeout retry_policy priority hash_policy "
    "upgrade_configs max_stream_duration max_grpc_timeout grpc_timeout_offset early_data_policy",
)
_WEIGHTED = shape("clusters", "total_weight")
_WEIGHT = shape("name weight")
_PLUGIN = shape("extension", "is_optional")
_EXTENSION = shape("name typed_config")
_LUA = shape("source_code default_cluster")
_SOURCE = shape("inline_string")
_DIRECT = shape("status body body_format")
_REDIRECT = shape("host_redirect path_redirect response_code scheme_redirect https_redirect port_redirect")

Specify = Callable[[str, Headers], str]
"""A cluster specifier's contract: the program's source and the request's headers to a cluster, "" for none."""


class Specifier(msgspec.Struct, frozen=True, kw_only=True):
    """A Lua cluster specifier. `fallback` is the cluster when the program fails or says nothing."""

    name: str
    source: str
    fallback: str


Specifiers = Mapping[str, Specifier]


class ToClusters(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """To one of some clusters, by (weight, name)."""

    clusters: tuple[tuple[int, str], ...]
    host: str = ""


class ToNamedByHeader(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    header: str
    host: str = ""


class ToSpecified(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    specifier: Specifier
    host: str = ""


class Direct(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An answer by the proxy."""

    status: int
    body: str | Format

    def text(self, scene: Scene) -> str:
        return self.body.text(scene) if isinstance(self.body, Format) else self.body


class Redirect(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A redirection. "" and 0 keep what the request has."""

    status: int
    scheme: str
    host: str
    port: int
    path: str

    def location(self, scene: Scene) -> str:
        authority = header_value(scene.headers, ":authority") or ""
        path = header_value(scene.headers, ":path") or "/"
        host = self.host or (authority.rpartition(":")[0] or authority if self.port else authority)
        port = f":{self.port}" if self.port else ""
        return f"{self.scheme or 'http'}://{host}{port}{self.path or path}"


RouteAction = ToClusters | ToNamedByHeader | ToSpecified | Direct | Redirect
ForwardAction = ToClusters | ToNamedByHeader | ToSpecified


def choose_clusters(
    action: ForwardAction, scene: Scene, contracts: Mapping[str, Specify]
) -> tuple[tuple[tuple[int, str], ...], str]:
    """The clusters that an action may send to, with weights, and why."""
    match action:
        case ToClusters(clusters=clusters):
            return clusters, "the route names it" if len(clusters) == 1 else "the route names it, by weight"
        case ToNamedByHeader(header=header):
            return ((1, header_value(scene.headers, header) or ""),), f"header {header} names it"
        case ToSpecified(specifier=specifier):
            contract = contracts.get(specifier.name)
            if contract is None:
                raise Unsupported(f"the cluster specifier {specifier.name}")
            named = contract(specifier.source, scene.headers)
            return ((1, named or specifier.fallback),), f"cluster specifier {specifier.name} names it"


def read_specifiers(messages: Iterable[Proto]) -> Specifiers:
    return {message.extension.name: _read_specifier(message) for message in messages}


def _read_specifier(message: Proto) -> Specifier:
    _PLUGIN.check(message)
    _EXTENSION.check(message.extension)
    config = unpack(message.extension.typed_config, [lua_pb2.LuaConfig], where="a cluster specifier")
    _LUA.check(config)
    _SOURCE.check(config.source_code)
    return Specifier(
        name=message.extension.name, source=config.source_code.inline_string, fallback=config.default_cluster
    )


def read_action(route: Proto, specifiers: Specifiers) -> RouteAction:
    """The action of a `Route`."""
    match route.WhichOneof("action"):
        case "route":
            return _read_forward(route.route, specifiers)
        case "direct_response":
            return _read_direct(route.direct_response)
        case "redirect":
            return _read_redirect(route.redirect)
        case other:
            raise Unsupported(f"route action {other}")


def _read_forward(message: Proto, specifiers: Specifiers) -> ForwardAction:
    _ROUTE.check(message)
    host = message.host_rewrite_literal
    match message.WhichOneof("cluster_specifier"):
        case "cluster":
            return ToClusters(clusters=((1, message.cluster),), host=host)
        case "cluster_header":
            return ToNamedByHeader(header=message.cluster_header.lower(), host=host)
        case "weighted_clusters":
            return ToClusters(clusters=_read_weights(message.weighted_clusters), host=host)
        case "cluster_specifier_plugin":
            require(message.cluster_specifier_plugin in specifiers, "a cluster specifier that the table does not have")
            return ToSpecified(specifier=specifiers[message.cluster_specifier_plugin], host=host)
        case "inline_cluster_specifier_plugin":
            return ToSpecified(specifier=_read_specifier(message.inline_cluster_specifier_plugin), host=host)
        case other:
            raise Unsupported(f"cluster specifier {other}")


def _read_weights(message: Proto) -> tuple[tuple[int, str], ...]:
    _WEIGHTED.check(message)
    for one in message.clusters:
        _WEIGHT.check(one)
    return tuple((one.weight.value, one.name) for one in message.clusters)


def _read_direct(message: Proto) -> Direct:
    _DIRECT.check(message)
    if message.HasField("body_format"):
        return Direct(status=message.status, body=read_format_source(message.body_format))
    _SOURCE.check(message.body)
    return Direct(status=message.status, body=message.body.inline_string)


_REDIRECT_STATUSES = (301, 302, 303, 307, 308)
"""By `RedirectResponseCode`."""


def _read_redirect(message: Proto) -> Redirect:
    _REDIRECT.check(message)
    return Redirect(
        status=_REDIRECT_STATUSES[message.response_code],
        scheme="https" if message.https_redirect else message.scheme_redirect,
        host=message.host_redirect,
        port=message.port_redirect,
        path=message.path_redirect,
    )
