"""Case T-A10: ten instances are replaced, twice, under load from three nodes, and no request fails."""

import contextlib
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.figures import Figure
from tests.support.manifests import client, deployment, namespace, together
from tests.support.proxy import gauges, routes
from tests.support.world import RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("cases-rollout")]

NODES = 3
INSTANCES = 10
RATE_PER_CLIENT = 67
DRAIN_LIMIT_S = 1.0

EXITS_1_S_AFTER_SIGTERM = """
python3 -m aether.workloads.echo 8080=http & echo=$!
trap 'sleep 1; kill -KILL $echo' TERM
wait; wait
"""


def web(version: str) -> str:
    """The instances; another version is another template."""
    return deployment(
        "web",
        "roll",
        ["sh", "-c", EXITS_1_S_AFTER_SIGTERM],
        annotations={"endpoint.aether.io/ports": "8080", "version": version},
        replicas=INSTANCES,
    )


CLIENTS = [f"client-{number}" for number in range(1, NODES + 1)]
MANIFESTS = together(
    namespace("roll"),
    web("1"),
    *(client(name, "roll", node=f"node-{number}") for number, name in enumerate(CLIENTS, start=1)),
)

LOAD = """
import http.client, json, os, sys, threading, time
stop, rate, threads = sys.argv[1], float(sys.argv[2]), 4
failed, took, pods = [], [], set()
def ask(connection):
    connection.request("GET", "/")
    answer = connection.getresponse()
    body = answer.read()
    return answer.status, answer.getheader("x-aether-error"), body
def work(number):
    is_keeping = number % 2 == 0
    connection, due = None, time.monotonic()
    while not os.path.exists(stop):
        due += threads / rate
        time.sleep(max(0, due - time.monotonic()))
        started = time.monotonic()
        try:
            connection = connection or http.client.HTTPConnection("web", 8080, timeout=10)
            status, error, body = ask(connection)
        except Exception as problem:
            status, error = type(problem).__name__, str(problem)
        took.append(time.monotonic() - started)
        if status == 200:
            pods.add(json.loads(body)["pod"])
        else:
            failed.append([time.time(), status, error])
        if status != 200 or not is_keeping:
            connection.close()
            connection = None
workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
for worker in workers:
    worker.start()
print("begun", flush=True)
for worker in workers:
    worker.join()
print(json.dumps({"sent": len(took), "failed": failed, "slowest_s": max(took), "pods": len(pods)}))
"""


class Load(msgspec.Struct):
    """What three clients together saw."""

    sent: int = 0
    failed: list[Any] = []
    slowest_s: float = 0.0


@contextlib.contextmanager
def load(mesh: RunningWorld, folder: Path) -> Iterator[Load]:
    """200 requests a second from three nodes while the block runs; its figures are there after it."""
    stop = folder / "stop"
    total = Load()
    with contextlib.ExitStack() as running:
        command = ("python3", "-c", LOAD, str(stop), str(RATE_PER_CLIENT))
        clients = [running.enter_context(mesh.start(f"roll/{name}", *command)) for name in CLIENTS]
        assert [one.out.readline() for one in clients] == [b"begun\n"] * NODES
        try:
            yield total
        finally:
            stop.touch()
        for one in clients:
            result = one.finish(30).json()
            total.sent += result["sent"]
            total.failed += result["failed"]
            total.slowest_s = max(total.slowest_s, result["slowest_s"])


HEALTHY = r"^cluster\.roll/web\.membership_healthy$"


def members(mesh: RunningWorld) -> int:
    """How many healthy endpoints the proxies have, of all nodes together."""
    return sum(gauges(mesh, HEALTHY).values())


def test_t_a10_replacing_every_instance_fails_no_request(mesh: RunningWorld, figure: Figure, tmp_path: Path) -> None:
    everyone = NODES * INSTANCES
    for name in CLIENTS:
        assert mesh.curl(f"roll/{name}", "http://web:8080/").status == 200
    mesh.wait("every proxy to have every instance", lambda: members(mesh) == everyone)
    before = unchanged(mesh)
    drained_s = []
    began = time.monotonic()
    with load(mesh, tmp_path) as seen:
        for pod in [pod["metadata"]["name"] for pod in mesh.pods("roll", "web")]:
            marked = time.monotonic()
            mesh.api.call("DELETE", f"/v1/objects/pods/roll/{pod}", reply=dict[str, Any])
            while members(mesh) > everyone - NODES:
                assert time.monotonic() - marked < 10
            drained_s.append(time.monotonic() - marked)
            mesh.wait("its successor", lambda: members(mesh) == everyone)
    seconds = time.monotonic() - began
    figure("T-A10 requests", seen.sent)
    figure("T-A10 requests per second", seen.sent / seconds)
    figure("T-A10 slowest request, ms", seen.slowest_s * 1000)
    figure("T-A10 draining to the last proxy, median, ms", statistics.median(drained_s) * 1000)
    figure("T-A10 draining to the last proxy, slowest, ms", max(drained_s) * 1000)
    assert seen.failed == []
    assert max(drained_s) < DRAIN_LIMIT_S
    assert unchanged(mesh) == before


def test_t_a10_a_change_of_a_pod_pushes_no_route_table_at_all(mesh: RunningWorld) -> None:
    before = routes(mesh)
    (pod, *_) = [pod["metadata"]["name"] for pod in mesh.pods("roll", "web")]
    mesh.api.call("DELETE", f"/v1/objects/pods/roll/{pod}", reply=dict[str, Any])
    mesh.wait("a successor", lambda: is_replaced(mesh, {pod}))
    assert routes(mesh) == before


def test_t_a10_a_rolling_update_fails_no_request(mesh: RunningWorld, figure: Figure, tmp_path: Path) -> None:
    old = {pod["metadata"]["name"] for pod in mesh.pods("roll", "web")}
    with load(mesh, tmp_path) as seen:
        assert mesh.apply(web("2")).code == 0
        mesh.wait("ten new instances", lambda: is_replaced(mesh, old), limit_s=60)
    figure("T-A10 requests during a rolling update", seen.sent)
    assert seen.failed == []


def is_replaced(mesh: RunningWorld, old: set[str]) -> bool:
    now = {pod["metadata"]["name"] for pod in mesh.pods("roll", "web")}
    return len(now) == INSTANCES and not now & old and members(mesh) == NODES * INSTANCES


def unchanged(mesh: RunningWorld) -> Any:
    """What a change of endpoints must not touch: the tables, and the listeners of other pods."""
    return routes(mesh), gauges(mesh, r"^listener_manager\.listener_modified$")
