"""The service view: one service as everybody sees it (spec sections 1 to 3, rulings A.2, B.1, C.4).

Owns: which services the mesh has, who owns their names, their ports and addresses, and what of the facts is not served.
Leaves to others: who may reach them and how (`addressing`), clusters (`clusters`).

Rule: a service that the registry or a generated Service names is in the result; what is not served is in the problems.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow, row_problem
from aether.model.facts import NodeFacts, ServicePortRecord, ServiceRecord
from aether.model.names import ServiceId
from aether.model.ports import RESERVED_PORTS, DeclaredPort, PortClass, Transport
from aether.plan.mesh.ports import Dispute, PortVote, vote_ports


class ServicePort(msgspec.Struct, frozen=True, order=True):
    """A port a client can dial: `number` is the Service's, `target` the pods' (equal unless a user Service maps it)."""

    number: int
    port_class: PortClass
    target: int


class ServiceView(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One service. Every table, cluster, set and status is built from this value.

    `declared` are the pods' own ports by class vote; `ports` what a client of the Service sees: the same for a
    generated Service, the port map's image for a user-owned one. `addresses` are Service addresses (empty: headless or
    none yet). `pod_addresses` are those of its registered pods, sorted.
    """

    service: ServiceId
    ports: tuple[ServicePort, ...]
    declared: tuple[ServicePort, ...]
    addresses: tuple[str, ...] = ()
    pod_addresses: tuple[str, ...] = ()
    is_user_owned: bool = False
    is_headless: bool = False


class MeshIndex(msgspec.Struct, frozen=True, kw_only=True):
    """The facts by service, without what the mesh does not serve: ignored namespaces, rows that do not hold.

    `owned` are user Services that own a mesh service's name, `generated` those the mesh made; `others` are the user's
    own Services that are none of the mesh's.
    """

    rows: Mapping[ServiceId, Sequence[EndpointRow]]
    generated: Mapping[ServiceId, ServiceRecord]
    owned: Mapping[ServiceId, ServiceRecord]
    others: tuple[ServiceRecord, ...]
    problems: tuple[Diagnostic, ...]


class PlannedServices(msgspec.Struct, frozen=True, kw_only=True):
    views: tuple[ServiceView, ...]
    problems: tuple[Diagnostic, ...]


def plan_services(facts: NodeFacts) -> tuple[ServiceView, ...]:
    """Every mesh service, sorted, whatever the order of the facts."""
    return plan_index(index_facts(facts)).views


def index_facts(facts: NodeFacts) -> MeshIndex:
    """Group the facts by service, once for all that reads them."""
    ignored = frozenset(facts.config.ignored_namespaces)
    rows: dict[ServiceId, list[EndpointRow]] = {}
    problems: list[Diagnostic] = []
    good_ports: tuple[DeclaredPort, ...] = ()
    for row in facts.rows:
        if row.service.namespace in ignored:
            continue
        if (row.ports != good_ports or not row.address) and (problem := row_problem(row)) is not None:
            problems.append(problem)
            continue
        good_ports = row.ports
        rows.setdefault(row.service, []).append(row)
    users = {record.service: record for record in facts.services if not record.is_generated}
    mesh_users = {service: record for service, record in users.items() if service in rows}
    return MeshIndex(
        rows=rows,
        generated={
            record.service: record
            for record in facts.services
            if record.is_generated and record.service not in users and record.service.namespace not in ignored
        },
        owned=mesh_users,
        others=tuple(sorted(record for service, record in users.items() if service not in mesh_users)),
        problems=tuple(sorted(problems)),
    )


def plan_index(index: MeshIndex) -> PlannedServices:
    views: list[ServiceView] = []
    problems = list(index.problems)
    for service in sorted(index.rows.keys() | index.generated.keys()):
        rows = index.rows.get(service, ())
        vote = vote_ports(service, rows)
        problems += _vote_problems(service, vote)
        owner = index.owned.get(service)
        if owner is not None:
            views.append(plan_owned(owner, rows, vote))
        else:
            views.append(plan_generated(service, index.generated.get(service), rows, vote))
    return PlannedServices(views=tuple(views), problems=tuple(sorted(problems)))


