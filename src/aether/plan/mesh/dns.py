"""The zone of mesh DNS: every name it answers itself (rulings F).

Owns: names and their addresses. Leaves to others: messages, forwarding, time to live (`wire.dns`, `app.dns`).

Rule: a name above another name exists, so that nobody concludes from it that the lower one does not (RFC 8020).
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import NodeFacts, ServiceRecord
from aether.model.names import ServiceId, kubernetes_names, mesh_name
from aether.plan.mesh.clusters import MeshContext
from aether.plan.mesh.services import MeshIndex, ServiceView, index_facts, plan_index


class ZoneName(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A name that exists, in lower case without a trailing dot. No address of a family: NODATA for it."""

    name: str
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """`names`, sorted; any other name under one of `domains` is NXDOMAIN, and everything else is forwarded."""

    domains: tuple[str, ...]
    names: tuple[ZoneName, ...]


def plan_zone(facts: NodeFacts) -> Zone:
    """Every name of the directory, and the Kubernetes names of Services that are none of the mesh's."""
    index = index_facts(facts)
    return _plan_zone(facts, index, plan_index(index).views)


def plan_zone_in(context: MeshContext) -> Zone:
    """`plan_zone` from a context that is already there, with the names of services that are lost but kept."""
    return _plan_zone(context.facts, context.index, context.services.views)


def _plan_zone(facts: NodeFacts, index: MeshIndex, views: Iterable[ServiceView]) -> Zone:
    domains = facts.config.domains
    found: dict[str, set[str]] = {name: set() for name in (domains.mesh, domains.cluster, f"svc.{domains.cluster}")}
    for view in views:
        rows = index.rows.get(view.service, ())
        names = (mesh_name(view.service, domains), *kubernetes_names(view.service, domains))
        _add(found, names, _view_addresses(view, rows))
        for row in rows if view.is_headless else ():
            _add(found, (f"{row.pod}.{name}" for name in names), row.addresses or (row.address,))
    for record in index.others:
        _add(found, kubernetes_names(record.service, domains), _record_addresses(record))
    for namespace in _namespaces(index, facts):
        _add(found, (f"{namespace}.{domains.mesh}", f"{namespace}.svc.{domains.cluster}"), ())
    return Zone(
        domains=tuple(sorted({domains.mesh, domains.cluster})),
        names=tuple(_zone_name(name, found[name]) for name in sorted(found)),
    )


def _add(found: dict[str, set[str]], names: Iterable[str], addresses: Sequence[str]) -> None:
    for name in names:
        found.setdefault(name, set()).update(addresses)


def _zone_name(name: str, addresses: Iterable[str]) -> ZoneName:
    ordered = sorted(addresses)
    return ZoneName(
        name=name,
        ipv4=tuple(address for address in ordered if ":" not in address),
        ipv6=tuple(address for address in ordered if ":" in address),
    )


def _view_addresses(view: ServiceView, rows: Sequence[EndpointRow]) -> Sequence[str]:
    """A headless name has its healthy pods; with none healthy, all: a cluster that forms asks before it is healthy."""
    if not view.is_headless:
        return view.addresses
    healthy = [address for row in rows if row.health is Health.HEALTHY for address in row.addresses or (row.address,)]
    return healthy or view.pod_addresses


def _record_addresses(record: ServiceRecord) -> Sequence[str]:
    if not record.is_headless:
        return record.addresses
    return [address for endpoint in record.endpoints if endpoint.is_ready for address in endpoint.addresses]


def _namespaces(index: MeshIndex, facts: NodeFacts) -> Iterator[str]:
    yield from facts.namespaces
    services: Iterable[ServiceId] = (*index.rows, *index.generated, *(record.service for record in index.others))
    yield from {service.namespace for service in services}
