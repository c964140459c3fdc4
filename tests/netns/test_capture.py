"""Capture on the real kernel: the rules, with plain transparent listeners where Envoy would be."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.netns.lab import Lab, LabNode, LabPod, accept_any, original_destination, timed

from aether.adapters.kernel.nft import Nft, NftRefused
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT
from aether.plan.capture import CLOSED, CapturePlan, MeshSets, decide, diff_capture, union
from aether.render.nft import CAPTURE_NAME, PROXY_MARK, render_capture, render_capture_change

pytestmark = pytest.mark.root

AT_ONCE_S = 0.5  # what does not answer at once takes a second: the first retransmission
STRAIGHT_PORT = 7777
SETS = MeshSets(
    mesh4=frozenset({"10.96.0.5"}),
    mesh6=frozenset({"fd96::5"}),
    raw4=frozenset({("10.96.0.5", 9000)}),
    raw6=frozenset({("fd96::5", 9000)}),
)
PLAN = CapturePlan(
    captures_all=True,
    sets=SETS,
    exempt_ports=((5432, 5432), (9100, 9110)),
    exempt4=("10.96.0.10/32", "172.16.0.0/12"),
    exempt6=("2001:db8:1::/48", "fd96::a/128"),
)
SCOPED = msgspec.structs.replace(PLAN, captures_all=False)
DESTINATIONS = ("10.96.0.5", "fd96::5", "192.0.2.7", "2001:db8::7")
STRAIGHT = """
add table inet straight
delete table inet straight
table inet straight {
  chain pre {
    type nat hook prerouting priority dstnat;
    iifname "pod-*" meta l4proto tcp dnat ip to 10.243.0.1:7777
    iifname "pod-*" meta l4proto tcp dnat ip6 to [fd00:243::1]:7777
  }
}
"""
"""Whatever leaves the pod as it is arrives at this port of the node, whomever it was for."""


class Scene:
    """A captured pod, listeners for both capture ports in it, and one on the node for what leaves the pod straight."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.node: LabNode = lab.add_node(1)
        self.pod: LabPod = lab.add_pod(self.node)
        self.nft: Nft = lab.nft(self.pod.netns)
        lab.nft(self.node.netns).apply(STRAIGHT)
        self.listeners = {
            CAPTURE_PORT: lab.listen(self.pod.netns, CAPTURE_PORT, is_transparent=True),
            CAPTURE_RAW_PORT: lab.listen(self.pod.netns, CAPTURE_RAW_PORT, is_transparent=True),
            STRAIGHT_PORT: lab.listen(self.node.netns, STRAIGHT_PORT),
        }

    def apply(self, plan: CapturePlan) -> None:
        self.nft.apply(render_capture(plan))

    def where(self, address: str, port: int, *, mark: int = 0) -> int | None:
        """The listener's port that a dial of the pod arrives at; None for straight to the node."""
        with self.lab.dial(self.pod.netns, address, port, mark=mark) as client:
            index, connection = accept_any(*self.listeners.values())
            with connection:
                arrived_at = list(self.listeners)[index]
                if arrived_at == STRAIGHT_PORT:
                    return None
                assert original_destination(connection) == (address, port)
                connection.sendall(b"from the proxy")
                assert client.recv(64) == b"from the proxy"
                return arrived_at


@pytest.fixture
def scene(lab: Lab) -> Scene:
    return Scene(lab)


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("10.96.0.5", 8080, CAPTURE_PORT),
        ("fd96::5", 8080, CAPTURE_PORT),
        ("10.96.0.5", 9000, CAPTURE_RAW_PORT),
        ("fd96::5", 9000, CAPTURE_RAW_PORT),
        ("192.0.2.7", 443, CAPTURE_RAW_PORT),
        ("2001:db8::7", 443, CAPTURE_RAW_PORT),
        ("10.96.0.5", 5432, None),
        ("fd96::5", 9105, None),
        ("172.20.0.1", 80, None),
        ("2001:db8:1::9", 80, None),
        ("10.96.0.10", 53, None),
        ("fd96::a", 53, None),
        ("10.96.0.5", PROXY_PORT, CAPTURE_PORT),
        ("192.0.2.7", PROXY_PORT, CAPTURE_RAW_PORT),
    ],
)
def test_each_dial_arrives_at_the_listener_that_the_plan_names(
    scene: Scene, address: str, port: int, expected: int | None
) -> None:
    scene.apply(PLAN)
    assert scene.where(address, port) == expected == decide(PLAN, address, port)


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("10.96.0.5", PROXY_PORT, CAPTURE_PORT),
        ("fd96::5", PROXY_PORT, CAPTURE_PORT),
        ("10.96.0.5", 8080, None),
        ("fd96::5", 9000, None),
        ("192.0.2.7", PROXY_PORT, None),
        ("2001:db8::7", 443, None),
    ],
)
def test_without_redirect_all_only_the_proxy_port_of_a_mesh_address_is_diverted(
    scene: Scene, address: str, port: int, expected: int | None
) -> None:
    scene.apply(SCOPED)
    assert scene.where(address, port) == expected == decide(SCOPED, address, port)


