"""Case T-A9: the first call to a service that its node knows nothing of, and a call to a name that does not exist.

What happens after an idle time (the case's TTL) is not here: observed services do not expire yet.
"""

import pytest
from tests.support.figures import Figure
from tests.support.manifests import client, echo, namespace, together
from tests.support.world import RunningWorld

from aether.model.world import NodeScope

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("cases-cold")]

NODES = 2
CLIENT = "cold/client"
ON_NODE_2 = {"nodeName": "node-2"}
PENALTY_LIMIT_S = 0.25
REFUSAL_LIMIT_S = 2.5

MANIFESTS = together(
    namespace("cold"),
    *(echo(name, "cold", ["8080=http"], declares="8080", extra=ON_NODE_2) for name in ("rare", "other", "loop")),
    echo("named", "cold", ["8080=http"], declares="8080", extra=ON_NODE_2),
    echo("raw", "cold", ["9000=banner"], declares="9000=tcp", extra=ON_NODE_2),
    client("client", "cold", annotations={"config.aether.io/upstreams": "named"}, node="node-1"),
)


def scope(mesh: RunningWorld) -> NodeScope:
    return mesh.api.get("/v1/scope/node-1", reply=NodeScope)


def because(mesh: RunningWorld, service: str) -> str:
    """Why node-1 holds the service's endpoints; "" if it does not."""
    return next((entry.because for entry in scope(mesh).entries if entry.name == service), "")


FIRST_BYTE = """
import http.client, sys, time
host, port, count = sys.argv[1], 8080, int(sys.argv[2])
for _ in range(count):
    connection = http.client.HTTPConnection(host, port, timeout=5)
    connection.connect()
    started = time.monotonic()
    connection.request("GET", "/", headers={"Host": f"{sys.argv[3]}:8080"})
    answer = connection.getresponse()
    print(answer.status, f"{time.monotonic() - started:.4f}")
    answer.read()
    connection.close()
"""


def first_bytes_s(mesh: RunningWorld, service: str, count: int) -> list[float]:
    """Seconds from the request to the answer's head, of calls on connections of their own; all are 200."""
    host = f"{service}.cold.aether.internal"
    lines = [line.split() for line in mesh.python(CLIENT, FIRST_BYTE, host, str(count), host).out.splitlines()]
    assert [status for status, _ in lines] == ["200"] * count
    return [float(seconds) for _, seconds in lines]


def test_t_a9_a_cold_call_is_answered_and_only_the_first_one_costs(mesh: RunningWorld, figure: Figure) -> None:
    assert because(mesh, "rare") == ""
    misses = scope(mesh).misses
    cold, *warm = first_bytes_s(mesh, "rare", 21)
    usual = sorted(warm)[10]
    figure("T-A9 first byte of a cold call over a warm one, ms", (cold - usual) * 1000)
    figure("T-A9 first byte of a warm call, ms", usual * 1000)
    assert cold - usual < PENALTY_LIMIT_S
    assert warm[0] - usual < PENALTY_LIMIT_S / 2
    assert scope(mesh).misses == misses + 1
    assert because(mesh, "rare") == "observed"
    assert first_bytes_s(mesh, "rare", 1)
    assert scope(mesh).misses == misses + 1


def test_t_a9_scope_says_why_a_service_is_held(mesh: RunningWorld) -> None:
    mesh.curl(CLIENT, "http://other:8080/")
    lines = mesh.aether("scope", "node-1").out.splitlines()
    held = {line.split()[0]: line.split()[1] for line in lines if line.startswith("cold/")}
    assert held["cold/other"] == "observed"
    assert held["cold/named"] == "declared"
    assert held["cold/client"] == "own"


def test_t_a9_a_declared_upstream_is_never_cold(mesh: RunningWorld) -> None:
    misses = scope(mesh).misses
    first_bytes_s(mesh, "named", 1)
    assert scope(mesh).misses == misses


def test_t_a9_a_cold_call_by_the_proxy_port_is_answered(mesh: RunningWorld) -> None:
    assert because(mesh, "loop") == ""
    answer = mesh.curl(CLIENT, "http://127.0.0.1:18081/", "-H", "Host: loop:8080")
    assert (answer.status, answer.json()["service"]) == (200, "cold/loop")


def test_t_a9_a_cold_raw_tcp_connection_is_carried(mesh: RunningWorld) -> None:
    script = "import socket; print(socket.create_connection(('raw', 9000), timeout=5).recv(200).decode())"
    assert because(mesh, "raw") == ""
    assert "service=cold/raw port=9000 " in mesh.python(CLIENT, script).out
    assert because(mesh, "raw") == "observed"


UNKNOWN = [("nobody.cold:8080", 404), ("nobody.cold.aether.internal:8080", 404), ("other:7777", 421)]


@pytest.mark.parametrize(("host", "status"), UNKNOWN)
def test_t_a9_what_does_not_exist_is_refused_and_leaves_nothing_behind(
    mesh: RunningWorld, host: str, status: int
) -> None:
    before = scope(mesh)
    answer = mesh.curl(CLIENT, "http://127.0.0.1:18081/", "-H", f"Host: {host}")
    assert answer.status == status
    assert answer.seconds < REFUSAL_LIMIT_S
    assert scope(mesh) == before


def test_t_a9_a_name_that_does_not_exist_does_not_resolve(mesh: RunningWorld) -> None:
    answer = mesh.curl(CLIENT, "http://nobody.cold.aether.internal:8080/")
    assert (answer.code, answer.status) == (6, 0)
    assert answer.seconds < REFUSAL_LIMIT_S
