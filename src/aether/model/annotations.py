"""Pod annotations to a declaration: the only reader of annotation text (spec section 2, rulings A.1)."""

import msgspec

from aether.model.names import ServiceId
from aether.model.ports import Codec, DeclaredPort


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod declares.

    `codecs` pairs each http port with the codec of its last hop. `liveness` is the TCP port to probe, None without one.
    `upstreams` are declared dependencies. `uds_socket` is a path in the pod that takes the last hop of http ports, or "".
    """

    ports: tuple[DeclaredPort, ...]
    codecs: tuple[tuple[int, Codec], ...] = ()
    liveness: DeclaredPort | None = None
    upstreams: tuple[ServiceId, ...] = ()
    is_captured: bool = True
    excluded_ports: tuple[tuple[int, int], ...] = ()
    excluded_ranges: tuple[str, ...] = ()
    weight: int = 1
    uds_socket: str = ""
    is_managed: bool = True
