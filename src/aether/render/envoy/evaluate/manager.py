"""The HTTP connection manager and its filters.

Owns: what happens to a request before its route is chosen (host normalisation, early mutations), which filters it meets
afterwards, and what local replies are given on the way out.
"""

import enum
import operator
import re
from collections.abc import Mapping

import msgspec
from envoy.config.route.v3 import route_components_pb2
from envoy.extensions.access_loggers.filters.cel.v3 import cel_pb2
from envoy.extensions.filters.http.health_check.v3 import health_check_pb2
from envoy.extensions.filters.http.on_demand.v3 import on_demand_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.http.early_header_mutation.header_mutation.v3 import header_mutation_pb2

from aether.render.envoy.evaluate.formatter import (
    Edits,
    Format,
    apply_edits,
    read_edits,
    read_format_source,
    read_mutations,
)
from aether.render.envoy.evaluate.predicates import HeaderTest, read_header
from aether.render.envoy.evaluate.request import Headers, Scene
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape, unpack
from aether.render.envoy.evaluate.verdict import Answer

_MANAGER = shape(
    "codec_type stat_prefix rds route_config http_filters early_header_mutation_extensions strip_trailing_host_dot "
    "local_reply_config upgrade_configs http_protocol_options",
    "add_user_agent common_http_protocol_options http2_protocol_options server_name "
    "server_header_transformation max_request_headers_kb stream_idle_timeout request_timeout request_headers_timeout "
    "drain_timeout delayed_close_timeout access_log access_log_options use_remote_address xff_num_trusted_hops "
    "skip_xff_append via generate_request_id preserve_external_request_id always_set_request_id_in_response "
    "forward_client_cert_details set_current_client_cert_details internal_address_config tracing "
    "stream_error_on_invalid_http_message append_local_overload",
)
_HTTP1 = shape("accept_http_10 default_host_for_http_10", "enable_trailers allow_absolute_url")
_RDS = shape("route_config_name", "config_source")
_UPGRADE = shape("upgrade_type enabled")
_EXTENSION = shape("typed_config", "name")
_EARLY = shape("mutations")
_FILTER = shape("name typed_config disabled", "is_optional")
_ROUTER = shape("", "dynamic_stats start_child_span suppress_envoy_headers suppress_grpc_request_failure_code_stats")
_ON_DEMAND = shape("odcds")
_HEALTH_CHECK = shape("pass_through_mode headers")
_FILTER_CONFIG = shape("config disabled", "is_optional")
_LOCAL_REPLY = shape("mappers")
_MAPPER = shape("filter status_code body body_format_override headers_to_add")
_ACCESS_FILTER = shape("status_code_filter response_flag_filter and_filter or_filter header_filter extension_filter")
_COMPARISON = shape("op value")
_EXPRESSION = cel_pb2.ExpressionFilter.DESCRIPTOR


class FilterKind(enum.StrEnum):
    ROUTER = "router"
    ON_DEMAND = "on demand"
    HEALTH_CHECK = "health check"


class HttpFilter(msgspec.Struct, frozen=True, kw_only=True):
    """One filter of the chain. `answers` are the conditions under which a health check filter answers by itself."""

    name: str
    kind: FilterKind
    is_enabled: bool
    asks_for_clusters: bool = False
    answers: tuple[HeaderTest, ...] = ()


class FilterOverride(msgspec.Struct, frozen=True):
    """What a route, virtual host or table says of one filter; None where it says nothing."""

    is_enabled: bool | None = None
    asks_for_clusters: bool | None = None


Overrides = Mapping[str, FilterOverride]


class ReplyTest(msgspec.Struct, frozen=True):
    """The condition of a local reply mapper, over status, response flag, headers and the cluster's metadata.

    Any other expression is refused when it is asked: it looks at what an upstream connection did.
    """

    kind: str
    parts: tuple["ReplyTest", ...] = ()
    flags: tuple[str, ...] = ()
    comparison: int = 0
    status: int = 0
    header: HeaderTest | None = None
    expression: str = ""

    def holds(self, answer: Answer, scene: Scene) -> bool:
        match self.kind:
            case "and_filter":
                return all(part.holds(answer, scene) for part in self.parts)
            case "or_filter":
                return any(part.holds(answer, scene) for part in self.parts)
            case "response_flag_filter":
                return answer.flag in self.flags if self.flags else bool(answer.flag)
            case "status_code_filter":
                return bool(_COMPARISONS[self.comparison](answer.status, self.status))
            case "header_filter":
                return self.header is not None and self.header.holds(scene)
            case _:
                return _has_metadata(self.expression, scene)


