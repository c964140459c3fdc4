"""Case T-A8: capture fails closed and is undone; a port that is listened on but not declared is nobody's."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.manifests import ECHO, client, deployment, echo, namespace, together
from tests.support.processes import processes_of
from tests.support.world import RunningWorld, world

from aether.adapters.kernel.nft import Nft

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("cases-capture")]

NODES = 2
CLOSED_S = 5.0
"""How long a workload must not come up while its node's agent is stopped."""

WEB = ["8080=http", "9999=http", "9998=banner"]
BARE = {"capture.aether.io/redirect-all": "false"}
MANIFESTS = together(
    namespace("cap"),
    echo("web", "cap", WEB, declares="8080", extra={"nodeName": "node-1"}),
    deployment("client", "cap", [*ECHO, "8080=http"], annotations={}, extra={"nodeName": "node-1"}),
    deployment("bare", "cap", [*ECHO, "8080=http"], annotations=BARE, extra={"nodeName": "node-1"}),
    deployment("far", "cap", [*ECHO, "8080=http"], annotations=BARE, extra={"nodeName": "node-2"}),
)
CLIENT = "cap/deploy/client"

FIRST_WORDS = "curl -s -m 10 http://web.cap:8080/; exec python3 -m aether.workloads.echo 8088=http"


def test_t_a8_a_workload_starts_captured_or_not_at_all(mesh: RunningWorld) -> None:
    (agent,) = processes_of(mesh.paths, "aether.app.agent", '"node":"node-2"')
    late = deployment(
        "late",
        "cap",
        ["sh", "-c", FIRST_WORDS],
        annotations={"endpoint.aether.io/ports": "8088"},
        extra={"nodeName": "node-2"},
    )
    with stopped(agent):
        assert mesh.apply(late).code == 0
        mesh.wait("the pod", lambda: mesh.pods("cap", "late"))
        stays(lambda: not processes_of(mesh.paths, "8088=http"), CLOSED_S)
        assert not any_ready(mesh, "late")
        assert mesh.curl(CLIENT, "http://web:8080/").status == 200, "the other node goes on"
    mesh.wait_ready()
    first = mesh.aether("logs", "cap/deploy/late").out.splitlines()[0]
    assert "URI=spiffe://aether.internal/ns/cap/sa/late" in first, "its first call was not captured"


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def stays(holds: Callable[[], bool], seconds: float) -> None:
    """`holds` is true at every look until the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert holds()
        time.sleep(0.05)


def any_ready(mesh: RunningWorld, app: str) -> bool:
    return any(
        (condition["type"], condition["status"]) == ("Ready", "True")
        for pod in mesh.pods("cap", app)
        for condition in pod.get("status", {}).get("conditions", ())
    )


RAW = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
        connection.sendall(b"hello")
        print(connection.recv(200).decode())
except OSError as error:
    print(type(error).__name__)
"""


def addresses(mesh: RunningWorld) -> list[str]:
    (pod,) = mesh.pods("cap", "web")
    return [one["ip"] for one in pod["status"]["podIPs"]]


def bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def test_t_a8_a_port_that_is_not_declared_is_refused_by_name_and_by_pod_address(mesh: RunningWorld) -> None:
    assert mesh.curl("cap/deploy/web", "http://localhost:9999/").status == 200, "it does listen"
    for host in ("web", *addresses(mesh)):
        answer = mesh.curl(CLIENT, f"http://{bracketed(host)}:9999/")
        assert (answer.status, answer.error) == (421, "port-not-declared"), host
        assert "service=" not in mesh.python(CLIENT, RAW, host, "9998").out, host


@pytest.mark.parametrize("pod", ["cap/deploy/bare", "cap/deploy/far"])
@pytest.mark.parametrize("port", ["8080", "9998", "9999"])
def test_t_a8_nothing_reaches_a_pod_of_the_mesh_around_the_mesh(mesh: RunningWorld, pod: str, port: str) -> None:
    """From a pod that is not captured, on the same node and on another: not even a port that is declared."""
    for address in ("web", *addresses(mesh)):
        assert mesh.python(pod, RAW, address, port).out.strip() == "ConnectionRefusedError", address


def test_t_a8_the_host_is_as_it_was_and_stays_reachable(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(together(namespace("small"), client("client", "small")))
    before = host_network()
    with Reachable() as port_22, world(f"host-{os.getpid()}", tmp_path) as running:
        assert running.curl("small/client", "http://client:8080/").status == 200
        assert host_network() == before
    assert host_network() == before
    assert port_22.failures == 0
    assert port_22.connections > 10


_VARYING = re.compile(r"counter packets \d+ bytes \d+|expires \d+sec")


def host_network() -> str:
    """The ruleset, rules and routes of the host, without what counts by itself."""
    commands = ("ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all")
    texts = [subprocess.run(each.split(), capture_output=True, text=True, check=True).stdout for each in commands]
    with Nft() as nft:
        return _VARYING.sub("", "\n".join([nft.list_ruleset(), *texts]))


class Reachable:
    """Somebody who connects to the host's port 22 all the time. Listens there if nobody does."""

    def __init__(self) -> None:
        self.connections = self.failures = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._connect)
        self._server: socket.socket | None = None

    def __enter__(self) -> "Reachable":
        with contextlib.suppress(OSError):
            self._server = socket.create_server(("127.0.0.1", 22), backlog=4096)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._server is not None:
            self._server.close()

    def _connect(self) -> None:
        while not self._stop.wait(0.05):
            try:
                socket.create_connection(("127.0.0.1", 22), timeout=1).close()
                self.connections += 1
            except OSError:
                self.failures += 1