@pytest.mark.parametrize("address", DESTINATIONS)
def test_the_proxys_own_dials_are_not_captured(scene: Scene, address: str) -> None:
    scene.apply(PLAN)
    assert scene.where(address, 8080, mark=PROXY_MARK) is None


@pytest.mark.parametrize("plan", [PLAN, CLOSED])
def test_loopback_and_the_pods_own_addresses_stay_inside(scene: Scene, plan: CapturePlan) -> None:
    scene.apply(plan)
    server = scene.lab.listen(scene.pod.netns, 8080)
    for address in ("127.0.0.1", "::1", *scene.pod.addresses):
        with scene.lab.dial(scene.pod.netns, address, 8080) as client:
            _, accepted = accept_any(server)
            with accepted:
                assert accepted.getpeername()[1] == client.getsockname()[1]
                assert client.getpeername()[:2] == (address, 8080)


def test_answers_of_the_pods_own_servers_are_not_captured(scene: Scene) -> None:
    scene.apply(PLAN)
    server = scene.lab.listen(scene.pod.netns, 8080)
    for address in scene.pod.addresses:
        with scene.lab.dial(scene.node.netns, address, 8080) as client:
            _, accepted = accept_any(server)
            with accepted:
                accepted.sendall(b"answer")
                assert client.recv(64) == b"answer"


@pytest.mark.parametrize("address", ["10.96.0.5", "fd96::5", "192.0.2.7", "2001:db8::7"])
@pytest.mark.parametrize("missing", [CAPTURE_PORT, CAPTURE_RAW_PORT])
def test_a_captured_dial_is_refused_at_once_while_its_listener_is_missing(
    scene: Scene, address: str, missing: int
) -> None:
    scene.apply(PLAN)
    scene.listeners.pop(missing).close()
    if decide(PLAN, address, 8080) != missing:
        assert scene.where(address, 8080) is not None
        return
    with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
        scene.lab.dial(scene.pod.netns, address, 8080)
    assert elapsed_s() < AT_ONCE_S


def test_a_listener_that_is_not_transparent_does_not_count(scene: Scene) -> None:
    scene.apply(PLAN)
    scene.listeners.pop(CAPTURE_PORT).close()
    scene.lab.listen(scene.pod.netns, CAPTURE_PORT)
    with pytest.raises(ConnectionRefusedError):
        scene.lab.dial(scene.pod.netns, "10.96.0.5", 8080)


@pytest.mark.parametrize("address", DESTINATIONS)
def test_the_closed_table_lets_nothing_out(lab: Lab, address: str) -> None:
    pod = lab.add_pod(lab.add_node(1))
    lab.nft(pod.netns).apply(render_capture(CLOSED))
    with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
        lab.dial(pod.netns, address, 80)
    assert elapsed_s() < AT_ONCE_S


@pytest.mark.parametrize("port", [CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT])
def test_nobody_outside_reaches_a_capture_listener(scene: Scene, port: int) -> None:
    scene.apply(PLAN)
    if port == PROXY_PORT:
        scene.lab.listen(scene.pod.netns, PROXY_PORT)
    for address in scene.pod.addresses:
        with pytest.raises(ConnectionRefusedError):
            scene.lab.dial(scene.node.netns, address, port)


def test_udp_is_never_captured(scene: Scene) -> None:
    scene.apply(PLAN)
    for address, source in (("10.243.0.1", scene.pod.v4), ("fd00:243::1", scene.pod.v6)):
        server = scene.lab.bind_udp(scene.node.netns, address, 5300)
        client = scene.lab.bind_udp(scene.pod.netns, source, 0)
        client.sendto(b"question", (address, 5300))
        data, peer = server.recvfrom(64)
        assert (data, peer[0]) == (b"question", source)


def test_an_element_acts_on_the_next_syn_and_only_on_that(scene: Scene) -> None:
    scene.apply(PLAN)
    new = msgspec.structs.replace(PLAN, sets=SETS | MeshSets(raw4=frozenset({("10.96.0.5", 8080)})))
    with scene.lab.dial(scene.pod.netns, "10.96.0.5", 8080) as client:
        _, accepted = accept_any(scene.listeners[CAPTURE_PORT])
        change = diff_capture(PLAN, new)
        assert change is not None
        scene.nft.apply(render_capture_change(change))
        assert scene.where("10.96.0.5", 8080) == CAPTURE_RAW_PORT
        with accepted:
            for message in (b"still", b"here"):
                client.sendall(message)
                assert accepted.recv(64) == message
    back = diff_capture(new, PLAN)
    assert back is not None
    scene.nft.apply(render_capture_change(back))
    assert scene.where("10.96.0.5", 8080) == CAPTURE_PORT


def test_a_connection_older_than_the_table_stays_straight(scene: Scene) -> None:
    with scene.lab.dial(scene.pod.netns, "192.0.2.7", 80) as client:
        _, accepted = accept_any(scene.listeners[STRAIGHT_PORT])
        scene.apply(PLAN)
        with accepted:
            client.sendall(b"still straight")
            assert accepted.recv(64) == b"still straight"


