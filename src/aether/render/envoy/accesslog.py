"""What the proxy itself could not serve, in one word (rulings C.8), and the access log (spec section 11).

A proxy-made 503 carries the word in `x-aether-error`; the access log carries it for raw TCP as well. An upstream's own
status carries none. The log is one JSON object a line; its keys are in docs/wire/envoy.md.
"""

import enum
from collections.abc import Iterable, Mapping

import msgspec
from envoy.config.accesslog.v3 import accesslog_pb2
from envoy.config.core.v3 import base_pb2, substitution_format_string_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.extensions.access_loggers.file.v3 import file_pb2
from envoy.extensions.access_loggers.filters.cel.v3 import cel_pb2
from envoy.type.matcher.v3 import string_pb2
from google.protobuf import struct_pb2

from aether.render.envoy import names
from aether.render.envoy.resource import pack

_IS_IDENTITY = (
    "(upstream.transport_failure_reason.contains('TLS_error')"
    " || upstream.transport_failure_reason.contains('supplied by SDS'))"
)
"""The handshake failed, or there was no certificate to begin it with."""
_IS_ENDED_AT_ONCE = "upstream.tls_version == 'TLSv1.3' && upstream.cx_pool_ready_duration > duration('300us')"
"""The peer ended a connection made for this request. In TLS 1.3 a caller may speak before its peer has seen the
certificate, so this is how a refused caller hears of it. A connection from the pool is ready in 10 to 20 us; a new one
takes two handshakes, 700 us and more."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """`flags` are Envoy's response flags of which one is set; `expression` is a further condition (CEL), or "".

    `text` is what people read; it may hold Envoy's command operators.
    """

    word: str
    text: str = ""
    flags: tuple[str, ...]
    expression: str = ""


HTTP_FAILURES = (
    Failure(word="no-endpoint", flags=("UDO", "DO"), text="nothing serves it now"),
    Failure(word="unhealthy", flags=("UH",), text="none of its endpoints is healthy"),
    Failure(
        word="upstream-identity",
        flags=("UF", "UC"),
        expression=_IS_IDENTITY,
        text="the two ends did not accept each other's certificate: %UPSTREAM_TRANSPORT_FAILURE_REASON%",
    ),
    Failure(
        word="upstream-identity",
        flags=("UC",),
        expression=_IS_ENDED_AT_ONCE,
        text="the peer ended the connection at once, as it does when it does not accept the caller's certificate",
    ),
    Failure(
        word="upstream-refused",
        flags=("UF", "UC", "UR", "LR"),
        text="the connection was refused or cut: %RESPONSE_CODE_DETAILS%",
    ),
    Failure(word="cold-timeout", flags=("NC",), text="the way there did not become known in time"),
)
"""In the order they are tried. UDO: an empty load assignment drops all load (`endpoints.empty_assignment`)."""

LAST_HOP_FAILURES = tuple(failure for failure in HTTP_FAILURES if failure.word != "upstream-identity")
"""An application shows no certificate."""

TCP_FAILURES = (
    Failure(word="no-endpoint", flags=("UH",)),
    Failure(word="upstream-identity", flags=("UF",), expression=_IS_IDENTITY),
    Failure(word="upstream-refused", flags=("UF",), expression=f"!{_IS_IDENTITY}"),
    Failure(word="cold-timeout", flags=("NC",)),
)
"""No two hold at once. The TCP proxy drops no load, so no endpoint and no healthy endpoint look alike."""


REFUSED = Failure(
    word="", flags=("UDO",), expression=f"'{names.REFUSAL_METADATA}' in xds.cluster_metadata.filter_metadata"
)
"""The cluster has no endpoints because HTTP is refused there; its metadata has the word."""


class Entry(enum.StrEnum):
    """Where the proxy met a request or connection."""

    CAPTURED = "captured"
    PROXY_PORT = "proxy-port"
    PASSED_THROUGH = "passed-through"
    INBOUND = "inbound"


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines go, and whose end of a connection they are about. `path` "" logs nothing."""

    path: str
    entry: Entry
    namespace: str
    service: str
    pod: str


