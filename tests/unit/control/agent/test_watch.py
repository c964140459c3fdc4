"""The looking loop: a real listener on loopback for what a pod serves, a proxy in memory for what its inbound says."""

import socket
from collections.abc import Iterator, Mapping

import msgspec
import pytest
from tests.support.facts import local_pod, node_facts, row

from aether.adapters.clock import ManualClock
from aether.control.agent.health import FAILURES
from aether.control.agent.state import AgentState
from aether.control.agent.watch import LIVENESS_EVERY_S, LOOK_EVERY_S, PROBLEM_LOOKS, PROXY_GRACE_S, HealthWatch
from aether.errors import AetherError
from aether.model.endpoint import Health
from aether.model.facts import LocalPod
from aether.render.envoy.names import probe_healthy_stat

ADDRESS = "10.244.1.2"
UID = "uid-cart-1"


class Application:
    """A raw-TCP listener on loopback, where `connections` waited since they were last counted."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])

    def connections(self) -> int:
        count = 0
        while True:
            try:
                self._listener.accept()[0].close()
            except BlockingIOError:
                return count
            count += 1

    def close(self) -> None:
        self._listener.close()


class MemoryAdmin:
    """A proxy that says what it is told to say: of each pod, whether its inbound answers the probe."""

    def __init__(self) -> None:
        self.live = True
        self.is_mute = False
        self.inbounds: dict[str, int] = {UID: 1}

    async def is_live(self) -> bool:
        return self.live

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        if self.is_mute or not self.live:
            raise AetherError(f"nobody answers for {pattern}")
        return {probe_healthy_stat(uid): value for uid, value in self.inbounds.items()}


class Node:
    """The watch of a node with one pod whose application is on loopback."""

    def __init__(self, application: Application) -> None:
        self.clock = ManualClock()
        self.admin = MemoryAdmin()
        self.application = application
        self.state = AgentState("n1")
        self.changes = 0
        self.state.on_change(self._count)
        self.watch = HealthWatch(self.state, self.admin, clock=self.clock, open_socket=_on_loopback)
        self.clock.advance(PROXY_GRACE_S)
        self.know()

    def know(self, *, health: Health | None = None, **pod: bool) -> None:
        """Facts with the pod as given, and with its row if it has a health."""
        ports = f"{self.application.port}=tcp"
        cart = msgspec.structs.replace(local_pod("cart-1", ADDRESS, ports=ports), **pod)
        rows = [row("shop/cart", ports, address=ADDRESS, health=health)] if health else []
        self.state.facts = node_facts(pods=(cart,), rows=rows)

    async def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(LOOK_EVERY_S)
            await self.watch.step()

    @property
    def is_healthy(self) -> bool:
        return UID in self.state.healthy

    @property
    def codes(self) -> list[str]:
        return [problem.code for problem in self.watch.problems()]

    def _count(self) -> None:
        self.changes += 1


def _on_loopback(_: str, family: socket.AddressFamily, kind: socket.SocketKind) -> socket.socket:
    return socket.socket(family, kind)


@pytest.fixture
def node() -> Iterator[Node]:
    application = Application()
    yield Node(application)
    application.close()


async def test_before_the_first_facts_nothing_is_looked_at(node: Node) -> None:
    node.state.facts = None
    await node.look()
    assert (node.changes, node.application.connections()) == (0, 0)


async def test_a_pod_whose_application_and_inbound_answer_is_healthy(node: Node) -> None:
    await node.look()
    assert node.is_healthy
    assert node.state.is_proxy_live


@pytest.mark.parametrize("inbounds", [{}, {UID: 0}, {"uid-other": 1}])
async def test_a_pod_whose_inbound_does_not_answer_is_not(node: Node, inbounds: dict[str, int]) -> None:
    node.admin.inbounds = inbounds
    await node.look()
    assert not node.is_healthy


async def test_a_pod_whose_application_does_not_answer_is_not(node: Node) -> None:
    node.application.close()
    await node.look()
    assert not node.is_healthy


async def test_a_healthy_pods_application_is_asked_less_often_than_its_inbound(node: Node) -> None:
    await node.look()
    assert node.application.connections() == 1
    await node.look(int(LIVENESS_EVERY_S / LOOK_EVERY_S) - 1)
    assert node.application.connections() == 0
    await node.look()
    assert node.application.connections() == 1


async def test_a_pod_that_is_not_healthy_yet_is_asked_at_each_look(node: Node) -> None:
    node.admin.inbounds = {}
    await node.look(5)
    assert node.application.connections() == 5


async def test_an_application_that_ends_takes_its_pod_out_after_failures_in_a_row(node: Node) -> None:
    await node.look()
    node.application.close()
    node.clock.advance(LIVENESS_EVERY_S)
    await node.look(FAILURES - 1)
    assert node.is_healthy
    await node.look()
    assert not node.is_healthy


async def test_a_pod_that_declares_no_tcp_port_is_live_by_its_own_readiness(node: Node) -> None:
    pod = local_pod("cart-1", ADDRESS, ports="53=udp")
    node.state.facts = node_facts(pods=(pod,))
    await node.look()
    assert node.is_healthy
    node.state.facts = node_facts(pods=(msgspec.structs.replace(pod, is_ready=False),))
    await node.look()
    assert not node.is_healthy


async def test_pods_that_are_not_in_the_mesh_or_terminate_are_not_looked_at(node: Node) -> None:
    ports = f"{node.application.port}=tcp"
    leaving: LocalPod = msgspec.structs.replace(local_pod("a-1", "10.244.1.3", ports=ports), is_terminating=True)
    node.state.facts = node_facts(pods=(leaving, local_pod("b-1", "10.244.1.4", ports=ports, managed="false")))
    await node.look()
    assert (node.state.healthy, node.application.connections()) == (frozenset(), 0)


async def test_what_an_earlier_life_found_healthy_stays_so_from_the_start(node: Node) -> None:
    node.know(health=Health.HEALTHY)
    node.admin.live = False
    await node.look(1)
    assert node.is_healthy


@pytest.mark.parametrize("health", [Health.UNHEALTHY, Health.DRAINING, None])
async def test_what_it_did_not_find_healthy_has_to_prove_itself(node: Node, health: Health | None) -> None:
    node.know(health=health)
    node.admin.inbounds = {}
    await node.look()
    assert not node.is_healthy


async def test_a_row_of_another_node_says_nothing_of_a_pod_here(node: Node) -> None:
    node.know(health=Health.HEALTHY)
    assert node.state.facts is not None
    elsewhere = tuple(msgspec.structs.replace(each, node="n2") for each in node.state.facts.rows)
    node.state.facts = msgspec.structs.replace(node.state.facts, rows=elsewhere)
    node.admin.inbounds = {}
    await node.look()
    assert not node.is_healthy


async def test_a_terminating_pod_is_not_taken_for_healthy_at_the_start(node: Node) -> None:
    node.know(health=Health.HEALTHY, is_terminating=True)
    await node.look()
    assert not node.is_healthy


async def test_a_proxy_that_just_started_and_cannot_say_changes_nothing(node: Node) -> None:
    await node.look()
    node.admin.live = False
    await node.look()
    node.admin.live, node.admin.inbounds = True, {}
    await node.look(int(PROXY_GRACE_S / LOOK_EVERY_S) - 2)
    assert node.is_healthy
    node.admin.inbounds = {UID: 1}
    await node.look(10)
    assert node.is_healthy


async def test_after_its_grace_a_proxy_that_says_nothing_of_a_pod_speaks_against_it(node: Node) -> None:
    await node.look()
    node.admin.live = False
    await node.look()
    node.admin.live, node.admin.inbounds = True, {}
    node.clock.advance(PROXY_GRACE_S)
    await node.look(FAILURES)
    assert not node.is_healthy


async def test_a_look_that_fails_changes_nothing(node: Node) -> None:
    await node.look()
    node.admin.is_mute = True
    for _ in range(FAILURES * 2):
        with pytest.raises(AetherError):
            await node.look()
    assert node.is_healthy


async def test_a_proxy_that_stays_away_takes_every_pod_out(node: Node) -> None:
    await node.look()
    node.admin.live = False
    await node.look(FAILURES + int(PROXY_GRACE_S / LOOK_EVERY_S))
    assert not node.state.is_proxy_live
    assert not node.is_healthy


async def test_containers_that_are_not_ready_take_their_pod_out_at_once(node: Node) -> None:
    await node.look()
    node.know(is_ready=False)
    await node.look()
    assert not node.is_healthy


async def test_it_tells_when_something_changed_and_never_else(node: Node) -> None:
    await node.look()
    assert node.changes == 1
    await node.look(3)
    assert node.changes == 1
    node.admin.live = False
    await node.look()
    assert node.changes == 2, "the proxy is away"


async def test_a_ready_pod_that_takes_no_traffic_for_some_time_is_reported_with_its_reason(node: Node) -> None:
    node.application.close()
    await node.look(PROBLEM_LOOKS - 1)
    assert node.codes == []
    before = node.changes
    await node.look()
    assert node.codes == ["not-live"]
    assert node.changes == before + 1
    [problem] = node.watch.problems()
    assert problem.subject == "Pod shop/cart-1"
    assert str(node.application.port) in problem.message


async def test_the_reason_is_the_inbound_where_the_application_answers(node: Node) -> None:
    node.admin.inbounds = {}
    await node.look(PROBLEM_LOOKS)
    assert node.codes == ["inbound-not-ready"]
    node.admin.inbounds = {UID: 1}
    await node.look()
    assert node.codes == []


async def test_a_pod_whose_containers_are_not_ready_is_its_runners_to_report(node: Node) -> None:
    node.know(is_ready=False)
    await node.look(PROBLEM_LOOKS)
    assert node.codes == []