def plan_generated(
    service: ServiceId, record: ServiceRecord | None, rows: Sequence[EndpointRow], vote: PortVote
) -> ServiceView:
    """A service whose name is the mesh's. Its rows say its ports; without rows its generated Service does (spec 10)."""
    declared = _identity_map(vote.ports if rows or record is None else _declared_by(record))
    return ServiceView(
        service=service,
        ports=declared,
        declared=declared,
        addresses=() if record is None else tuple(sorted(record.addresses)),
        pod_addresses=_pod_addresses(rows),
        is_headless=record is not None and record.is_headless,
    )


def plan_owned(record: ServiceRecord, rows: Sequence[EndpointRow], vote: PortVote) -> ServiceView:
    """A mesh service whose name a user Service owns: its map says which pod port a client's port is."""
    return ServiceView(
        service=record.service,
        ports=_mapped(record, vote.ports),
        declared=_identity_map(vote.ports),
        addresses=tuple(sorted(record.addresses)),
        pod_addresses=_pod_addresses(rows),
        is_user_owned=True,
        is_headless=record.is_headless,
    )


def target_of(record: ServiceRecord, port: ServicePortRecord) -> int | None:
    """The pod port behind a Service port; None while a named one does not resolve: no endpoint, or they disagree."""
    if isinstance(port.target, int):
        return port.target
    found = {
        target
        for endpoint in record.endpoints
        for number, transport, target in endpoint.ports
        if (number, transport) == (port.number, port.transport)
    }
    return found.pop() if len(found) == 1 else None


def _mapped(record: ServiceRecord, declared: Iterable[DeclaredPort]) -> tuple[ServicePort, ...]:
    class_by_target = {(port.number, port.transport): port.port_class for port in declared}
    ports: dict[tuple[int, Transport], ServicePort] = {}
    for port in sorted(record.ports, key=_record_key):
        target = target_of(record, port)
        port_class = class_by_target.get((target, port.transport)) if target is not None else None
        if target is not None and port_class is not None and port.number not in RESERVED_PORTS:
            ports.setdefault((port.number, port.transport), ServicePort(port.number, port_class, target))
    return tuple(sorted(ports.values()))


def _record_key(port: ServicePortRecord) -> tuple[int, str, str]:
    return port.number, port.transport.value, str(port.target)


def _declared_by(record: ServiceRecord) -> Iterable[DeclaredPort]:
    """What a generated Service declares. A port without a class names nothing; the first of two classes holds."""
    ports: dict[tuple[int, Transport], DeclaredPort] = {}
    for port in sorted(record.ports, key=_record_key):
        if port.port_class is not None and port.number not in RESERVED_PORTS:
            ports.setdefault((port.number, port.transport), DeclaredPort(port.number, port.port_class))
    return sorted(ports.values())


def _identity_map(ports: Iterable[DeclaredPort]) -> tuple[ServicePort, ...]:
    return tuple(ServicePort(port.number, port.port_class, port.number) for port in ports)


def _pod_addresses(rows: Iterable[EndpointRow]) -> tuple[str, ...]:
    return tuple(sorted({address for row in rows for address in (row.addresses or (row.address,))}))


def _vote_problems(service: ServiceId, vote: PortVote) -> list[Diagnostic]:
    reserved = [
        Diagnostic(
            code="reserved-port",
            message=f"port {port.number} is not served: the mesh reserves this number",
            subject=f"Service {service}",
            field="ports",
            item=str(port),
        )
        for port in vote.reserved
    ]
    return [*reserved, *(_dispute_problem(dispute) for dispute in vote.disputes)]


def _dispute_problem(dispute: Dispute) -> Diagnostic:
    votes = ", ".join(f"{count} {port_class}" for port_class, count in dispute.votes)
    return Diagnostic(
        code="ports-disagree",
        message=f"endpoints disagree about port {dispute.number} ({votes}): it is {dispute.votes[0][0]}",
        subject=f"Service {dispute.service}",
        field="ports",
        item=str(dispute.number),
    )