def http_log(journal: Journal) -> list[accesslog_pb2.AccessLog]:
    """Requests that were answered with 400 or more, refused, or cut."""
    condition = accesslog_pb2.AccessLogFilter(
        or_filter=accesslog_pb2.OrFilter(
            filters=[
                has_status(accesslog_pb2.ComparisonFilter.GE, 400),
                has_flag(_CUT),
                _both(_IS_GRPC, holds(_IS_REFUSED)),
            ]
        )
    )
    fields = {
        "kind": "http",
        "authority": "%REQ(:authority)%",
        "method": "%REQ(:method)%",
        "code": "%RESPONSE_CODE%",
        "route": "%ROUTE_NAME%",
    }
    return _log(journal, fields, f"%RESP({names.ERROR_HEADER})%", condition)


def tcp_log(journal: Journal) -> list[accesslog_pb2.AccessLog]:
    """Connections that could not be carried."""
    return [log for failure in TCP_FAILURES for log in _log(journal, {"kind": "tcp"}, failure.word, failed(failure))]


_CUT = ("UC", "UR", "UT", "LR", "SI", "DPE")
"""Flags of a response that was begun and not finished, whatever its status."""
_IS_REFUSED = f"'{names.ERROR_HEADER}' in response.headers"
_IS_GRPC = accesslog_pb2.AccessLogFilter(
    header_filter=accesslog_pb2.HeaderFilter(
        header=route_components_pb2.HeaderMatcher(
            name="content-type", string_match=string_pb2.StringMatcher(prefix="application/grpc")
        )
    )
)
"""A refused gRPC call has HTTP status 200. No other request pays for the expression."""

_COMMON: Mapping[str, str] = {
    "time": "%START_TIME%",
    "dialled": "%DOWNSTREAM_LOCAL_ADDRESS%",
    "dialled_port": f"%FILTER_STATE({names.DIALLED_PORT_KEY}:PLAIN)%",
    "peer": "%DOWNSTREAM_PEER_URI_SAN%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "cluster": "%UPSTREAM_CLUSTER_RAW%",
    "upstream": "%UPSTREAM_HOST%",
    "transport_failure": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    "duration_ms": "%DURATION%",
}


def _log(
    journal: Journal, fields: Mapping[str, str], error: str, condition: accesslog_pb2.AccessLogFilter
) -> list[accesslog_pb2.AccessLog]:
    """A refusal is `error` once, at the source; the destination's line has its word under another key."""
    if not journal.path:
        return []
    end, key = ("destination", "inbound_error") if journal.entry is Entry.INBOUND else ("source", "error")
    layout = struct_pb2.Struct()
    layout.update({**_COMMON, **fields, "entry": journal.entry.value, key: error})
    layout.update({f"{end}_namespace": journal.namespace, f"{end}_service": journal.service, f"{end}_pod": journal.pod})
    line = substitution_format_string_pb2.SubstitutionFormatString(json_format=layout)
    sink = file_pb2.FileAccessLog(path=journal.path, log_format=line)
    return [accesslog_pb2.AccessLog(name="envoy.access_loggers.file", filter=condition, typed_config=pack(sink))]


def failed(failure: Failure) -> accesslog_pb2.AccessLogFilter:
    """The condition of one failure."""
    flagged = has_flag(failure.flags)
    return _both(flagged, holds(failure.expression)) if failure.expression else flagged


def _both(one: accesslog_pb2.AccessLogFilter, other: accesslog_pb2.AccessLogFilter) -> accesslog_pb2.AccessLogFilter:
    return accesslog_pb2.AccessLogFilter(and_filter=accesslog_pb2.AndFilter(filters=[one, other]))


def has_flag(flags: Iterable[str]) -> accesslog_pb2.AccessLogFilter:
    return accesslog_pb2.AccessLogFilter(response_flag_filter=accesslog_pb2.ResponseFlagFilter(flags=flags))


def has_status(comparison: int, code: int) -> accesslog_pb2.AccessLogFilter:
    """`comparison` is a `ComparisonFilter.Op`."""
    wanted = base_pb2.RuntimeUInt32(default_value=code, runtime_key=f"aether.status.{code}")
    return accesslog_pb2.AccessLogFilter(
        status_code_filter=accesslog_pb2.StatusCodeFilter(
            comparison=accesslog_pb2.ComparisonFilter(op=comparison, value=wanted)
        )
    )


def holds(expression: str) -> accesslog_pb2.AccessLogFilter:
    """A CEL expression over the attributes of the request and connection."""
    condition = accesslog_pb2.ExtensionFilter(
        name="envoy.access_loggers.extension_filters.cel",
        typed_config=pack(cel_pb2.ExpressionFilter(expression=expression)),
    )
    return accesslog_pb2.AccessLogFilter(extension_filter=condition)
