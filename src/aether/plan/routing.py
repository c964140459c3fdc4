"""Decide the service routing of one node: which Service addresses lead to which endpoints, and what is refused.

Owns: TCP and UDP of user and unmanaged Services, UDP of generated Services, the DNS address, the refusal of everything
else in the service ranges, and the guard in front of the pods of the mesh (spec section 6, rulings B.5).
Leaves to others: mesh TCP (capture), the rules' text (`render.nft`), applying it (`adapters.kernel`).

Rule: a generated Service has no TCP route, so nothing reaches a mesh application around its policy.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import NodeFacts, ServiceEndpoint, ServicePortRecord, ServiceRecord
from aether.model.names import ServiceId
from aether.model.ports import DNS_PORT, DeclaredPort, PortClass, Transport

_DNS_WELL_KNOWN = 53


class Backend(msgspec.Struct, frozen=True, order=True):
    """Where a connection or flow is sent."""

    address: str
    port: int


class ServiceRoute(msgspec.Struct, frozen=True, order=True):
    """One address, transport and port, spread evenly over its backends: at least one, sorted, of its family."""

    address: str
    transport: Transport
    port: int
    backends: tuple[Backend, ...]

    @property
    def key(self) -> tuple[str, Transport, int]:
        return (self.address, self.transport, self.port)


class UdpFlow(msgspec.Struct, frozen=True, order=True):
    """Flows of a Service address and port that are pinned to one backend."""

    address: str
    port: int
    backend: Backend


class RoutingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The service routing of one node.

    `refused` are the ranges in which whatever no route takes is refused at once. `local_pods` may be sent back to
    themselves. `guarded` are the mesh's pods: pods of this node reach them by the mesh hop or through a route only.
    `pinned` are the UDP flows that may go on, those to draining backends included.
    """

    routes: tuple[ServiceRoute, ...] = ()
    refused: tuple[str, ...] = ()
    local_pods: frozenset[str] = frozenset()
    guarded: frozenset[str] = frozenset()
    pinned: frozenset[UdpFlow] = frozenset()
    problems: tuple[Diagnostic, ...] = ()


class ReplaceRouting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The whole table, in one transaction; then the conntrack entries of `stale`."""

    plan: RoutingPlan
    stale: tuple[UdpFlow, ...] = ()


class EditRouting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Elements of the table, in one transaction; then the conntrack entries of `stale`.

    `changed` pairs a route as it was with what it becomes. `spreads` are the numbers of backends that routes have.
    """

    withdrawn: tuple[ServiceRoute, ...] = ()
    added: tuple[ServiceRoute, ...] = ()
    changed: tuple[tuple[ServiceRoute, ServiceRoute], ...] = ()
    spreads_added: tuple[int, ...] = ()
    spreads_removed: tuple[int, ...] = ()
    local_added: tuple[str, ...] = ()
    local_removed: tuple[str, ...] = ()
    guarded_added: tuple[str, ...] = ()
    guarded_removed: tuple[str, ...] = ()
    stale: tuple[UdpFlow, ...] = ()


RoutingChange = ReplaceRouting | EditRouting

_UNCHANGED = EditRouting()


def plan_routing(facts: NodeFacts) -> RoutingPlan:
    """The service routing of the node that `facts` are of."""
    routes: dict[tuple[str, Transport, int], ServiceRoute] = {route.key: route for route in _dns_routes(facts)}
    pinned: set[UdpFlow] = set()
    problems: list[Diagnostic] = []
    rows_by_service = _group_rows(facts.rows)
    for record in sorted(facts.services, key=lambda record: (record.service, record.is_generated)):
        for port in sorted(record.ports, key=lambda port: (port.number, port.transport)):
            ready, live = _backends(record, port, rows_by_service[record.service])
            for address in sorted(record.addresses):
                if (address, port.transport, port.number) in routes:
                    problems.append(_conflict(record, address, port))
                    continue
                pinned.update(_flows(address, port, live))
                if backends := _of_family(address, ready):
                    route = ServiceRoute(address, port.transport, port.number, backends)
                    routes[route.key] = route
    return RoutingPlan(
        routes=tuple(sorted(routes.values())),
        refused=tuple(sorted(facts.config.service_cidrs)),
        local_pods=frozenset(address for pod in facts.pods for address in pod.addresses),
        guarded=frozenset(address for row in facts.rows for address in (row.address, *row.addresses)),
        pinned=frozenset(pinned),
        problems=tuple(problems),
    )