def test_replacing_the_table_under_load_breaks_nothing(scene: Scene) -> None:
    """Two hundred times, while a captured connection keeps talking and new dials keep coming."""
    other = msgspec.structs.replace(
        PLAN, exempt_ports=((5432, 5432),), sets=SETS | MeshSets(mesh4=frozenset({"10.96.0.7"}))
    )
    scene.apply(PLAN)
    is_over = threading.Event()

    def load() -> int:
        turns = 0
        with scene.lab.dial(scene.pod.netns, "10.96.0.5", 8080) as client:
            _, accepted = accept_any(scene.listeners[CAPTURE_PORT])
            with accepted:
                while not is_over.is_set() or turns < 40:
                    client.sendall(b"x")
                    assert accepted.recv(1) == b"x"
                    assert scene.where("fd96::5", 8080) == CAPTURE_PORT
                    assert scene.where("10.96.0.5", 9000) == CAPTURE_RAW_PORT
                    turns += 1
        return turns

    with ThreadPoolExecutor(max_workers=1) as pool:
        talk = pool.submit(load)
        for turn in range(200):
            scene.apply(PLAN if turn % 2 else other)
        is_over.set()
        assert talk.result() >= 40


def test_removing_the_table_leaves_nothing(scene: Scene) -> None:
    before = scene.nft.list_ruleset()
    scene.apply(PLAN)
    assert scene.nft.list_table("inet", CAPTURE_NAME)
    scene.nft.apply(f"delete table inet {CAPTURE_NAME}")
    assert scene.nft.list_table("inet", CAPTURE_NAME) == ""
    assert scene.nft.list_ruleset() == before
    assert scene.where("10.96.0.5", 8080) is None


ADDRESSES4 = ("10.96.0.5", "10.96.0.6", "172.16.3.4", "192.0.2.7")
ADDRESSES6 = ("fd96::5", "fd96::6", "2001:db8:1::9", "2001:db8::7")
PORTS = (53, 80, 5432, 8080, 9000, PROXY_PORT)


def addresses_of(choices: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(choices), max_size=3)


def pairs_of(choices: tuple[str, ...]) -> st.SearchStrategy[frozenset[tuple[str, int]]]:
    return st.frozensets(st.tuples(st.sampled_from(choices), st.sampled_from(PORTS[:-1])), max_size=3)


PLANS = st.builds(
    CapturePlan,
    captures_all=st.booleans(),
    sets=st.builds(
        MeshSets,
        mesh4=addresses_of(ADDRESSES4),
        mesh6=addresses_of(ADDRESSES6),
        raw4=pairs_of(ADDRESSES4),
        raw6=pairs_of(ADDRESSES6),
    ),
    exempt_ports=st.sampled_from(((), ((80, 80),), ((53, 53), (5000, 6000)))),
    exempt4=st.sampled_from(((), ("172.16.0.0/12",), ("10.96.0.6/32", "192.0.0.0/8"))),
    exempt6=st.sampled_from(((), ("2001:db8:1::/48",), ("fd96::6/128",))),
)


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder: Path = tmp_path_factory.mktemp("capture")
    with Lab(folder) as lab:
        yield Scene(lab)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(plan=PLANS, address=st.sampled_from((*ADDRESSES4, *ADDRESSES6)), ports=st.permutations(PORTS))
def test_the_kernel_decides_as_the_plan_says(
    shared_scene: Scene, plan: CapturePlan, address: str, ports: list[int]
) -> None:
    shared_scene.apply(plan)
    for port in ports:
        assert shared_scene.where(address, port) == decide(plan, address, port)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(old=PLANS, new=PLANS)
def test_a_change_leads_to_the_same_table_as_a_fresh_start(
    shared_scene: Scene, old: CapturePlan, new: CapturePlan
) -> None:
    shared_scene.apply(new)
    fresh = _sorted_lines(shared_scene.nft.list_table("inet", CAPTURE_NAME))
    shared_scene.apply(old)
    both = union(old, new)
    for before, after in ((old, both), (both, new)):
        change = diff_capture(before, after)
        if change is not None:
            shared_scene.nft.apply(render_capture_change(change))
    assert _sorted_lines(shared_scene.nft.list_table("inet", CAPTURE_NAME)) == fresh


def _sorted_lines(text: str) -> list[str]:
    return sorted(part.strip(" ,\t") for line in text.splitlines() for part in line.split(","))


def test_a_refused_ruleset_says_why_and_changes_nothing(scene: Scene) -> None:
    scene.apply(PLAN)
    before = scene.nft.list_ruleset()
    with pytest.raises(NftRefused, match="No such file or directory"):
        scene.nft.apply(f"delete table inet {CAPTURE_NAME}\nadd element inet nowhere mesh4 {{ 10.0.0.1 }}")
    assert scene.nft.list_ruleset() == before
