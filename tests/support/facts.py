"""Facts for tests: small builders, and hypothesis strategies over small meshes."""

import ipaddress
from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import LocalPod, MeshConfig, NodeFacts, ServiceEndpoint, ServicePortRecord, ServiceRecord
from aether.model.names import ServiceId
from aether.model.ports import DeclaredPort, PortClass, Transport

CONFIG = MeshConfig()


def service_id(text: str) -> ServiceId:
    """``shop/cart``"""
    namespace, name = text.split("/")
    return ServiceId(namespace, name)


def declared(text: str) -> tuple[DeclaredPort, ...]:
    """``8080=http 9000=tcp``; a bare number is http."""
    return tuple(sorted(_declared(item) for item in text.split()))


def _declared(item: str) -> DeclaredPort:
    number, _, port_class = item.partition("=")
    return DeclaredPort(int(number), PortClass(port_class or "http"))


def row(
    service: str, ports: str = "8080", *, address: str = "10.244.1.2", health: Health = Health.HEALTHY, weight: int = 1
) -> EndpointRow:
    """An endpoint of ``shop/cart`` on node n1. Its pod is named after the service and the end of the address."""
    owner = service_id(service)
    return EndpointRow(
        service=owner,
        pod=f"{owner.name}-{address.replace(':', '.').rsplit('.', 1)[-1]}",
        node="n1",
        address=address,
        addresses=(address,),
        ports=declared(ports),
        health=health,
        weight=weight,
    )


def generated(service: str, *addresses: str, ports: str = "") -> ServiceRecord:
    """The Service that the mesh made, with the classes that it says."""
    return ServiceRecord(
        service=service_id(service),
        is_generated=True,
        addresses=addresses,
        ports=tuple(
            ServicePortRecord(port.number, port.transport, port.number, port.port_class) for port in declared(ports)
        ),
    )


def user_service(service: str, *addresses: str, ports: str = "", endpoints: Sequence[str] = ()) -> ServiceRecord:
    """A Service of the user's; headless without addresses. `ports` maps: ``80:8080 53:dns/udp``."""
    return ServiceRecord(
        service=service_id(service),
        is_generated=False,
        is_headless=not addresses,
        addresses=addresses,
        ports=tuple(_mapped(item) for item in ports.split()),
        endpoints=tuple(ServiceEndpoint(addresses=(address,), is_ready=True, ports=()) for address in endpoints),
    )


def _mapped(item: str) -> ServicePortRecord:
    pair, _, transport = item.partition("/")
    number, _, target = pair.partition(":")
    return ServicePortRecord(int(number), Transport(transport or "tcp"), int(target) if target.isdecimal() else target)


def local_pod(
    name: str, *addresses: str, namespace: str = "shop", account: str = "cart", **annotations: str
) -> LocalPod:
    """A ready pod of this node. Annotations by the last part of their key, ``_`` for ``-``: ``ports="8080"``."""
    return LocalPod(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        account=account,
        addresses=addresses,
        netns=f"/run/netns/pod-uid-{name}",
        annotations=tuple(sorted((_KEYS[key], value) for key, value in annotations.items())),
        is_ready=True,
    )


_KEYS = {
    "ports": "endpoint.aether.io/ports",
    "port": "endpoint.aether.io/port",
    "protocol": "endpoint.aether.io/protocol",
    "weight": "endpoint.aether.io/weight",
    "uds_socket": "endpoint.aether.io/uds-socket",
    "upstreams": "config.aether.io/upstreams",
    "redirect_all": "capture.aether.io/redirect-all",
    "managed": "aether.io/managed",
}


def node_facts(
    *,
    rows: Iterable[EndpointRow] = (),
    services: Iterable[ServiceRecord] = (),
    pods: Iterable[LocalPod] = (),
    config: MeshConfig = CONFIG,
) -> NodeFacts:
    """What the agent of node n1 is told."""
    return NodeFacts(
        node="n1",
        node_addresses=("10.243.0.1",),
        config=config,
        namespaces=("blue", "red"),
        services=tuple(sorted(services)),
        rows=tuple(sorted(rows)),
        pods=tuple(sorted(pods)),
    )


NAMESPACES = ("red", "blue")
NAMES = ("echo", "pay", "db")
NUMBERS = (53, 80, 8080, 9000, 18081)
"""Few numbers, so that services share them and disagree; one of them is reserved."""

SERVICES = tuple(ServiceId(namespace, name) for namespace in NAMESPACES for name in NAMES)


@st.composite
def port_lists(draw: st.DrawFn) -> tuple[DeclaredPort, ...]:
    """What one pod declares: at least one port, no number twice in one transport."""
    tcp = draw(st.dictionaries(st.sampled_from(NUMBERS), st.sampled_from((PortClass.HTTP, PortClass.TCP)), max_size=3))
    udp = draw(st.sets(st.sampled_from(NUMBERS), min_size=0 if tcp else 1, max_size=1))
    ports = [*(DeclaredPort(*item) for item in tcp.items()), *(DeclaredPort(number, PortClass.UDP) for number in udp)]
    return tuple(sorted(ports))


@st.composite
def meshes(draw: st.DrawFn) -> NodeFacts:
    """A small mesh: services with rows, without rows, user-owned ones with a map, headless ones, Services beside it.

    The facts are sorted, as an agent gets them. Addresses are distinct, and of both families.
    """
    rows: list[EndpointRow] = []
    services: list[ServiceRecord] = []
    for number, service in enumerate(draw(st.lists(st.sampled_from(SERVICES), unique=True, max_size=5))):
        rows += draw(_rows(service, number))
        record = draw(st.none() | _records(service, number))
        services += [] if record is None else [record]
    pods = draw(st.lists(_pods(), max_size=3, unique_by=lambda pod: pod.uid))
    return node_facts(rows=rows, services=services, pods=pods)