_METADATA_IS_THERE = re.compile(r"'([^']*)' in xds\.cluster_metadata\.filter_metadata")


def _has_metadata(expression: str, scene: Scene) -> bool:
    """The one CEL expression that is understood: whether the cluster has metadata of a name."""
    asked = _METADATA_IS_THERE.fullmatch(expression)
    if asked is None:
        raise Unsupported(f"local reply filter extension_filter {expression}".rstrip())
    return asked[1] in scene.metadata


_COMPARISONS = (operator.eq, operator.ge, operator.le, operator.ne)
"""By `ComparisonFilter.Op`."""


class Mapper(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of local replies. `status` 0, no `body` and no `layout` keep what there is; `layout` prints the body."""

    test: ReplyTest
    status: int
    body: str | None
    layout: Format | None
    edits: Edits

    def apply(self, answer: Answer, scene: Scene) -> Answer:
        headers = {name: (value,) for name, value in answer.headers}
        edited = apply_edits(self.edits, headers, scene)
        body = answer.body if self.body is None else self.body
        if self.layout is not None:
            body = self.layout.text(scene.with_reply(body))
        return Answer(
            status=self.status or answer.status,
            headers=tuple((name, ",".join(values)) for name, values in edited.items()),
            body=body,
            flag=answer.flag,
        )


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP connection manager. `table` names an RDS resource, or `inline_table` is the table itself.

    `default_host` is the host of an HTTP/1.0 request that names none, "" for none.
    """

    stat_prefix: str
    codec: str
    table: str
    inline_table: Proto | None
    accepts_http10: bool
    default_host: str
    strips_trailing_dot: bool
    early_edits: Edits
    filters: tuple[HttpFilter, ...]
    mappers: tuple[Mapper, ...]

    def prepare(self, scene: Scene) -> Scene:
        """The request as route selection sees it."""
        if self.strips_trailing_dot:
            scene = scene.with_headers(_strip_trailing_dot(scene.headers))
        return scene.with_headers(apply_edits(self.early_edits, scene.headers, scene))

    def reply(self, answer: Answer, scene: Scene) -> Answer:
        """A local reply as it leaves: the first mapper that fits edits it."""
        mapper = next((one for one in self.mappers if one.test.holds(answer, scene)), None)
        return answer if mapper is None else mapper.apply(answer, scene)


def _strip_trailing_dot(headers: Headers) -> Headers:
    """Remove the last dot if it ends the host, or if a colon follows it."""
    authority = headers.get(":authority", ("",))[0]
    head, dot, tail = authority.rpartition(".")
    if not dot or (tail and not tail.startswith(":")):
        return headers
    return {**headers, ":authority": (head + tail,)}


def read_manager(message: Proto) -> Manager:
    _MANAGER.check(message)
    for upgrade in message.upgrade_configs:
        _UPGRADE.check(upgrade)
        require(upgrade.upgrade_type.lower() != "connect", "CONNECT upgrades")
    _HTTP1.check(message.http_protocol_options)
    if message.HasField("rds"):
        _RDS.check(message.rds)
    codecs = http_connection_manager_pb2.HttpConnectionManager.CodecType
    return Manager(
        stat_prefix=message.stat_prefix,
        codec=codecs.Name(message.codec_type),
        table=message.rds.route_config_name if message.HasField("rds") else "",
        inline_table=message.route_config if message.HasField("route_config") else None,
        accepts_http10=message.http_protocol_options.accept_http_10,
        default_host=message.http_protocol_options.default_host_for_http_10,
        strips_trailing_dot=message.strip_trailing_host_dot,
        early_edits=tuple(edit for one in message.early_header_mutation_extensions for edit in _read_early(one)),
        filters=tuple(_read_filter(one) for one in message.http_filters),
        mappers=_read_mappers(message.local_reply_config) if message.HasField("local_reply_config") else (),
    )


def _read_early(message: Proto) -> Edits:
    _EXTENSION.check(message)
    config = unpack(message.typed_config, [header_mutation_pb2.HeaderMutation], where="early header mutations")
    _EARLY.check(config)
    return read_mutations(config.mutations)


_FILTER_CLASSES = (router_pb2.Router, on_demand_pb2.OnDemand, health_check_pb2.HealthCheck)


def _read_filter(message: Proto) -> HttpFilter:
    _FILTER.check(message)
    config = unpack(message.typed_config, _FILTER_CLASSES, where=f"the HTTP filter {message.name}")
    is_enabled = not message.disabled
    if isinstance(config, router_pb2.Router):
        _ROUTER.check(config)
        return HttpFilter(name=message.name, kind=FilterKind.ROUTER, is_enabled=is_enabled)
    if isinstance(config, on_demand_pb2.OnDemand):
        _ON_DEMAND.check(config)
        asks = config.HasField("odcds")
        return HttpFilter(name=message.name, kind=FilterKind.ON_DEMAND, is_enabled=is_enabled, asks_for_clusters=asks)
    _HEALTH_CHECK.check(config)
    require(not config.pass_through_mode.value, "a health check filter that passes through")
    answers = tuple(read_header(one) for one in config.headers)
    return HttpFilter(name=message.name, kind=FilterKind.HEALTH_CHECK, is_enabled=is_enabled, answers=answers)


def read_overrides(configs: Mapping[str, Proto]) -> Overrides:
    """A `typed_per_filter_config`."""
    return {name: _read_override(name, config) for name, config in sorted(configs.items())}


def _read_override(name: str, packed: Proto) -> FilterOverride:
    classes = [route_components_pb2.FilterConfig, on_demand_pb2.PerRouteConfig]
    config = unpack(packed, classes, where=f"the per-route configuration of {name}")
    if isinstance(config, on_demand_pb2.PerRouteConfig):
        _ON_DEMAND.check(config)
        return FilterOverride(asks_for_clusters=config.HasField("odcds"))
    _FILTER_CONFIG.check(config)
    inner = _read_override(name, config.config) if config.HasField("config") else FilterOverride()
    return FilterOverride(is_enabled=not config.disabled, asks_for_clusters=inner.asks_for_clusters)


def _read_mappers(message: Proto) -> tuple[Mapper, ...]:
    _LOCAL_REPLY.check(message)
    return tuple(_read_mapper(one) for one in message.mappers)


def _read_mapper(message: Proto) -> Mapper:
    _MAPPER.check(message)
    body: str | None = message.body.inline_string if message.HasField("body") else None
    return Mapper(
        test=_read_reply_test(message.filter),
        status=message.status_code.value,
        body=body,
        layout=read_format_source(message.body_format_override) if message.HasField("body_format_override") else None,
        edits=read_edits(message.headers_to_add),
    )


def _read_expression(packed: Proto) -> str:
    """The CEL expression of an access log filter; "" for any other extension."""
    return cel_pb2.ExpressionFilter.FromString(packed.value).expression if packed.Is(_EXPRESSION) else ""


def _read_reply_test(message: Proto) -> ReplyTest:
    _ACCESS_FILTER.check(message)
    kind = message.WhichOneof("filter_specifier")
    match kind:
        case "and_filter" | "or_filter":
            return ReplyTest(kind, parts=tuple(_read_reply_test(one) for one in getattr(message, kind).filters))
        case "response_flag_filter":
            return ReplyTest(kind, flags=tuple(message.response_flag_filter.flags))
        case "status_code_filter":
            comparison = message.status_code_filter.comparison
            _COMPARISON.check(comparison)
            return ReplyTest(kind, comparison=comparison.op, status=comparison.value.default_value)
        case "header_filter":
            return ReplyTest(kind, header=read_header(message.header_filter.header))
        case "extension_filter":
            return ReplyTest(kind, expression=_read_expression(message.extension_filter.typed_config))
        case _:
            return ReplyTest(kind or "none")
