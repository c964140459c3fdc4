"""What may die, and what goes on: the agent, Envoy, and `aether up` itself, by kill -9."""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.manifests import client, echo, namespace, together
from tests.support.processes import identities, processes_of, wait_gone
from tests.support.world import AETHER, RunningWorld, agent_status

from aether.model.world import AgentStatus

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("survival")]

MANIFESTS = together(
    namespace("live"),
    echo("web", "live", ["8080=http", "9000=banner"], declares="8080,9000=tcp", replicas=2),
    client("client", "live"),
)
NODE = "node-1"
WRK_FAILURES = re.compile(r"Socket errors|Non-2xx")


def process(mesh: RunningWorld, *words: str) -> int:
    """The one process of this world whose command line has all these words."""
    found = processes_of(mesh.paths, *words)
    assert len(found) == 1, found
    return found[0]


def test_an_agent_that_is_killed_fails_no_request_and_sends_nothing_again(mesh: RunningWorld) -> None:
    mesh.curl("live/client", "http://web:8080/")
    before = agent_status(mesh, NODE)
    agent = process(mesh, "aether.app.agent", f'"node":"{NODE}"')
    with mesh.start("live/client", "wrk", "-t1", "-c8", "-d8s", "http://web:8080/") as load:
        mesh.wait("load", lambda: load_has_begun(mesh))
        os.kill(agent, signal.SIGKILL)
        ran = load.finish(30)
    assert ran.code == 0, ran
    assert not WRK_FAILURES.search(ran.out), ran.out
    assert process(mesh, "aether.app.agent", f'"node":"{NODE}"') != agent
    after = mesh.wait("the new agent's stream", lambda: held_all(mesh, before))
    assert after.sent == 0
    assert mesh.curl("live/client", "http://web:8080/").status == 200


def load_has_begun(mesh: RunningWorld) -> bool:
    return bool(processes_of(mesh.paths, "wrk", "-c8"))


def held_all(mesh: RunningWorld, before: AgentStatus) -> AgentStatus | None:
    status = agent_status(mesh, NODE)
    return status if status.acknowledged >= before.resources - 1 and status.is_proxy_live else None


OUTAGE = """
import http.client, sys, time
bad, last_good, worst = 0, time.monotonic(), 0.0
end = time.monotonic() + float(sys.argv[1])
print("begun", flush=True)
while time.monotonic() < end:
    try:
        connection = http.client.HTTPConnection("web", 8080, timeout=5)
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        is_good = answer.status == 200
    except OSError:
        is_good = False
    now = time.monotonic()
    if is_good:
        worst, last_good = max(worst, now - last_good), now
    else:
        bad += 1
print(bad, worst, time.monotonic() - last_good)
"""


def test_an_envoy_that_is_killed_is_back_within_two_seconds_without_help(mesh: RunningWorld) -> None:
    envoy = process(mesh, "envoy", "--config-path", f"nodes/{NODE}/")
    with mesh.start("live/client", "python3", "-c", OUTAGE, "6") as asking:
        assert asking.out.readline() == b"begun\n"
        os.kill(envoy, signal.SIGKILL)
        ran = asking.finish(30)
    _, worst_s, since_s = (float(field) for field in ran.out.split())
    assert worst_s < 2.0
    assert since_s < 1.0, "the last second had no good answer"
    mesh.wait_ready()


def test_an_envoy_that_was_away_serves_raw_tcp_again_too(mesh: RunningWorld) -> None:
    os.kill(process(mesh, "envoy", "--config-path", f"nodes/{NODE}/"), signal.SIGKILL)
    mesh.wait("Envoy to be live again", lambda: mesh.status().nodes[0].is_proxy_live)
    script = "import socket; print(socket.create_connection(('web', 9000), timeout=5).recv(200).decode())"
    mesh.wait("the greeting", lambda: "service=live/web port=9000" in mesh.python("live/client", script).out)


def test_the_dns_server_answers_while_the_agent_is_stopped(mesh: RunningWorld) -> None:
    agent = process(mesh, "aether.app.agent", f'"node":"{NODE}"')
    os.kill(agent, signal.SIGSTOP)
    try:
        assert mesh.exec("live/client", "getent", "hosts", "web.live.aether.internal").code == 0
        assert mesh.curl("live/client", "http://web.live:8080/").status == 200
    finally:
        os.kill(agent, signal.SIGCONT)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_world_leaves_nothing_however_its_command_ends(ending: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    name = f"gone-{ending.name.lower()}-{os.getpid()}"
    before = host_network()
    up = subprocess.Popen(
        [AETHER, "up", str(tmp_path), "--world", name, "--fresh"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert up.stdout is not None
    mesh = RunningWorld(name, os.environ)
    try:
        lines: list[str] = []
        while not lines or "Ctrl-C" not in lines[-1]:
            lines.append(up.stdout.readline().decode())
            assert lines[-1], f"it never came up: {lines}"
        those = identities(processes_of(mesh.paths))
        assert len(those) > 5
        mounts = Path("/proc/self/mountinfo").read_text()
        os.kill(up.pid, ending)
        up.wait(30)
        wait_gone(those)
        assert name not in mounts
        assert host_network() == before
    finally:
        up.kill()
        up.stdout.close()
        up.wait()
        for left in (mesh.paths.runtime, mesh.paths.state):
            shutil.rmtree(left, ignore_errors=True)


def host_network() -> str:
    """Everything of the host's network that a world could have changed."""
    commands = (["ip", "-br", "link"], ["ip", "rule"], ["ip", "-6", "rule"], ["ip", "route", "show", "table", "all"])
    return "\n".join(subprocess.run(each, capture_output=True, text=True, check=True).stdout for each in commands)


def test_a_pod_that_dies_is_started_again_and_keeps_its_address(mesh: RunningWorld) -> None:
    pod = mesh.pods("live", "client")[0]
    address = pod["status"]["podIP"]
    mesh.exec("live/client", "sh", "-c", "kill -9 $(pgrep -f aether.workloads | head -1)")
    mesh.wait("a restart", lambda: restarts(mesh) >= 1)
    mesh.wait_ready()
    assert mesh.pods("live", "client")[0]["status"]["podIP"] == address
    started = time.monotonic()
    assert mesh.curl("live/client", "http://web:8080/").status == 200
    assert time.monotonic() - started < 5


def restarts(mesh: RunningWorld) -> int:
    return sum(one["restartCount"] for one in mesh.pods("live", "client")[0]["status"]["containerStatuses"])
