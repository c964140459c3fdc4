"""Rows to the class of each port: the one derivation, order-free (spec section 2, rulings A.2)."""

from collections.abc import Iterable, Mapping

import msgspec

from aether.model.endpoint import EndpointRow
from aether.model.names import ServiceId
from aether.model.ports import RESERVED_PORTS, DeclaredPort, PortClass

Ports = tuple[DeclaredPort, ...]


class Dispute(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Pods of one service declare different classes for one number. `votes` are (class, endpoints), winner first."""

    service: ServiceId
    number: int
    votes: tuple[tuple[PortClass, int], ...]


class PortVote(msgspec.Struct, frozen=True, kw_only=True):
    """What a service's pods declare: `ports` without the reserved ones, which are in `reserved`."""

    ports: Ports = ()
    reserved: Ports = ()
    disputes: tuple[Dispute, ...] = ()


def vote_ports(service: ServiceId, rows: Iterable[EndpointRow]) -> PortVote:
    """Every row counts, whatever its health. Most endpoints win; ties go to http, then tcp."""
    counts = _count_ports(rows)
    ports: list[DeclaredPort] = []
    disputes: list[Dispute] = []
    for port in sorted(counts):
        rival = _rival(port, counts)
        if rival is None:
            ports.append(port)
        elif _beats(port, rival, counts):
            ports.append(port)
            votes = tuple((one.port_class, counts[one]) for one in (port, rival))
            disputes.append(Dispute(service=service, number=port.number, votes=votes))
    return PortVote(
        ports=tuple(port for port in ports if port.number not in RESERVED_PORTS),
        reserved=tuple(port for port in ports if port.number in RESERVED_PORTS),
        disputes=tuple(disputes),
    )


_RIVALS: Mapping[PortClass, PortClass] = {PortClass.HTTP: PortClass.TCP, PortClass.TCP: PortClass.HTTP}


def _rival(port: DeclaredPort, counts: Mapping[DeclaredPort, int]) -> DeclaredPort | None:
    """The other class that pods declare for the same number and transport."""
    if port.port_class not in _RIVALS:
        return None
    rival = DeclaredPort(port.number, _RIVALS[port.port_class])
    return rival if rival in counts else None


def _beats(one: DeclaredPort, other: DeclaredPort, counts: Mapping[DeclaredPort, int]) -> bool:
    if counts[one] != counts[other]:
        return counts[one] > counts[other]
    return one.port_class is PortClass.HTTP


def _count_ports(rows: Iterable[EndpointRow]) -> dict[DeclaredPort, int]:
    """Count by whole port lists first: the pods of a service nearly always agree, and comparing is cheap."""
    counts: dict[DeclaredPort, int] = {}
    current: Ports = ()
    run = 0
    for row in rows:
        if row.ports != current:
            _add(counts, current, run)
            current, run = row.ports, 0
        run += 1
    _add(counts, current, run)
    return counts


def _add(counts: dict[DeclaredPort, int], ports: Ports, run: int) -> None:
    for port in ports:
        counts[port] = counts.get(port, 0) + run