def spreads(plan: RoutingPlan) -> tuple[int, ...]:
    """The numbers of backends that routes have: one shared chain of the kernel's for each."""
    return tuple(sorted({len(route.backends) for route in plan.routes}))


def diff_routing(old: RoutingPlan | None, new: RoutingPlan) -> RoutingChange | None:
    """What turns the table of `old` (None: no table) into `new`'s; None when nothing does."""
    if old is None:
        return ReplaceRouting(plan=new)
    stale = tuple(sorted(old.pinned - new.pinned))
    if old.refused != new.refused:
        return ReplaceRouting(plan=new, stale=stale)
    before = {route.key: route for route in old.routes}
    after = {route.key: route for route in new.routes}
    edit = EditRouting(
        withdrawn=tuple(route for key, route in before.items() if key not in after),
        added=tuple(route for key, route in after.items() if key not in before),
        changed=tuple((before[key], route) for key, route in after.items() if before.get(key, route) != route),
        spreads_added=_missing(spreads(new), spreads(old)),
        spreads_removed=_missing(spreads(old), spreads(new)),
        local_added=tuple(sorted(new.local_pods - old.local_pods)),
        local_removed=tuple(sorted(old.local_pods - new.local_pods)),
        guarded_added=tuple(sorted(new.guarded - old.guarded)),
        guarded_removed=tuple(sorted(old.guarded - new.guarded)),
        stale=stale,
    )
    return edit if edit != _UNCHANGED else None


def _dns_routes(facts: NodeFacts) -> Iterator[ServiceRoute]:
    node = [Backend(address, DNS_PORT) for address in facts.node_addresses]
    for address in facts.config.dns_addresses:
        if backends := _of_family(address, node):
            for transport in Transport:
                yield ServiceRoute(address, transport, _DNS_WELL_KNOWN, backends)


def _backends(
    record: ServiceRecord, port: ServicePortRecord, rows: Sequence[EndpointRow]
) -> tuple[list[Backend], list[Backend]]:
    """(who takes new connections and flows, whose flows go on)."""
    if record.is_generated:
        return _mesh_backends(port, rows) if port.transport is Transport.UDP else ([], [])
    return (
        _user_backends(port, (endpoint for endpoint in record.endpoints if endpoint.is_ready)),
        _user_backends(port, record.endpoints),
    )


def _mesh_backends(port: ServicePortRecord, rows: Sequence[EndpointRow]) -> tuple[list[Backend], list[Backend]]:
    """As kube-proxy has it: healthy endpoints; where there is none, the draining ones rather than nobody."""
    if not isinstance(port.target, int):
        return [], []
    by_health: dict[Health, list[Backend]] = defaultdict(list)
    for row in rows:
        if DeclaredPort(port.target, PortClass.UDP) in row.ports:
            by_health[row.health].extend(Backend(address, port.target) for address in row.addresses)
    healthy, draining = by_health[Health.HEALTHY], by_health[Health.DRAINING]
    return healthy or draining, healthy + draining


def _user_backends(port: ServicePortRecord, endpoints: Iterable[ServiceEndpoint]) -> list[Backend]:
    return [
        Backend(address, target)
        for endpoint in endpoints
        for number, transport, target in endpoint.ports
        if (number, transport) == (port.number, port.transport)
        for address in endpoint.addresses
    ]


def _group_rows(rows: Iterable[EndpointRow]) -> defaultdict[ServiceId, list[EndpointRow]]:
    grouped: defaultdict[ServiceId, list[EndpointRow]] = defaultdict(list)
    for row in rows:
        grouped[row.service].append(row)
    return grouped


def _of_family(address: str, backends: Iterable[Backend]) -> tuple[Backend, ...]:
    is_v6 = ":" in address
    return tuple(sorted({each for each in backends if (":" in each.address) == is_v6}))


def _flows(address: str, port: ServicePortRecord, live: Iterable[Backend]) -> Iterator[UdpFlow]:
    if port.transport is Transport.UDP:
        for backend in _of_family(address, live):
            yield UdpFlow(address, port.number, backend)


def _conflict(record: ServiceRecord, address: str, port: ServicePortRecord) -> Diagnostic:
    return Diagnostic(
        code="service-address-taken",
        message=f"{address} port {port.number}/{port.transport} is another Service's; it is not routed for this one",
        subject=f"Service {record.service}",
        item=address,
    )


def _missing(wanted: Iterable[int], present: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(wanted) - set(present)))
