"""A row of the endpoint registry (spec section 8)."""

import enum

import msgspec

from aether.errors import Diagnostic
from aether.model.names import ServiceId
from aether.model.ports import PORT_LIMIT, DeclaredPort


class Health(enum.StrEnum):
    """What the endpoint's own agent says of it; the registry never judges."""

    UNHEALTHY = "unhealthy"
    HEALTHY = "healthy"
    DRAINING = "draining"


class EndpointRow(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
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


def row_problem(row: EndpointRow) -> Diagnostic | None:
    """Why a row is refused on write and skipped on read (spec section 2), or None for a good one.

    A reserved number does not spoil a row: that port alone is not served.
    """
    if not row.address:
        return _bad_row(row, "it has no address", "")
    if not row.ports:
        return _bad_row(row, "it names no port", "")
    seen = set()
    for port in row.ports:
        if not 1 <= port.number <= PORT_LIMIT:
            return _bad_row(row, f"port {port.number} is not from 1 to {PORT_LIMIT}", str(port))
        if (port.number, port.transport) in seen:
            return _bad_row(row, f"port {port.number} stands twice for {port.transport}", str(port))
        seen.add((port.number, port.transport))
    return None


def _bad_row(row: EndpointRow, why: str, item: str) -> Diagnostic:
    return Diagnostic(
        code="bad-row",
        message=f"the endpoint is not served: {why}",
        where=row.node,
        subject=f"Pod {row.service.namespace}/{row.pod}",
        field="ports",
        item=item,
    )
