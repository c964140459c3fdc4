"""Service routing on the real kernel: two nodes, pods on both, real sockets."""

import collections
import select
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.netns.lab import DIAL_TIMEOUT_S, Lab, LabNode, LabPod, accept_any, family_of, timed

from aether.adapters.kernel.conntrack import delete_udp_flows
from aether.adapters.kernel.nft import Nft
from aether.model.ports import DNS_PORT, INBOUND_PORT, Transport
from aether.plan.routing import Backend, EditRouting, RoutingPlan, ServiceRoute, UdpFlow, diff_routing
from aether.render.nft import ROUTING_NAME, render_routing, render_routing_change

pytestmark = pytest.mark.root

AT_ONCE_S = 0.5  # what does not answer at once takes a second: the first retransmission
SERVICE: dict[int, str] = {socket.AF_INET: "10.96.0.5", socket.AF_INET6: "fd96::5"}
DNS: dict[int, str] = {socket.AF_INET: "10.96.0.10", socket.AF_INET6: "fd96::a"}
REFUSED = ("10.96.0.0/16", "fd96::/112")
FAMILIES = [pytest.param(socket.AF_INET, id="IPv4"), pytest.param(socket.AF_INET6, id="IPv6")]


class Scene:
    """A client pod on node 1, one server pod on each node; both nodes have the same routing."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.node: LabNode = lab.add_node(1)
        self.far_node: LabNode = lab.add_node(2)
        self.client: LabPod = lab.add_pod(self.node)
        self.near: LabPod = lab.add_pod(self.node)
        self.far: LabPod = lab.add_pod(self.far_node)
        self.nft: Nft = lab.nft(self.node.netns)
        self.far_nft: Nft = lab.nft(self.far_node.netns)
        self.plan: RoutingPlan | None = None

    def apply(self, plan: RoutingPlan) -> None:
        change = diff_routing(self.plan, plan)
        if change is not None:
            for nft in (self.nft, self.far_nft):
                nft.apply(render_routing_change(change))
            self.lab.run(delete_udp_flows, self.node.netns, change.stale)
        self.plan = plan

    def serve_udp(self, pod: LabPod, family: int, port: int) -> socket.socket:
        return self.lab.bind_udp(pod.netns, address_of(pod, family), port)

    def connect_udp(self, address: str, port: int) -> socket.socket:
        sock = self.lab.open_socket(self.client.netns, family_of(address), socket.SOCK_DGRAM)
        sock.connect((address, port))
        return sock


@pytest.fixture
def scene(lab: Lab) -> Scene:
    return Scene(lab)


def address_of(pod: LabPod, family: int) -> str:
    return pod.v4 if family == socket.AF_INET else pod.v6


def route(address: str, transport: str, port: int, *backends: tuple[str, int]) -> ServiceRoute:
    return ServiceRoute(address, Transport(transport), port, tuple(sorted(Backend(*each) for each in backends)))


def plan(*routes: ServiceRoute, pods: Iterable[LabPod] = (), guarded: Iterable[LabPod] = ()) -> RoutingPlan:
    return RoutingPlan(
        routes=tuple(sorted(routes)),
        refused=REFUSED,
        local_pods=frozenset(address for pod in pods for address in pod.addresses),
        guarded=frozenset(address for pod in guarded for address in pod.addresses),
        pinned=frozenset(
            UdpFlow(route.address, route.port, backend)
            for route in routes
            if route.transport is Transport.UDP
            for backend in route.backends
        ),
    )


def exchange(client: socket.socket, server: socket.socket, text: bytes) -> tuple[str, int]:
    """One question and its answer over UDP; whom the server saw."""
    client.send(text)
    data, peer = server.recvfrom(64)
    assert data == text
    server.sendto(text.upper(), peer)
    assert client.recv(64) == text.upper()
    return peer[0], peer[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_over_udp_come_from_the_service_address(scene: Scene, family: int) -> None:
    service = SERVICE[family]
    server = scene.serve_udp(scene.far, family, 5353)
    scene.apply(plan(route(service, "udp", 53, (address_of(scene.far, family), 5353))))
    peer = exchange(scene.connect_udp(service, 53), server, b"connected")
    assert peer[0] == address_of(scene.client, family), "the pod's own address is kept"
    client = scene.lab.bind_udp(scene.client.netns, address_of(scene.client, family), 0)
    client.sendto(b"unconnected", (service, 53))
    server.sendto(b"answer", server.recvfrom(64)[1])
    data, source = client.recvfrom(64)
    assert (data, source[:2]) == (b"answer", (service, 53))


@pytest.mark.parametrize("family", FAMILIES)
def test_ports_and_transports_of_one_service_are_told_apart(scene: Scene, family: int) -> None:
    service, near = SERVICE[family], address_of(scene.near, family)
    dns, other = scene.serve_udp(scene.near, family, 5353), scene.serve_udp(scene.near, family, 5400)
    listener = scene.lab.listen(scene.near.netns, 5354)
    scene.apply(
        plan(
            route(service, "udp", 53, (near, 5353)),
            route(service, "udp", 54, (near, 5400)),
            route(service, "tcp", 53, (near, 5354)),
        )
    )
    exchange(scene.connect_udp(service, 53), dns, b"one")
    exchange(scene.connect_udp(service, 54), other, b"two")
    scene.lab.dial(scene.client.netns, service, 53)
    accept_any(listener)[1].close()


@pytest.mark.parametrize("family", FAMILIES)
def test_tcp_that_no_route_takes_is_refused_at_once_every_time(scene: Scene, family: int) -> None:
    """Sixty in a row: a refusal by ICMP would be rate limited after six."""
    scene.apply(plan(route(SERVICE[family], "udp", 80, (address_of(scene.far, family), 8080))))
    for netns in (scene.client.netns, scene.node.netns):
        for _ in range(60):
            with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
                scene.lab.dial(netns, SERVICE[family], 80)
            assert elapsed_s() < AT_ONCE_S


@pytest.mark.parametrize("family", FAMILIES)
def test_udp_that_no_route_takes_is_refused_at_once_every_time(scene: Scene, family: int) -> None:
    scene.apply(plan())
    for _ in range(20):
        with scene.connect_udp(SERVICE[family], 53) as client:
            client.send(b"anybody?")
            with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
                client.recv(64)
            assert elapsed_s() < AT_ONCE_S


@pytest.mark.parametrize("family", FAMILIES)
def test_the_nodes_own_datagrams_that_no_route_takes_do_not_leave(scene: Scene, family: int) -> None:
    """The kernel answers a refusal in its own output with EPERM."""
    scene.apply(plan())
    with pytest.raises(PermissionError):
        scene.lab.open_socket(scene.node.netns, family, socket.SOCK_DGRAM).sendto(b"x", (SERVICE[family], 53))


@pytest.mark.parametrize("family", FAMILIES)
def test_new_flows_are_spread_evenly_over_the_nodes(scene: Scene, family: int) -> None:
    service, backends = SERVICE[family], (scene.near, scene.far)
    servers = [scene.serve_udp(pod, family, 5300) for pod in backends]
    scene.apply(plan(route(service, "udp", 53, *((address_of(pod, family), 5300) for pod in backends))))
    for _ in range(200):
        with scene.connect_udp(service, 53) as client:
            client.send(b"x")
    counts = received(servers, 200)
    assert min(counts) > 60, counts


def received(servers: list[socket.socket], total: int) -> list[int]:
    """How many datagrams arrive at each of `servers`, waiting until there are `total` of them."""
    counts = [0 for _ in servers]
    while sum(counts) < total:
        ready, _, _ = select.select(servers, (), (), DIAL_TIMEOUT_S)
        assert ready, f"{counts} of {total} datagrams arrived"
        for server in ready:
            server.recv(64)
            counts[servers.index(server)] += 1
    return counts


@pytest.mark.parametrize("family", FAMILIES)
def test_a_draining_endpoint_keeps_its_flows_and_gets_no_new_ones(scene: Scene, family: int) -> None:
    service, near, far = SERVICE[family], address_of(scene.near, family), address_of(scene.far, family)
    old, new = scene.serve_udp(scene.near, family, 5300), scene.serve_udp(scene.far, family, 5300)
    first = plan(route(service, "udp", 53, (near, 5300)))
    scene.apply(first)
    pinned = scene.connect_udp(service, 53)
    exchange(pinned, old, b"before")
    draining = plan(route(service, "udp", 53, (far, 5300)))
    scene.apply(msgspec.structs.replace(draining, pinned=first.pinned | draining.pinned))
    exchange(pinned, old, b"still")
    for _ in range(30):
        with scene.connect_udp(service, 53) as client:
            exchange(client, new, b"new")


@pytest.mark.parametrize("family", FAMILIES)
def test_flows_of_a_removed_endpoint_move_and_tcp_stays(scene: Scene, family: int) -> None:
    service, near, far = SERVICE[family], address_of(scene.near, family), address_of(scene.far, family)
    old, new = scene.serve_udp(scene.near, family, 5300), scene.serve_udp(scene.far, family, 5300)
    listener = scene.lab.listen(scene.near.netns, 5300)
    scene.apply(plan(route(service, "udp", 53, (near, 5300)), route(service, "tcp", 53, (near, 5300))))
    pinned, stream = scene.connect_udp(service, 53), scene.lab.dial(scene.client.netns, service, 53)
    exchange(pinned, old, b"before")
    _, accepted = accept_any(listener)
    scene.apply(plan(route(service, "udp", 53, (far, 5300))))
    exchange(pinned, new, b"after")
    with accepted:
        stream.sendall(b"on")
        assert accepted.recv(64) == b"on"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_flow_whose_last_endpoint_goes_is_refused_until_one_comes_back(scene: Scene, family: int) -> None:
    service, near = SERVICE[family], address_of(scene.near, family)
    server = scene.serve_udp(scene.near, family, 5300)
    with_endpoint = plan(route(service, "udp", 53, (near, 5300)))
    scene.apply(with_endpoint)
    client = scene.connect_udp(service, 53)
    exchange(client, server, b"before")
    scene.apply(plan())
    client.send(b"gone")
    with pytest.raises(ConnectionRefusedError):
        client.recv(64)
    scene.apply(with_endpoint)
    exchange(client, server, b"back")


@pytest.mark.parametrize("family", FAMILIES)
def test_only_the_entries_of_the_removed_endpoint_are_deleted(scene: Scene, family: int) -> None:
    service, near, far = SERVICE[family], address_of(scene.near, family), address_of(scene.far, family)
    servers = [scene.serve_udp(pod, family, 5300) for pod in (scene.near, scene.far)]
    scene.apply(plan(route(service, "udp", 53, (near, 5300), (far, 5300))))
    for _ in range(40):
        scene.connect_udp(service, 53).send(b"x")
    near_flows, far_flows = received(servers, 40)
    gone = UdpFlow(service, 53, Backend(near, 5300))
    assert scene.lab.run(delete_udp_flows, scene.node.netns, [gone]) == near_flows
    assert scene.lab.run(delete_udp_flows, scene.node.netns, [gone]) == 0
    left = UdpFlow(service, 53, Backend(far, 5300))
    assert scene.lab.run(delete_udp_flows, scene.node.netns, [left]) == far_flows


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_pod_reaches_itself_through_its_own_service(scene: Scene, family: int, transport: str) -> None:
    service, own = SERVICE[family], address_of(scene.client, family)
    scene.apply(plan(route(service, transport, 80, (own, 8080)), pods=[scene.client]))
    if transport == "udp":
        exchange(scene.connect_udp(service, 80), scene.serve_udp(scene.client, family, 8080), b"me")
        return
    listener = scene.lab.listen(scene.client.netns, 8080)
    client = scene.lab.dial(scene.client.netns, service, 80)
    _, accepted = accept_any(listener)
    with accepted:
        accepted.sendall(b"me")
        assert client.recv(64) == b"me"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_dns_address_leads_to_the_nodes_own_server(scene: Scene, family: int) -> None:
    dns, node = DNS[family], scene.node.v4 if family == socket.AF_INET else scene.node.v6
    scene.apply(plan(route(dns, "udp", 53, (node, DNS_PORT)), route(dns, "tcp", 53, (node, DNS_PORT))))
    exchange(scene.connect_udp(dns, 53), scene.lab.bind_udp(scene.node.netns, node, DNS_PORT), b"name?")
    listener = scene.lab.listen(scene.node.netns, DNS_PORT)
    client = scene.lab.dial(scene.client.netns, dns, 53)
    _, accepted = accept_any(listener)
    with accepted:
        accepted.sendall(b"long answer")
        assert client.recv(64) == b"long answer"
    scene.lab.dial(scene.node.netns, dns, 53)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("target", ["near", "far"])
def test_pods_reach_a_pod_of_the_mesh_by_its_inbound_port_only(scene: Scene, family: int, target: str) -> None:
    pod: LabPod = getattr(scene, target)
    scene.apply(plan(guarded=[scene.near, scene.far]))
    for port in (8080, INBOUND_PORT):
        scene.lab.listen(pod.netns, port)
    with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
        scene.lab.dial(scene.client.netns, address_of(pod, family), 8080)
    assert elapsed_s() < AT_ONCE_S
    scene.lab.dial(scene.client.netns, address_of(pod, family), INBOUND_PORT)
    scene.lab.dial(scene.node.netns, address_of(pod, family), 8080)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_users_service_leads_to_a_pod_of_the_mesh(scene: Scene, family: int) -> None:
    """A user Service is routed as any cluster routes it; only the direct dial is guarded."""
    for pod in (scene.near, scene.far):
        listener = scene.lab.listen(pod.netns, 8080)
        scene.apply(
            plan(route(SERVICE[family], "tcp", 80, (address_of(pod, family), 8080)), guarded=[scene.near, scene.far])
        )
        scene.lab.dial(scene.client.netns, SERVICE[family], 80)
        accept_any(listener)[1].close()


@pytest.mark.parametrize("family", FAMILIES)
def test_pods_outside_the_mesh_are_reached_directly(scene: Scene, family: int) -> None:
    scene.apply(plan(guarded=[scene.near]))
    listener = scene.lab.listen(scene.far.netns, 8080)
    scene.lab.dial(scene.client.netns, address_of(scene.far, family), 8080)
    accept_any(listener)[1].close()


def test_removing_the_table_leaves_nothing(scene: Scene) -> None:
    before = scene.nft.list_ruleset()
    scene.apply(plan(route(SERVICE[socket.AF_INET], "tcp", 80, ("10.244.1.9", 8080)), guarded=[scene.near]))
    scene.nft.apply(f"delete table inet {ROUTING_NAME}")
    assert scene.nft.list_ruleset() == before


BACKENDS = st.builds(Backend, st.sampled_from(("10.244.0.1", "10.244.0.2", "10.244.0.3")), st.just(5300))
ROUTES = st.builds(
    ServiceRoute,
    st.sampled_from(("10.96.0.1", "10.96.0.2")),
    st.sampled_from(Transport),
    st.sampled_from((53, 80)),
    st.frozensets(BACKENDS, min_size=1).map(sorted).map(tuple),
)
PLANS = st.builds(
    lambda routes, local, guarded: RoutingPlan(
        routes=tuple(sorted(routes)), refused=REFUSED, local_pods=local, guarded=guarded
    ),
    st.lists(ROUTES, max_size=5, unique_by=lambda route: route.key),
    st.frozensets(st.sampled_from(("10.244.0.1", "fd00:244::1"))),
    st.frozensets(st.sampled_from(("10.244.0.1", "10.244.0.2", "fd00:244::1"))),
)


@pytest.fixture(scope="module")
def ruleset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nft]:
    folder: Path = tmp_path_factory.mktemp("routing")
    with Lab(folder) as lab:
        yield lab.nft(lab.add_node(1).netns)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(old=PLANS, new=PLANS)
def test_an_edit_leads_to_the_same_table_as_a_fresh_start(ruleset: Nft, old: RoutingPlan, new: RoutingPlan) -> None:
    ruleset.apply(render_routing(new))
    fresh = lines(ruleset)
    ruleset.apply(render_routing(old))
    change = diff_routing(old, new)
    assert (change is None) == (old == new)
    if change is not None:
        assert isinstance(change, EditRouting)
        ruleset.apply(render_routing_change(change))
    assert lines(ruleset) == fresh


def lines(ruleset: Nft) -> collections.Counter[str]:
    """The table's lines, without the order in which the kernel keeps chains."""
    text = ruleset.list_table("inet", ROUTING_NAME)
    return collections.Counter(part.strip(" ,\t") for line in text.splitlines() for part in line.split(","))
