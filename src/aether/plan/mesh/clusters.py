"""Clusters: what is answered for each name that a proxy may ask for (spec section 5, rulings B.4 and D.4).

Owns: the answer to a cluster's name, its members, its pin and its statistics key, and the dialled pods.
Leaves to others: which names a node wants (`demand`), how long an answer stays (the agent).

Rule: every name has an answer. A name that nothing serves is a tombstone; a mesh cluster is pinned to one identity.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import NodeFacts
from aether.model.identity import WorkloadIdentity, identity_of
from aether.model.names import ServiceId
from aether.model.ports import RESERVED_PORTS, DeclaredPort, PortClass, Transport
from aether.plan.mesh.addressing import (
    Deliver,
    DialledPod,
    Directory,
    RawConnection,
    Reason,
    answer_at_pod,
    answer_raw,
    build_directory,
    find_port,
    is_mesh_address,
    own_port_cluster,
    pod_ports,
    port_list,
)
from aether.plan.mesh.naming import (
    HttpClusterName,
    OwnClusterName,
    PodClusterName,
    RawClusterName,
    http_stat_key,
    parse_cluster,
    raw_stat_key,
)
from aether.plan.mesh.retain import Retention, retain, with_retained
from aether.plan.mesh.services import MeshIndex, PlannedServices, index_facts, plan_index


class EndpointPlan(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    address: str
    health: Health
    weight: int = 1
    node: str = ""


class MeshCluster(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """A port of a service, reached over the mesh hop. An EDS cluster; its load assignment has the same name.

    `server_name` is the pods' port in decimal. `is_http` decides ALPN (h2, or none).
    """

    name: str
    service: ServiceId
    server_name: str
    pinned: WorkloadIdentity
    stat_key: str
    is_http: bool
    endpoints: tuple[EndpointPlan, ...]


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """The answer to an on-demand name that nothing serves: a cluster without endpoints.

    With a `reason`, HTTP that meets it is answered with 421, that word and `listing` instead of 503 (rulings C.6).
    """

    name: str
    reason: Reason | None = None
    listing: str = ""


class PassThroughCluster(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """The answer to the name of a dial whose address is not the mesh's: to the dialled address."""

    name: str


ClusterPlan = MeshCluster | Tombstone | PassThroughCluster


class MeshContext(msgspec.Struct, frozen=True, kw_only=True):
    """What plans of one node are made from: derived once from facts, then asked many times.

    `retention` is for the next context: what it must know to keep what is lost.
    """

    facts: NodeFacts
    index: MeshIndex
    services: PlannedServices
    retention: Retention
    dialled_pods: tuple[DialledPod, ...]
    row_by_address: Mapping[str, EndpointRow]
    directory: Directory


def plan_context(facts: NodeFacts, *, before: Retention | None = None, now_s: float = 0.0) -> MeshContext:
    """Derive what plans need. `before` is the retention of the context that this one follows, `now_s` monotonic."""
    index = index_facts(facts)
    services = plan_index(index)
    retention = retain(before or Retention(), services.views, now_s=now_s)
    services = msgspec.structs.replace(services, views=with_retained(services.views, retention))
    row_by_address = _rows_by_address(index)
    dialled_pods = _dialled_pods(index, row_by_address)
    return MeshContext(
        facts=facts,
        index=index,
        services=services,
        retention=retention,
        dialled_pods=dialled_pods,
        row_by_address=row_by_address,
        directory=build_directory(services.views, dialled_pods, facts.config),
    )


def next_context(facts: NodeFacts, *, before: MeshContext | None, now_s: float) -> MeshContext:
    """The context that follows `before`: the same one while the facts are that same object and nothing kept expired."""
    if before is None:
        return plan_context(facts, now_s=now_s)
    deadline_s = before.retention.next_deadline_s()
    if before.facts is facts and (deadline_s is None or now_s < deadline_s):
        return before
    return plan_context(facts, before=before.retention, now_s=now_s)


def plan_cluster(name: str, context: MeshContext) -> ClusterPlan:
    """The answer to one name, asked on demand or kept. Delivers only where the addressing rule does."""
    match parse_cluster(name, context.facts.config.domains):
        case HttpClusterName(service=service, number=number):
            return _plan_http(name, service, number, context)
        case OwnClusterName(service=service, number=number):
            return _plan_own(name, service, number, context)
        case PodClusterName(address=address, number=number):
            return _plan_pod_dial(name, address, number, context)
        case RawClusterName(address=address, number=number):
            return _plan_raw(name, address, number, context)
        case _:
            return Tombstone(name=name)


_RANKS: Mapping[Health, int] = {Health.HEALTHY: 0, Health.UNHEALTHY: 1, Health.DRAINING: 2}


def _rows_by_address(index: MeshIndex) -> dict[str, EndpointRow]:
    """An address that two rows claim (a reused one, whose old row drains) is the healthier's, then the first by row."""
    found: dict[str, EndpointRow] = {}
    for rows in index.rows.values():
        for row in rows:
            for address in row.addresses or (row.address,):
                other = found.setdefault(address, row)
                if other is not row and (_RANKS[row.health], row) < (_RANKS[other.health], other):
                    found[address] = row
    return found


