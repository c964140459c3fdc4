"""What a client does, and what Envoy can look at when it decides.

Owns: connections, requests, headers and filter state as values.
"""

import enum
import ipaddress
from collections.abc import Iterable, Mapping

import msgspec


class Spoken(enum.StrEnum):
    """What a connection's first bytes are, whether or not anybody looks at them.

    The values of the HTTP ones are the application protocols that Envoy's http_inspector reports.
    """

    HTTP10 = "http/1.0"
    HTTP11 = "http/1.1"
    H2C = "h2c"
    TLS = "tls"
    OTHER = "other"
    SILENT = "silent"
    """Nothing: the client waits for the server to speak first."""

    @property
    def is_http(self) -> bool:
        return self in {Spoken.HTTP10, Spoken.HTTP11, Spoken.H2C}


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """A connection that a listener accepts.

    `netns` and `listener_port` say which listener: the path of the network namespace ("" is Envoy's own) and the bound
    port. `address` and `port` are the socket's local address: what the client dialled, since the listeners that take
    diverted connections are transparent. `server_name` and `alpn` are in the ClientHello of a TLS connection.
    """

    netns: str
    listener_port: int
    address: str
    port: int
    spoken: Spoken = Spoken.OTHER
    server_name: str = ""
    alpn: tuple[str, ...] = ()
    source: str = ""

    @property
    def destination(self) -> str:
        return format_address(self.address, self.port)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP request. `authority` is Host or `:authority`, "" when the client sent none."""

    authority: str
    method: str = "GET"
    path: str = "/"
    headers: tuple[tuple[str, str], ...] = ()


Headers = Mapping[str, tuple[str, ...]]
"""Lower-case names, pseudo headers included, each with its values in order."""


def headers_of(request: Request) -> Headers:
    """The header map that Envoy's codec makes of a request."""
    pairs = [(":method", request.method), *((name.lower(), value) for name, value in request.headers)]
    if request.method != "CONNECT":
        pairs.append((":path", request.path))
    if request.authority:
        pairs.append((":authority", request.authority))
    headers: dict[str, tuple[str, ...]] = {}
    for name, value in pairs:
        headers[name] = (*headers.get(name, ()), value)
    return headers


def header_values(headers: Headers, name: str) -> tuple[str, ...]:
    """The values of a header, none if it is absent. ``host`` means ``:authority``."""
    return headers.get(":authority" if name == "host" else name, ())


def header_value(headers: Headers, name: str) -> str | None:
    """The values of a header as one text, joined by commas; None if it is absent."""
    values = header_values(headers, name)
    return ",".join(values) if values else None


class StateObject(msgspec.Struct, frozen=True):
    """An object in filter state. `factory` made it from `text`; `is_shared`: upstream connections see it."""

    factory: str
    text: str
    is_shared: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the object serialises to the text it was made from."""
        return self.factory in {"envoy.string", "envoy.hashable_string"}

    @property
    def parts_pools(self) -> bool:
        """Whether connections with different values of it are never pooled together."""
        return self.factory == "envoy.hashable_string" and self.is_shared


State = Mapping[str, StateObject]

Metadata = Mapping[str, Mapping[str, str]]
"""The texts of a cluster's metadata, by the name of their filter, then by key."""

NETWORK_NAMESPACE_KEY = "envoy.network.network_namespace"
"""Filter state that a listener inside a network namespace sets on each connection."""


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a matcher or a format string can look at, at one moment.

    `server_name`, `application_protocols` and `transport_protocol` are what the listener's inspectors found: less than
    the connection carries when a listener has no inspectors. `reply_body` is that of a local reply on its way out,
    `metadata` that of the cluster that was chosen.
    """

    connection: Connection
    transport_protocol: str = "raw_buffer"
    application_protocols: tuple[str, ...] = ()
    server_name: str = ""
    state: State = msgspec.field(default_factory=dict)
    headers: Headers = msgspec.field(default_factory=dict)
    reply_body: str = ""
    metadata: Metadata = msgspec.field(default_factory=dict)

    def with_state(self, objects: Iterable[tuple[str, StateObject]]) -> "Scene":
        return msgspec.structs.replace(self, state={**self.state, **dict(objects)})

    def with_headers(self, headers: Headers) -> "Scene":
        return msgspec.structs.replace(self, headers=headers)

    def with_reply(self, body: str) -> "Scene":
        return msgspec.structs.replace(self, reply_body=body)

    def with_metadata(self, metadata: Metadata) -> "Scene":
        return msgspec.structs.replace(self, metadata=metadata)


def format_address(address: str, port: int) -> str:
    """As Envoy prints an address: ``10.96.0.5:9000``, ``[fd96::5]:9000``."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_within(address: str, ranges: Iterable[Network]) -> bool:
    """Whether an address lies in one of the ranges. A range of the other family never holds it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(ip in one for one in ranges)
