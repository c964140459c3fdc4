"""The addressing rule as an executable truth table (spec section 3, rulings B and C).

Owns: the answer to (entry path, authority, dialled address and port, caller). Everything that delivers is proved against
this module by the delivery property (tests/properties).
"""

import enum

import msgspec

from aether.model.names import ServiceId


class Reason(enum.StrEnum):
    """Why a request is refused: the value of `x-aether-error`."""

    PORT_MISMATCH = "port-mismatch"
    PORT_REQUIRED = "port-required"
    PORT_NOT_DECLARED = "port-not-declared"
    PORT_NOT_HTTP = "port-not-http"
    CALLER_NAMESPACE_UNKNOWN = "caller-namespace-unknown"


class EntryPath(enum.StrEnum):
    CAPTURED = "captured"
    PROXY_PORT = "proxy-port"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request as the source proxy meets it.

    `dialled_address` and `dialled_port` are the connection's destination before capture; on the listener 127.0.0.1:18081
    they are 127.0.0.1 and 18081. `caller_namespace` is None for a connection that carries none.
    """

    path: EntryPath
    authority: str
    dialled_address: str
    dialled_port: int
    caller_namespace: str | None


class RawConnection(msgspec.Struct, frozen=True, kw_only=True):
    """A captured connection that is not recognised as HTTP (or whose port is raw TCP, whatever its bytes)."""

    dialled_address: str
    dialled_port: int
    is_http: bool = False


class Deliver(msgspec.Struct, frozen=True, tag=True):
    """To the service's port over the mesh hop. `cluster` is the Envoy cluster's name, `target` the pods' port."""

    service: ServiceId
    port: int
    target: int
    cluster: str


class Refuse(msgspec.Struct, frozen=True, tag=True):
    """421, with `x-aether-error` and a body that lists the service's ports."""

    reason: Reason
    service: ServiceId


class PassThrough(msgspec.Struct, frozen=True, tag=True):
    """To the dialled address, as if there were no mesh."""


class NotFound(msgspec.Struct, frozen=True, tag=True):
    """404: on the proxy port, a name that is not the mesh's."""


Outcome = Deliver | Refuse | PassThrough | NotFound
