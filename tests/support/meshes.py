"""Meshes for the delivery property: small, but with everything that services can do to each other.

Several namespaces with the same short names in two of them, services of every class, numbers that are http for one
service and raw TCP or UDP for another, user-owned Services with port maps, headless ones, pods of this node as callers,
some of them not captured.
"""

from collections.abc import Sequence

import msgspec
from hypothesis import strategies as st
from tests.support.facts import local_pod, node_facts, row

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import LocalPod, NodeFacts, ServiceEndpoint, ServicePortRecord, ServiceRecord
from aether.model.names import ServiceId
from aether.model.ports import DeclaredPort, PortClass, Transport
from aether.plan.mesh.register import plan_rows

NAMESPACES = ("shop", "blog", "ops")
NAMES = ("cart", "pay", "dns")
NUMBERS = (53, 80, 3306, 8080, 9000)
SERVICES = tuple(ServiceId(namespace, name) for namespace in NAMESPACES for name in NAMES)


class _Kind(msgspec.Struct, frozen=True):
    """Who makes the service's Service object, if anybody does."""

    is_generated: bool = False
    is_owned: bool = False
    is_headless: bool = False


_KINDS = (
    _Kind(is_generated=True),
    _Kind(is_generated=True),
    _Kind(is_owned=True),
    _Kind(is_owned=True, is_headless=True),
    _Kind(),
)


@st.composite
def delivery_meshes(draw: st.DrawFn) -> NodeFacts:
    """A mesh of two to six services, of which some, the first at least, have pods on this node: n1."""
    services = draw(st.lists(st.sampled_from(SERVICES), unique=True, min_size=2, max_size=6))
    pods: list[LocalPod] = []
    rows: list[EndpointRow] = []
    records: list[ServiceRecord] = [*draw(_outsiders())]
    for index, service in enumerate(services):
        ports = draw(_declarations())
        others = draw(_declarations()) if draw(st.integers(0, 4)) == 0 else ports
        if index == 0 or draw(st.booleans()):
            pods += [_local(service, index, ports, captured=draw(st.integers(0, 3)) > 0)]
        rows += [_remote(draw, service, index, one) for one in draw(st.sampled_from(((), (ports,), (ports, others))))]
        records += draw(_records(service, index, ports))
    facts = node_facts(rows=rows, services=records, pods=pods)
    own = plan_rows(facts, healthy=frozenset(pod.uid for pod in pods))
    return msgspec.structs.replace(facts, rows=tuple(sorted((*facts.rows, *own))))


@st.composite
def _declarations(draw: st.DrawFn) -> tuple[DeclaredPort, ...]:
    classes = st.sampled_from((PortClass.HTTP, PortClass.HTTP, PortClass.TCP))
    tcp = draw(st.dictionaries(st.sampled_from(NUMBERS), classes, min_size=1, max_size=3))
    udp = draw(st.sets(st.sampled_from((53, 8080)), max_size=1))
    ports = [*(DeclaredPort(*item) for item in tcp.items()), *(DeclaredPort(number, PortClass.UDP) for number in udp)]
    return tuple(sorted(ports))


def _local(service: ServiceId, index: int, ports: Sequence[DeclaredPort], *, captured: bool) -> LocalPod:
    annotations = {} if captured else {"redirect_all": "false"}
    return local_pod(
        f"{service.name}-{index}",
        f"10.244.1.{index + 1}",
        f"fd00:244:1::{index + 1}",
        namespace=service.namespace,
        account=service.name,
        ports=",".join(str(port).removesuffix("=http") for port in ports),
        **annotations,
    )


def _remote(draw: st.DrawFn, service: ServiceId, index: int, ports: tuple[DeclaredPort, ...]) -> EndpointRow:
    number = draw(st.integers(1, 200))
    return EndpointRow(
        service=service,
        pod=f"{service.name}-far-{number}",
        node="n2",
        address=f"10.244.{index + 2}.{number}",
        addresses=(f"10.244.{index + 2}.{number}", f"fd00:244:{index + 2}::{number}"),
        ports=ports,
        health=draw(st.sampled_from((Health.HEALTHY, Health.HEALTHY, *Health))),
    )


