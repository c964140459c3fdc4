"""The command line on a real world: what it says is what happens."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.support.manifests import account, client, echo, namespace, pod, together
from tests.support.world import AETHER, RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("command-line")]

NODES = 2
MANIFESTS = together(
    namespace("red"),
    namespace("blue"),
    echo("web", "red", ["80=http", "8080=http", "9000=tcp"], declares="80,8080,9000=tcp"),
    echo("web", "blue", ["8080=http"], declares="8080"),
    client("caller", "red"),
)
CALLER = "red/caller"

CALLS = [
    ("http://web/", [], "deliver", ""),
    ("http://web:8080/", [], "deliver", ""),
    ("http://web.blue:8080/", [], "deliver", ""),
    ("http://web:8080/", ["-H", "web:80"], "refuse", "port-mismatch"),
    ("http://web.blue/", [], "refuse", "port-not-declared"),
    ("http://web:7777/", [], "refuse", "port-not-declared"),
    ("http://web.red.aether.internal:8080/", ["--proxy"], "deliver", ""),
    ("http://web.blue/", ["--proxy"], "refuse", "port-required"),
    ("http://web:9000/", ["--proxy"], "refuse", "port-not-http"),
    ("http://nobody:80/", ["--proxy"], "not-found", ""),
]
"""(URL, options of `aether explain`, the outcome, the value of x-aether-error)."""


def call(mesh: RunningWorld, url: str, options: list[str]) -> tuple[int, str, str]:
    """The real request that the options describe: status, x-aether-error and the answering service."""
    curl = ["-H", f"Host: {options[1]}"] if "-H" in options else []
    curl += ["-x", "http://127.0.0.1:18081"] if "--proxy" in options else []
    answer = mesh.curl(CALLER, url, *curl)
    service = json.loads(answer.body)["service"] if answer.status == 200 else ""
    return answer.status, answer.error, service


@pytest.mark.parametrize(("url", "options", "outcome", "reason"), CALLS)
def test_what_explain_says_is_what_a_client_gets(
    mesh: RunningWorld, url: str, options: list[str], outcome: str, reason: str
) -> None:
    said = json.loads(mesh.aether("explain", CALLER, url, *options, "-o", "json").out)
    assert (said["outcome"], said["reason"]) == (outcome, reason)
    status, error, service = call(mesh, url, options)
    assert (status, error) == ({"deliver": 200, "refuse": 421, "not-found": 404}[outcome], reason)
    if outcome == "deliver":
        assert f"pod {service}-" in said["summary"]


def test_refusals_are_counted_at_the_service_that_was_named(mesh: RunningWorld) -> None:
    assert mesh.curl(CALLER, "http://web.blue:4444/").status == 421

    def counted() -> bool:
        services = json.loads(mesh.aether("status", "-o", "json").out)["services"]
        (blue,) = [each for each in services if (each["namespace"], each["name"]) == ("blue", "web")]
        return any(each["reason"] == "port-not-declared" for each in blue["refusals"])

    mesh.wait("the refusal in the status", counted)


def test_a_command_in_a_pod_has_the_pod_s_files_the_caller_s_descriptors_and_its_own_code(mesh: RunningWorld) -> None:
    script = "cat; grep nameserver /etc/resolv.conf | head -1; exit 7"
    ran = mesh.aether("exec", "red/deploy/web", "--", "sh", "-c", script, stdin="in\n")
    assert (ran.code, ran.out.splitlines()) == (7, ["in", "nameserver 10.96.0.10"])
    assert mesh.aether("exec", CALLER, "--", "no-such-program").code != 0


def test_a_followed_log_shows_what_is_written_later_and_ends_with_its_pod(mesh: RunningWorld) -> None:
    script = "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.1; done"
    mesh.apply(together(account("writer", "red"), pod("writer", "red", ["sh", "-c", script])))
    mesh.wait("the writer's first line", lambda: mesh.aether("logs", "red/writer").out)
    command = [AETHER, "logs", "-f", "--tail", "1", "red/writer", "--world", mesh.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        numbers = [int(following.stdout.readline().split()[1]) for _ in range(4)]
        assert numbers == list(range(numbers[0], numbers[0] + 4))
        assert mesh.aether("delete", "pod", "red/writer", "--grace-period", "0").code == 0
        following.stdout.read()
        assert following.wait(60) == 0
    mesh.wait_ready()


def test_a_bad_manifest_is_told_with_its_place_and_unloads_nothing(mesh: RunningWorld, tmp_path: Path) -> None:
    metadata = {"name": "good", "namespace": "red"}
    good = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    (tmp_path / "all.yaml").write_text(f"kind: Gizmo\nmetadata: {{name: x}}\n---\n{good}\n---\n{{broken\n")
    ran = mesh.aether("apply", "-f", str(tmp_path))
    assert ran.code == 2
    assert "configmap red/good created" in ran.out
    assert f"{tmp_path}/all.yaml:1" in ran.err
    assert "Gizmo" in ran.err
    assert mesh.curl(CALLER, "http://web/").status == 200


def test_every_fact_of_a_sound_world_holds(mesh: RunningWorld) -> None:
    ran = mesh.aether("check")
    assert ran.code == 0, ran.out
    assert "0 failed" in ran.out
    assert mesh.aether("check", "-o", "json").code == 0


def test_up_refuses_what_cannot_be_read_before_it_starts_anything(tmp_path: Path) -> None:
    done = subprocess.run(
        [AETHER, "up", str(tmp_path / "nothing"), "--world", f"nothing-{os.getpid()}"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"nothing" in done.stderr


def test_up_says_how_far_it_is_and_ends_with_three_commands_that_work(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(together(namespace("red"), echo("web", "red", ["8080=http"], declares="8080")))
    name = f"up-{os.getpid()}"
    command = [AETHER, "up", str(tmp_path), "--fresh", "--world", name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout is not None
        lines = []
        for line in up.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("Ctrl-C"):
                break
        proposed = [line.strip() for line in lines if line.startswith("  aether")]
        outcomes = [_run(each) for each in proposed]
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    assert [line[:1] for line in lines if line.startswith("✓")] == ["✓"] * 6, lines
    assert len(proposed) == 3
    assert [outcome.returncode for outcome in outcomes] == [0, 0, 0], outcomes


def _run(line: str) -> "subprocess.CompletedProcess[bytes]":
    """A line of shell, with `aether` in its path."""
    env = {**os.environ, "PATH": f"{Path(AETHER).parent}:{os.environ['PATH']}"}
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False, env=env)
