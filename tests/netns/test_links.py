"""Fabric, nodes and pods on the real kernel: who reaches whom, and how fast one learns that nobody is there."""

import socket
from pathlib import Path

import pytest
from tests.netns.lab import Lab, accept_any, timed

from aether.adapters.kernel import links
from aether.adapters.kernel.netns import is_netns
from aether.adapters.kernel.syscall import KernelError

pytestmark = pytest.mark.root

AT_ONCE_S = 0.5  # what does not answer at once takes a second: the first retransmission
QUESTIONS = (
    ("ip", "-o", "address"),
    ("ip", "rule"),
    ("ip", "-6", "rule"),
    ("ip", "-4", "route", "show", "table", "all"),
    ("ip", "-6", "route", "show", "table", "all"),
    ("ip", "neighbour"),
)


def look(lab: Lab, netns: Path) -> list[list[str]]:
    """The state of a namespace, but for what the kernel settles later."""
    answers = [sorted(lab.output(netns, *question).splitlines()) for question in QUESTIONS]
    return [[line for line in lines if "multicast" not in line and "anycast" not in line] for lines in answers]


def test_pods_and_nodes_reach_every_pod_with_their_own_address(lab: Lab) -> None:
    first, second = lab.add_node(1), lab.add_node(2)
    server, neighbour, stranger = lab.add_pod(first), lab.add_pod(first), lab.add_pod(second)
    listener = lab.listen(server.netns, 80)
    for source in (first, second, neighbour, stranger):
        for address, expected in ((server.v4, source.v4), (server.v6, source.v6)):
            with timed() as elapsed_s:
                lab.dial(source.netns, address, 80)
            assert elapsed_s() < AT_ONCE_S, "no address is resolved on the way"
            _, accepted = accept_any(listener)
            with accepted:
                assert accepted.getpeername()[0].removeprefix("::ffff:") == expected


@pytest.mark.parametrize(
    "address",
    ["192.0.2.1", "2001:db8::1", "10.244.1.99", "fd00:244:1::99", "10.244.9.9", "fd00:244:9::9", "10.243.0.9"],
)
def test_a_dial_to_an_address_that_nobody_has_is_refused_at_once(lab: Lab, address: str) -> None:
    pod = lab.add_pod(lab.add_node(1))
    for _ in range(10):
        with timed() as elapsed_s, pytest.raises(ConnectionRefusedError):
            lab.dial(pod.netns, address, 80)
        assert elapsed_s() < AT_ONCE_S


def test_a_datagram_to_an_address_that_nobody_has_is_refused_at_once(lab: Lab) -> None:
    pod = lab.add_pod(lab.add_node(1))
    for address, family in (("192.0.2.1", socket.AF_INET), ("2001:db8::1", socket.AF_INET6)):
        for _ in range(10):
            sock = lab.open_socket(pod.netns, family, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_IP, 11, 1)  # IP_RECVERR: report what ICMP says
            sock.setsockopt(socket.IPPROTO_IPV6, 25, 1) if family == socket.AF_INET6 else None  # IPV6_RECVERR
            sock.connect((address, 53))
            sock.send(b"x")
            with timed() as elapsed_s, pytest.raises(OSError, match=r"unreachable|route") as refusal:
                sock.recv(64)
            assert not isinstance(refusal.value, TimeoutError)
            assert elapsed_s() < AT_ONCE_S


def test_a_pods_own_addresses_are_local_from_the_first_moment(lab: Lab) -> None:
    """The kernel makes an IPv6 address local later; a dial of it in between would leave the pod."""
    node = lab.add_node(1)
    for _ in range(15):
        pod = lab.add_pod(node)
        listener = lab.listen(pod.netns, 8080)
        for address in pod.addresses:
            lab.dial(pod.netns, address, 8080)
            accept_any(listener)[1].close()
        assert "local" in lab.output(pod.netns, "ip", "-6", "route", "show", "table", "local", pod.v6)


def test_making_a_pod_again_changes_nothing(lab: Lab) -> None:
    node = lab.add_node(1)
    pod = lab.add_pod(node)
    before = [look(lab, netns) for netns in (pod.netns, node.netns)]
    lab.run(links.add_node, 1, node.netns)
    lab.run(links.add_pod, node.netns, pod.netns, pod.uid, pod.addresses, sources=(node.v4, node.v6))
    assert [look(lab, netns) for netns in (pod.netns, node.netns)] == before


def test_a_removed_pod_leaves_no_link_no_route_and_no_namespace(lab: Lab) -> None:
    node = lab.add_node(1)
    before = look(lab, node.netns)
    pod = lab.add_pod(node)
    for _ in range(2):
        lab.run(links.remove_pod, node.netns, pod.netns, pod.uid)
    assert look(lab, node.netns) == before
    assert not pod.netns.exists()


def test_a_removed_node_takes_its_link_and_namespace_along(lab: Lab) -> None:
    node = lab.add_node(1)
    for _ in range(2):
        lab.run(links.remove_node, 1, node.netns)
    assert not lab.run(is_netns, node.netns)
    with pytest.raises(KernelError):
        lab.open_socket(node.netns, socket.AF_INET, socket.SOCK_STREAM)


def test_an_address_comes_back_with_another_pod(lab: Lab) -> None:
    """A new pod, a new path, the old address: nothing remembers the old one."""
    node = lab.add_node(1)
    old = lab.add_pod(node)
    lab.run(links.remove_pod, node.netns, old.netns, old.uid)
    new = old.netns.with_name("pod-again")
    lab.run(links.add_pod, node.netns, new, "uid-again", old.addresses, sources=(node.v4, node.v6))
    listener = lab.listen(new, 80)
    for address in old.addresses:
        lab.dial(node.netns, address, 80)
        accept_any(listener)[1].close()


def test_pods_have_no_addresses_but_their_own(lab: Lab) -> None:
    pod = lab.add_pod(lab.add_node(1))
    shown = lab.output(pod.netns, "ip", "-o", "address", "show", "dev", "eth0")
    assert [line.split()[3] for line in shown.splitlines()] == [f"{pod.v4}/32", f"{pod.v6}/128"]
    assert "tentative" not in shown


def test_a_wrong_address_is_the_kernels_error(lab: Lab) -> None:
    node = lab.add_node(1)
    with pytest.raises(KernelError, match="netlink"):
        lab.run(
            links.add_pod, node.netns, node.netns.with_name("pod-x"), "x", ("10.244.1.2",), sources=("198.51.100.1",)
        )