@st.composite
def _records(
    draw: st.DrawFn, service: ServiceId, index: int, ports: tuple[DeclaredPort, ...]
) -> tuple[ServiceRecord, ...]:
    kind = draw(st.sampled_from(_KINDS))
    if not kind.is_generated and not kind.is_owned:
        return ()
    mapped = [ServicePortRecord(port.number, port.transport, port.number, port.port_class) for port in ports]
    if kind.is_owned:
        mapped = [draw(_map_entry(port)) for port in ports]
        mapped = list({(port.number, port.transport): port for port in mapped}.values())
    return (
        ServiceRecord(
            service=service,
            is_generated=kind.is_generated,
            is_headless=kind.is_headless,
            addresses=() if kind.is_headless else (f"10.96.0.{index + 20}", f"fd96::{index + 20:x}"),
            ports=tuple(sorted(mapped, key=lambda port: (port.number, port.transport))),
        ),
    )


@st.composite
def _map_entry(draw: st.DrawFn, port: DeclaredPort) -> ServicePortRecord:
    """A user's Service port: often the pods' own number, often another one, sometimes one the pods do not declare."""
    number = draw(st.sampled_from((port.number, port.number, *NUMBERS)))
    target = draw(st.sampled_from((port.number, port.number, port.number, 9999)))
    return ServicePortRecord(number, port.transport, target)


def _outsiders() -> st.SearchStrategy[tuple[ServiceRecord, ...]]:
    """A Service of the user's that is none of the mesh's."""
    outsider = ServiceRecord(
        service=ServiceId("outside", "web"),
        is_generated=False,
        addresses=("10.96.0.99",),
        ports=(ServicePortRecord(80, Transport.TCP, 80),),
        endpoints=(ServiceEndpoint(addresses=("10.250.0.1",), is_ready=True, ports=((80, Transport.TCP, 80),)),),
    )
    return st.sampled_from(((), (outsider,)))


def crowded_mesh() -> NodeFacts:
    """One mesh with everything at once, the same each time: what mutations are tried on."""
    pods = (
        local_pod("cart-1", "10.244.1.1", "fd00:244:1::1", account="cart", ports="8080,9000=tcp"),
        local_pod("db-2", "10.244.1.2", account="db", ports="3306=tcp,8080=tcp,8080=udp"),
        local_pod("blogger-3", "10.244.1.3", namespace="blog", account="cart", ports="80,8080"),
        local_pod("bare-4", "10.244.1.4", namespace="ops", account="bare", ports="8080", redirect_all="false"),
        local_pod("dns-5", "10.244.1.5", namespace="ops", account="dns", ports="53=tcp,53=udp"),
    )
    rows = [
        row("shop/cart", "8080 9000=tcp", address="10.244.2.1", health=Health.UNHEALTHY),
        row("shop/cart", "8080 9000=tcp", address="10.244.2.4", health=Health.DRAINING),
        row("shop/owned", "8080 9000=tcp 7070", address="10.244.2.2"),
        row("ops/six", "8080 9000=tcp", address="fd00:244:2::9"),
        row("ops/dns", "53=tcp 53=udp", address="10.244.2.3"),
    ]
    services = [
        _generated("shop/cart", "10.96.0.21", "fd96::21", ports="8080=http 9000=tcp"),
        _generated("shop/db", "10.96.0.22", ports="3306=tcp 8080=tcp 8080=udp"),
        _generated("blog/cart", "10.96.0.23", ports="80=http 8080=http"),
        _generated("ops/six", "fd96::24", ports="8080=http 9000=tcp"),
        _generated("ops/dns", "10.96.0.25", ports="53=tcp 53=udp"),
        ServiceRecord(
            service=ServiceId("shop", "owned"),
            is_generated=False,
            addresses=("10.96.0.26",),
            ports=(
                ServicePortRecord(80, Transport.TCP, 8080),
                ServicePortRecord(7070, Transport.TCP, 8080),
                ServicePortRecord(9000, Transport.TCP, 9000),
            ),
        ),
    ]
    facts = node_facts(rows=rows, services=services, pods=pods)
    own = plan_rows(facts, healthy=frozenset(pod.uid for pod in pods))
    return msgspec.structs.replace(facts, rows=tuple(sorted((*facts.rows, *own))))


def _generated(service: str, *addresses: str, ports: str) -> ServiceRecord:
    namespace, _, name = service.partition("/")
    declared = [DeclaredPort(int(item.partition("=")[0]), PortClass(item.partition("=")[2])) for item in ports.split()]
    return ServiceRecord(
        service=ServiceId(namespace, name),
        is_generated=True,
        addresses=addresses,
        ports=tuple(ServicePortRecord(port.number, port.transport, port.number, port.port_class) for port in declared),
    )