@st.composite
def _rows(draw: st.DrawFn, service: ServiceId, number: int) -> list[EndpointRow]:
    return [
        EndpointRow(
            service=service,
            pod=f"{service.name}-{pod}",
            node=f"n{pod}",
            address=f"10.244.{number}.{pod + 1}",
            addresses=(f"10.244.{number}.{pod + 1}", f"fd00:244:{number}::{pod + 1}"),
            ports=ports,
            health=draw(st.sampled_from(Health)),
            weight=draw(st.integers(1, 3)),
        )
        for pod, ports in enumerate(draw(st.lists(port_lists(), max_size=3)))
    ]


@st.composite
def _records(draw: st.DrawFn, service: ServiceId, number: int) -> ServiceRecord:
    is_generated = draw(st.booleans())
    is_headless = not is_generated and draw(st.booleans())
    if is_generated:
        ports = [ServicePortRecord(p.number, p.transport, p.number, p.port_class) for p in draw(port_lists())]
    else:
        ports = draw(st.lists(_port_records(), max_size=3, unique_by=lambda port: (port.number, port.transport)))
    return ServiceRecord(
        service=service,
        is_generated=is_generated,
        is_headless=is_headless,
        addresses=() if is_headless else (f"10.96.0.{number + 1}", f"fd96::{number + 1}"),
        ports=tuple(sorted(ports, key=lambda port: (port.number, port.transport))),
        endpoints=() if is_generated else draw(_endpoints(tuple(ports))),
    )


def _port_records() -> st.SearchStrategy[ServicePortRecord]:
    targets: st.SearchStrategy[int | str] = st.sampled_from((*NUMBERS, "named"))
    return st.builds(ServicePortRecord, st.sampled_from(NUMBERS), st.sampled_from(Transport), targets)


@st.composite
def _endpoints(draw: st.DrawFn, ports: tuple[ServicePortRecord, ...]) -> tuple[ServiceEndpoint, ...]:
    return tuple(
        ServiceEndpoint(
            addresses=(f"10.250.0.{pod + 1}",),
            is_ready=draw(st.booleans()),
            ports=tuple((port.number, port.transport, draw(st.sampled_from(NUMBERS))) for port in ports),
        )
        for pod in range(draw(st.integers(0, 2)))
    )


@st.composite
def _pods(draw: st.DrawFn) -> LocalPod:
    number = draw(st.integers(1, 4))
    service = draw(st.sampled_from(SERVICES))
    annotations = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "endpoint.aether.io/ports": st.sampled_from(("8080", "80,9000=tcp", "53=udp", "18081", "8080=h2,x")),
                "config.aether.io/upstreams": st.sampled_from(("", "pay", "blue/echo,red/db", "a/b/c")),
                "aether.io/managed": st.sampled_from(("true", "false")),
            },
        )
    )
    return LocalPod(
        uid=f"uid-{number}",
        namespace=service.namespace,
        name=f"{service.name}-{number}",
        account=service.name,
        addresses=(f"10.244.9.{number}",),
        netns=f"/run/netns/{number}",
        annotations=tuple(sorted(annotations.items())),
        is_ready=draw(st.booleans()),
        is_terminating=draw(st.booleans()),
    )


def shuffled(facts: NodeFacts) -> st.SearchStrategy[NodeFacts]:
    """The same facts in any order."""
    return st.builds(
        lambda rows, services, pods: _replaced(facts, rows, services, pods),
        st.permutations(facts.rows),
        st.permutations(facts.services),
        st.permutations(facts.pods),
    )


def _replaced(
    facts: NodeFacts, rows: Sequence[EndpointRow], services: Sequence[ServiceRecord], pods: Sequence[LocalPod]
) -> NodeFacts:
    return NodeFacts(
        node=facts.node,
        node_addresses=facts.node_addresses,
        config=facts.config,
        namespaces=facts.namespaces,
        services=tuple(services),
        rows=tuple(rows),
        pods=tuple(pods),
    )


def authorities() -> st.SearchStrategy[str]:
    """Authorities that name services, that nearly do, and that do not."""
    suffixes = (
        "",
        ".red",
        ".blue",
        ".red.svc",
        ".blue.svc.cluster.local",
        ".red.aether.internal",
        ".RED.Aether.internal",
    )
    names = st.builds(lambda name, suffix: name + suffix, st.sampled_from((*NAMES, "ghost")), st.sampled_from(suffixes))
    hosts = names | st.sampled_from(("example.org", "www.example.org", "10.96.0.1", "[fd96::1]", "", "fd96::1"))
    numbers = st.sampled_from(NUMBERS) | st.integers(0, 70_000)
    ports = (
        st.just("") | numbers.map(lambda number: f":{number}") | st.sampled_from((":", ":080", ":x", ":80:80", ":+80"))
    )
    return st.builds(lambda host, dot, port: host + dot + port, hosts, st.sampled_from(("", ".")), ports)


def dialled_addresses(facts: NodeFacts) -> st.SearchStrategy[str]:
    """Addresses of the mesh's Services and pods, and others."""
    known = {address for record in facts.services for address in record.addresses}
    known |= {address for row in facts.rows for address in row.addresses}
    return st.sampled_from(sorted(known | {"192.0.2.1", "10.96.99.9", "10.244.99.9", "2001:db8::1"}, key=_address_key))


def _address_key(address: str) -> tuple[int, int]:
    parsed = ipaddress.ip_address(address)
    return parsed.version, int(parsed)
