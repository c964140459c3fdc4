"""Application UDP is routed, not proxied (spec section 6): from pods, to Service addresses, IPv4 and IPv6."""

import time

import pytest
from tests.support.manifests import client, echo, namespace, service, together
from tests.support.world import RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("udp")]

NODES = 2
CLIENT = "udp/client"
FAMILIES = ("4", "6")
REFUSAL_LIMIT_S = 0.5
MOVE_LIMIT_S = 5.0

MANIFESTS = together(
    namespace("udp"),
    echo("clock", "udp", ["53=udp", "53=tcp", "123=udp", "8080=http"], declares="53=udp,53=tcp,123=udp,8080"),
    echo("pair", "udp", ["700=udp"], declares="700=udp", replicas=2),
    echo("leaving", "udp", ["700=udp", "8080=http"], declares="700=udp,8080", replicas=2),
    service("empty", "udp", {"selector": {"app": "nobody"}, "ports": [{"port": 700, "protocol": "UDP"}]}),
    client("client", "udp"),
)

ASK = """
import socket, sys, time
host, port, family, how, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
kind = socket.AF_INET6 if family == "6" else socket.AF_INET
address = socket.getaddrinfo(host, port, kind, socket.SOCK_DGRAM)[0][4]
started = time.monotonic()
for _ in range(count):
    with socket.socket(kind, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        try:
            if how == "connected":
                asking.connect(address)
                asking.send(b"ping")
                print(asking.recv(2000).decode(), "from", "peer")
            else:
                asking.sendto(b"ping", address)
                answer, source = asking.recvfrom(2000)
                print(answer.decode(), "from", "peer" if source[:2] == address[:2] else source)
        except OSError as error:
            print(type(error).__name__, f"{time.monotonic() - started:.3f}")
"""

ASK_TCP = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
    connection.sendall(b"ping")
    print(connection.recv(200).decode())
"""


def ask(mesh: RunningWorld, host: str, port: int, family: str, *, how: str = "free", count: int = 1) -> list[str]:
    ran = mesh.python(CLIENT, ASK, host, str(port), family, how, str(count))
    assert ran.code == 0, ran
    return ran.out.splitlines()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("port", [53, 123])
def test_a_reply_comes_from_the_address_and_port_that_was_asked(mesh: RunningWorld, port: int, family: str) -> None:
    (line,) = ask(mesh, "clock.udp.aether.internal", port, family)
    assert line.startswith(f"service=udp/clock port={port} ")
    assert line.endswith(" ping from peer")


@pytest.mark.parametrize("family", FAMILIES)
def test_one_number_for_tcp_and_udp_is_two_ports(mesh: RunningWorld, family: str) -> None:
    (line,) = ask(mesh, "clock", 53, family)
    assert line.startswith("service=udp/clock port=53 ")
    assert mesh.python(CLIENT, ASK_TCP, "clock", "53").out.startswith("service=udp/clock port=53 ")


@pytest.mark.parametrize("family", FAMILIES)
def test_both_endpoints_are_asked(mesh: RunningWorld, family: str) -> None:
    lines = ask(mesh, "pair", 700, family, count=40)
    assert len({line.split()[2] for line in lines}) == 2, lines


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("host", "port"), [("empty", 700), ("clock", 54), ("clock", 8080)])
def test_a_udp_port_without_endpoints_is_refused_at_once(mesh: RunningWorld, host: str, port: int, family: str) -> None:
    (line,) = ask(mesh, host, port, family, how="connected")
    refusal, _, seconds = line.partition(" ")
    assert refusal == "ConnectionRefusedError", line
    assert float(seconds) < REFUSAL_LIMIT_S


def test_http_to_a_udp_port_is_not_declared(mesh: RunningWorld) -> None:
    answer = mesh.curl(CLIENT, "http://clock:123/")
    assert (answer.status, answer.error) == (421, "port-not-declared")
    assert answer.body.strip() == "clock serves 53=tcp, 53=udp, 123=udp, 8080=http"


FLOW = """
import socket, sys, time
kind = socket.AF_INET6 if sys.argv[1] == "6" else socket.AF_INET
with socket.socket(kind, socket.SOCK_DGRAM) as flow:
    flow.settimeout(0.2)
    flow.connect(socket.getaddrinfo("leaving", 700, kind, socket.SOCK_DGRAM)[0][4])
    while True:
        try:
            flow.send(b"x")
            print(flow.recv(2000).decode().split()[2], flush=True)
        except OSError as error:
            print(type(error).__name__, flush=True)
        time.sleep(0.02)
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_flow_moves_on_when_its_endpoint_leaves(mesh: RunningWorld, family: str) -> None:
    with mesh.start(CLIENT, "python3", "-c", FLOW, family) as flow:
        first = flow.out.readline().decode().strip().removeprefix("pod=")
        stays = {flow.out.readline().decode().strip() for _ in range(10)}
        assert stays == {f"pod={first}"}
        assert mesh.aether("delete", "pod", f"udp/{first}").code == 0
        started = time.monotonic()
        line = ""
        while not line.startswith("pod=") or line == f"pod={first}":
            assert time.monotonic() - started < MOVE_LIMIT_S, f"still {line}"
            line = flow.out.readline().decode().strip()
        after = {flow.out.readline().decode().strip() for _ in range(20)}
        assert after == {line}
    mesh.wait_ready()


def test_an_endpoint_that_is_not_healthy_gets_no_datagram(mesh: RunningWorld) -> None:
    """It answers datagrams, but not the liveness check of its HTTP port."""
    sick = echo("sick", "udp", ["700=udp"], declares="700=udp,8080")
    assert mesh.apply(sick).code == 0
    mesh.wait("the name", lambda: mesh.exec(CLIENT, "getent", "hosts", "sick").code == 0)
    (line,) = ask(mesh, "sick", 700, "4", how="connected")
    assert line.startswith("ConnectionRefusedError"), line
    assert mesh.aether("delete", "-f", "-", stdin=sick).code == 0
    mesh.wait_ready()
