"""The Services that the mesh generates: one for each mesh service whose name no user Service has.

Owns: which there are, with which ports. Leaves to others: how they are written (`render.kube`), their addresses.

Rules: a Service that we did not make is never touched, and that is said. The ports are the union of what the endpoints
declare, by class vote; a service without endpoints keeps its Service, without ports, until its ServiceAccount goes too.
"""

import msgspec

from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow
from aether.model.kube import GENERATED_LABEL, KubeServicePort, Service
from aether.model.names import ServiceId
from aether.model.ports import DeclaredPort, PortClass, Transport
from aether.plan.mesh.ports import vote_ports


class GeneratedService(msgspec.Struct, frozen=True, kw_only=True, order=True):
    service: ServiceId
    ports: tuple[DeclaredPort, ...]


class PublishFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`namespaces` are those that take new objects; `accounts` the ServiceAccounts there are."""

    rows: tuple[EndpointRow, ...]
    existing: tuple[Service, ...]
    accounts: frozenset[ServiceId]
    namespaces: frozenset[str]
    ignored_namespaces: frozenset[str] = frozenset()


class PublishPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`services` should exist as they are here, `surplus` should not. Everything is sorted."""

    services: tuple[GeneratedService, ...]
    surplus: tuple[ServiceId, ...]
    problems: tuple[Diagnostic, ...]


def plan_publish(facts: PublishFacts) -> PublishPlan:
    users = {_id_of(service) for service in facts.existing if not is_generated(service)}
    ours = {_id_of(service) for service in facts.existing if is_generated(service)}
    rows_by_service = _group(facts)
    kept = (rows_by_service.keys() | (ours & facts.accounts)) - users
    problems = [_user_owned(service) for service in sorted(rows_by_service.keys() & users)]
    services = []
    for service in sorted(kept):
        vote = vote_ports(service, rows_by_service.get(service, ()))
        services.append(GeneratedService(service=service, ports=vote.ports))
        problems += [_reserved(service, port) for port in vote.reserved]
    return PublishPlan(
        services=tuple(services),
        surplus=tuple(sorted(ours - kept)),
        problems=tuple(sorted(problems)),
    )


def is_generated(service: Service) -> bool:
    return (GENERATED_LABEL, "true") in service.meta.labels


def class_of(port: KubeServicePort) -> PortClass:
    """What a generated Service's port says of itself; the inverse of how it is rendered."""
    if port.transport is Transport.UDP:
        return PortClass.UDP
    return PortClass.HTTP if port.app_protocol == PortClass.HTTP else PortClass.TCP


def _group(facts: PublishFacts) -> dict[ServiceId, list[EndpointRow]]:
    rows: dict[ServiceId, list[EndpointRow]] = {}
    served = facts.namespaces - facts.ignored_namespaces
    for row in facts.rows:
        if row.service.namespace in served:
            rows.setdefault(row.service, []).append(row)
    return rows


def _id_of(service: Service) -> ServiceId:
    return ServiceId(service.meta.namespace, service.meta.name)


def _user_owned(service: ServiceId) -> Diagnostic:
    return Diagnostic(
        code="user-service",
        message="a user's Service has this mesh service's name: it is left as it is, and its port map holds",
        subject=f"Service {service}",
    )


def _reserved(service: ServiceId, port: DeclaredPort) -> Diagnostic:
    return Diagnostic(
        code="reserved-port",
        message=f"port {port.number} is not put on the Service: the mesh reserves this number",
        subject=f"Service {service}",
        field="spec.ports",
        item=str(port),
    )
