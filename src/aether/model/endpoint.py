"""A row of the endpoint registry (spec section 8)."""

import enum

import msgspec

from aether.model.names import ServiceId
from aether.model.ports import DeclaredPort


class Health(enum.StrEnum):
    """What the endpoint's own agent says of it; the registry never judges."""

    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    DRAINING = "draining"


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One pod of one service, with every port it serves. A row without ports is refused on write.

    `address` is the pod's primary address, where its inbound listener is; `addresses` are all of them, primary first.
    """

    service: ServiceId
    pod: str
    node: str
    address: str
    addresses: tuple[str, ...]
    ports: tuple[DeclaredPort, ...]
    health: Health = Health.UNHEALTHY
    weight: int = 1
