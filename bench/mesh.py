"""One running mesh: its start, refusals, server-first, a cold call, and an endpoint change until Envoy has it.

Targets (architecture, section 4): up ≤ 10 s; change to ack p50 ≤ 50 ms, p99 ≤ 200 ms; refusal p99 ≤ 5 ms; server-first
≤ 5 ms over direct; cold ≤ 30 ms over warm.
"""

import http.client
import json
import os
import socket
import tempfile
import time
from pathlib import Path

from tests.support.manifests import client, echo, namespace, together
from tests.support.world import RunningWorld, world

from bench.figures import show, show_times

TIMES = """
import http.client, json, socket, sys, time
kind, host, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
address = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4]
times = []
if kind == "http":
    connection = http.client.HTTPConnection(address[0], port, timeout=5)
for _ in range(count):
    started = time.perf_counter()
    if kind == "first":
        with socket.create_connection(address, timeout=5) as connection:
            connection.recv(100)
    elif kind == "new":
        connection = http.client.HTTPConnection(address[0], port, timeout=5)
        connection.request("GET", "/", headers={"host": f"{host}:{port}"})
        connection.getresponse().read()
        connection.close()
    else:
        connection.request("GET", "/", headers={"host": f"{host}:{port}"})
        connection.getresponse().read()
    times.append(time.perf_counter() - started)
print(json.dumps(times))
"""


def main(smoke: bool) -> None:  # noqa: FBT001
    count, pods, cold = (20, 3, 2) if smoke else (1_000, 46, 40)
    services = [echo(f"cold-{number}", "cold", ["8080=http"], declares="8080") for number in range(cold)]
    many = echo("many", "bench", ["8080=http"], declares="8080", replicas=pods)
    manifests = together(
        namespace("bench"),
        namespace("cold"),
        echo("web", "bench", ["8080=http", "9000=banner"], declares="8080,9000=tcp", replicas=2),
        client("client", "bench"),
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "bench.yaml").write_text(manifests)
        started = time.monotonic()
        with world(f"bench-{os.getpid()}", Path(folder), nodes=2) as mesh:
            show("aether up, 3 pods, 2 nodes", up_s=time.monotonic() - started)
            _measure_calls(mesh, count)
            _measure_cold(mesh, services)
            _measure_changes(mesh, 5 if smoke else 40)
            mesh.apply(many)
            mesh.wait_ready()
            _measure_memory(mesh)


def _times(mesh: RunningWorld, kind: str, host: str, port: int, count: int) -> list[float]:
    ran = mesh.python("bench/client", TIMES, kind, host, str(port), str(count), limit_s=120)
    assert ran.code == 0, ran
    times: list[float] = json.loads(ran.out)
    return times[1:] or times


def _measure_calls(mesh: RunningWorld, count: int) -> None:
    name = "web.bench.aether.internal"
    show_times("delivered, kept connection", _times(mesh, "http", name, 8080, count))
    show_times("delivered, new connection", _times(mesh, "new", name, 8080, count))
    show_times("refused (port-not-declared), new connection", _times(mesh, "new", name, 7777, count))
    show_times("server-first, first byte, by the mesh", _times(mesh, "first", name, 9000, count))
    pod = mesh.pods("bench", "web")[0]
    direct = mesh.python(f"bench/{pod['metadata']['name']}", TIMES, "first", "127.0.0.1", "9000", str(count))
    show_times("server-first, first byte, direct", json.loads(direct.out)[1:])


def _measure_cold(mesh: RunningWorld, services: list[str]) -> None:
    mesh.apply(together(*services))
    mesh.wait_ready()
    cold, warm = [], []
    for number in range(len(services)):
        host = f"cold-{number}.cold.aether.internal"
        first, *more = json.loads(mesh.python("bench/client", TIMES, "new", host, "8080", "4").out)
        cold.append(first)
        warm.append(min(more))
    show_times("cold call, new connection", cold)
    show_times("the same, warm", warm)


def _measure_changes(mesh: RunningWorld, count: int) -> None:
    """From a pod's deletion being asked for until the callers' Envoy no longer sends it requests."""
    times = []
    for _ in range(count):
        name, address = next((p["metadata"]["name"], p["status"]["podIP"]) for p in mesh.pods("bench", "web"))
        started = time.perf_counter()
        mesh.api.call("DELETE", f"/v1/objects/Pod/bench/{name}", reply=dict)
        while address in _healthy(mesh, "node-1", "web.bench.aether.internal:8080"):
            pass
        times.append(time.perf_counter() - started)
        mesh.wait_ready()
    show_times("pod deletion to the proxy's new endpoints", times)


def _healthy(mesh: RunningWorld, node: str, cluster: str) -> set[str]:
    """The addresses to which the node's Envoy sends requests for a cluster."""
    clusters = json.loads(_admin(mesh, node, f"/clusters?format=json&filter={cluster}"))["cluster_statuses"]
    hosts = next((each.get("host_statuses", []) for each in clusters if each["name"] == cluster), [])
    return {
        host["address"]["socket_address"]["address"]
        for host in hosts
        if host["health_status"].get("eds_health_status") == "HEALTHY"
    }


def _measure_memory(mesh: RunningWorld) -> None:
    for node in ("node-1", "node-2"):
        text = _admin(mesh, node, "/stats?filter=^server.memory_allocated$")
        show(f"Envoy of {node}", pods=_pods_on(mesh, node), allocated_mb=int(text.rpartition(": ")[2]) / 1e6)


def _pods_on(mesh: RunningWorld, node: str) -> int:
    return next(each.pods for each in mesh.status().nodes if each.name == node)


def _admin(mesh: RunningWorld, node: str, path: str) -> str:
    connection = http.client.HTTPConnection("envoy")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(mesh.paths.node(node).admin_socket))
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text
