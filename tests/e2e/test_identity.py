"""Whose connection it is: two pods of different ServiceAccounts on one node share an Envoy, and never a connection.

The echo says whom its proxy saw (XFCC); for raw TCP the inbound's own log is counted. What makes it so is one field of
filter state, so a test bends that field and sees identities mixed: these tests can fail.
"""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.bent import BentWorld, bent_world
from tests.support.manifests import client, echo, namespace, together
from tests.support.proxy import access_lines, gauges

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("identity")]

MULTIPLEX = str(Path(__file__).parents[1] / "support/clients/multiplex.py")
MANIFESTS = together(
    namespace("id"),
    echo("web", "id", ["8080=http", "9000=tcp"], declares="8080,9000=tcp"),
    echo("site", "id", ["8080=h2", "9000=banner"], declares="8080=h2,9000=tcp"),
    client("red", "id"),
    client("blue", "id"),
)
CALLERS = ("red", "blue")
CAPTURED = "web.id:8080"
PROXY_PORT = "127.0.0.1:18081"
AUTHORITIES = ("web.id:8080", "site.id:8080")
HOPS_LIMIT = 50
"""A few connections for each worker and caller carry 2,500 requests; more of them while the first are being opened."""


@pytest.fixture(scope="module")
def mesh() -> Iterator[BentWorld]:
    with bent_world(f"identity-{os.getpid()}", MANIFESTS) as running:
        yield running


def identity(caller: str) -> str:
    return f"spiffe://aether.internal/ns/id/sa/{caller}"


def ask_together(
    mesh: BentWorld, how: str, target: str, *, connections: int, streams: int, requests: int
) -> Counter[str]:
    """Both callers at once. How many answers of each `caller service identity`."""
    seen: Counter[str] = Counter()
    words = (MULTIPLEX, how, target, str(connections), str(streams), str(requests), *AUTHORITIES)
    with mesh.start("id/red", "python3", *words) as red, mesh.start("id/blue", "python3", *words) as blue:
        for caller, running in (("red", red), ("blue", blue)):
            ran = running.finish(60)
            assert ran.code == 0, ran
            seen.update({f"{caller} {key}": count for key, count in json.loads(ran.out).items()})
    return seen


def all_right(requests: int) -> Counter[str]:
    """Every caller's requests, half of them answered by each service, under the caller's own name."""
    services = ("id/web", "id/site")
    return Counter({f"{c} {service} {identity(c)}": requests // 2 for c in CALLERS for service in services})


@pytest.mark.parametrize("target", [CAPTURED, PROXY_PORT])
def test_multiplexed_requests_of_two_pods_arrive_under_their_callers_names(mesh: BentWorld, target: str) -> None:
    before = hops(mesh)
    seen = ask_together(mesh, "h2", target, connections=5, streams=50, requests=2_500)
    assert seen == all_right(2_500)
    for cluster, opened in hops(mesh).items():
        assert opened - before.get(cluster, 0) <= HOPS_LIMIT, "the hop is multiplexed as well"


def hops(mesh: BentWorld) -> dict[str, int]:
    """Connections opened to each service."""
    return gauges(mesh, r"^cluster\.id/(web|site)\.upstream_cx_total$")


def test_keep_alive_requests_of_two_pods_arrive_under_their_callers_names(mesh: BentWorld) -> None:
    seen = ask_together(mesh, "h1", CAPTURED, connections=20, streams=1, requests=2_500)
    assert seen == all_right(2_500)


HOLD = """
import signal, socket, sys
host, count = sys.argv[1], int(sys.argv[2])
held = [socket.create_connection((host, 9000), timeout=5) for _ in range(count)]
for one in held:
    one.sendall(b"hello")
    assert one.recv(200).startswith(b"service=id/"), one
print("held", flush=True)
signal.pause()
"""


def hold_together(mesh: BentWorld, counts: dict[str, int]) -> Counter[str]:
    """Raw TCP connections to each service, of each caller while the others hold theirs; how many were whose."""
    before = len(raw_peers(mesh))
    with contextlib.ExitStack() as stack:
        for caller, count in counts.items():
            for host in ("web.id", "site.id"):
                holding = stack.enter_context(mesh.start(f"id/{caller}", "python3", "-c", HOLD, host, str(count)))
                assert holding.out.readline() == b"held\n", holding.finish(5)
    total = before + 2 * sum(counts.values())
    mesh.wait("every connection in the log", lambda: len(raw_peers(mesh)) >= total)
    return Counter(raw_peers(mesh)[before:])


def raw_peers(mesh: BentWorld) -> list[str]:
    lines = access_lines(mesh)
    return [
        line["peer"]
        for line in lines
        if (line["entry"], line["kind"], line["dialled_port"]) == ("inbound", "tcp", "9000")
    ]


def test_raw_tcp_connections_of_two_pods_are_their_callers_own(mesh: BentWorld) -> None:
    with mesh.bent(("logged-connections",)):
        seen = hold_together(mesh, {"red": 60, "blue": 90})
    assert seen == {identity("red"): 120, identity("blue"): 180}


def test_identities_are_mixed_when_the_callers_name_is_not_part_of_a_pools_key(mesh: BentWorld) -> None:
    with mesh.bent(("plain-identity",), ("logged-connections",)):
        seen = ask_together(mesh, "h2", CAPTURED, connections=5, streams=50, requests=500)
        assert sum(seen.values()) == 1_000
        assert seen != all_right(500), "the tests above could not fail"
        raw = hold_together(mesh, {"red": 60, "blue": 90})
        assert raw != {identity("red"): 120, identity("blue"): 180}, "the test above could not fail"
    assert ask_together(mesh, "h2", CAPTURED, connections=5, streams=50, requests=500) == all_right(500)