def _dialled_pods(index: MeshIndex, row_by_address: Mapping[str, EndpointRow]) -> tuple[DialledPod, ...]:
    """Sorted by address. The pods of a service nearly always agree, and share what they declare."""
    pods: list[DialledPod] = []
    for service, rows in index.rows.items():
        declared: tuple[DeclaredPort, ...] = ()
        ports: tuple[tuple[int, PortClass], ...] = ()
        for row in rows:
            if row.ports != declared:
                declared = row.ports
                ports = _dialled_ports(declared)
            pods += [
                DialledPod(address=address, service=service, ports=ports)
                for address in row.addresses or (row.address,)
                if row_by_address[address] is row
            ]
    return tuple(sorted(pods, key=lambda pod: pod.address))


def _dialled_ports(ports: Iterable[DeclaredPort]) -> tuple[tuple[int, PortClass], ...]:
    """A pod is dialled by what it declares itself, however its service's vote went."""
    return tuple(
        (port.number, port.port_class)
        for port in sorted(ports)
        if port.transport is Transport.TCP and port.number not in RESERVED_PORTS
    )


def _plan_http(name: str, service: ServiceId, number: int, context: MeshContext) -> ClusterPlan:
    view = context.directory.views.get(service)
    if view is None:
        return Tombstone(name=name)
    port = find_port(view.ports, number, Transport.TCP)
    if port is None:  # a captured dial of a user-owned service's own port (rulings C.4)
        port = find_port(view.declared, number, Transport.TCP)
    if port is None or port.port_class is not PortClass.HTTP:
        return Tombstone(name=name)
    return _mesh_http(name, service, port.target, context)


def _plan_own(name: str, service: ServiceId, number: int, context: MeshContext) -> ClusterPlan:
    view = context.directory.views.get(service)
    if view is None or not view.is_user_owned:
        return Tombstone(name=name)
    port = find_port(view.declared, number, Transport.TCP)
    is_named_so = own_port_cluster(view, number, context.facts.config) == name
    if port is None or port.port_class is not PortClass.HTTP or not is_named_so:
        return Tombstone(name=name)
    return _mesh_http(name, service, number, context)


def _mesh_http(name: str, service: ServiceId, target: int, context: MeshContext) -> MeshCluster:
    return MeshCluster(
        name=name,
        service=service,
        server_name=str(target),
        pinned=identity_of(service, context.facts.config.trust_domain),
        stat_key=http_stat_key(service),
        is_http=True,
        endpoints=_members(context.index.rows.get(service, ()), DeclaredPort(target, PortClass.HTTP)),
    )


def _plan_pod_dial(name: str, address: str, number: int, context: MeshContext) -> ClusterPlan:
    """HTTP at a pod's own address: that pod, or a refusal that lists what it serves (rulings B.4)."""
    pod = context.directory.pods.get(address)
    if pod is None:
        return _plan_nobody(name, address, context)
    answer = answer_at_pod(pod, number)
    if not isinstance(answer, Deliver):
        return Tombstone(name=name, reason=answer.reason, listing=port_list(pod_ports(pod)))
    row = context.row_by_address[address]
    chosen = EndpointPlan(address=row.address, health=Health.HEALTHY, weight=row.weight, node=row.node)
    cluster = _mesh_http(name, pod.service, answer.target, context)
    return msgspec.structs.replace(cluster, endpoints=(chosen,))


def _plan_raw(name: str, address: str, number: int, context: MeshContext) -> ClusterPlan:
    answer = answer_raw(RawConnection(dialled_address=address, dialled_port=number), context.directory)
    if not isinstance(answer, Deliver):
        return _plan_nobody(name, address, context)
    row = context.row_by_address.get(address)
    rows = context.index.rows.get(answer.service, ()) if row is None else (row,)
    return MeshCluster(
        name=name,
        service=answer.service,
        server_name=str(answer.target),
        pinned=identity_of(answer.service, context.facts.config.trust_domain),
        stat_key=raw_stat_key(answer.service, number),
        is_http=False,
        endpoints=_members(rows, DeclaredPort(answer.target, PortClass.TCP)),
    )


def _plan_nobody(name: str, address: str, context: MeshContext) -> ClusterPlan:
    """Nothing takes the dial: the mesh's own addresses are closed (rulings B.4, B.5), all others are dialled."""
    owner = context.directory.owners.get(address)
    is_users = owner is not None and context.directory.views[owner].is_user_owned
    if is_mesh_address(address, context.directory) and not is_users:
        return Tombstone(name=name)
    return PassThroughCluster(name=name)


def _members(rows: Sequence[EndpointRow], port: DeclaredPort) -> tuple[EndpointPlan, ...]:
    """The endpoints that declare the port with its class, whatever their health: draining ones are told apart by it."""
    return tuple(sorted(_unique(row for row in rows if port in row.ports)))


def _unique(rows: Iterable[EndpointRow]) -> Iterable[EndpointPlan]:
    """One endpoint per address, the healthier row's: Envoy refuses an address that stands twice."""
    found: dict[str, EndpointRow] = {}
    for row in rows:
        other = found.setdefault(row.address, row)
        if other is not row and (_RANKS[row.health], row) < (_RANKS[other.health], other):
            found[row.address] = row
    return [
        EndpointPlan(address=row.address, health=row.health, weight=row.weight, node=row.node) for row in found.values()
    ]
