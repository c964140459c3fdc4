"""Inputs that must be handled: each gives one clear error with its place, and everything else keeps running."""

import json
from typing import Any

import pytest
from tests.support.manifests import ECHO, client, echo, namespace, pod, together
from tests.support.world import Ran, RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("inputs")]

PORTS = [*range(8000, 8032), *range(9000, 9032)]
CLIENT = "in/client"
SIXTY_THREE = "x" * 63
LONG = "-".join(["n" * 62] * 4) + "nn"

MANIFESTS = together(
    namespace("in"),
    echo("web", "in", ["8080=http"], declares="8080"),
    echo(
        "many",
        "in",
        [f"{port}={'http' if port < 9000 else 'banner'}" for port in PORTS],
        declares=",".join(f"{port}{'' if port < 9000 else '=tcp'}" for port in PORTS),
    ),
    namespace(SIXTY_THREE),
    echo(SIXTY_THREE, SIXTY_THREE, ["8080=http"], declares="8080"),
    client("client", "in"),
)

AS_WEB = {"serviceAccountName": "web"}
WEB_POD = 'metadata: {name: odd, namespace: in, annotations: {endpoint.aether.io/ports: "%s"}}'
CONTAINERS = "spec: {serviceAccountName: web, containers: [{name: main, image: host, command: [sleep, '9']}]}"
PORTS_FIELD = "Pod in/odd: metadata.annotations[endpoint.aether.io/ports]: "


def odd_pod(ports: str, spec: str = CONTAINERS) -> str:
    return f"apiVersion: v1\nkind: Pod\n{WEB_POD % ports}\n{spec}\n"


BAD = [
    ("a: [1\nb: 2\n", "stdin:2: not YAML: ", "parse-error"),
    ("kind: Wombat\nmetadata: {name: w}\n", "Wombat w: kind: 'Wombat' is not known", "unknown-kind"),
    ("just a text\n", "stdin:1: ", ""),
    (odd_pod("8080,9090=h4"), f"{PORTS_FIELD}port '9090=h4': unknown suffix 'h4'", "bad-port"),
    (odd_pod("70000"), f"{PORTS_FIELD}port '70000': ", "bad-port"),
    (odd_pod("8080,18008"), f"{PORTS_FIELD}port '18008': the mesh reserves", "reserved-port"),
    (odd_pod("53=udp,18054=udp"), f"{PORTS_FIELD}port '18054=udp': the mesh reserves", "reserved-port"),
    (odd_pod("80,80=tcp"), f"{PORTS_FIELD}port 80 is declared twice", "duplicate-port"),
    (
        odd_pod("80", "spec: {containers: [{name: main, image: host}]}"),
        "Pod in/odd: spec.containers[0].command: is missing",
        "missing-field",
    ),
    (
        odd_pod("80", "spec: {containers: [{name: main, image: 'nginx:1', command: [x]}]}"),
        "Pod in/odd: spec.containers[0].image: image 'nginx:1' cannot be run here",
        "unsupported-image",
    ),
    (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: nowhere}\n",
        "ConfigMap nowhere/x: metadata.namespace: namespace 'nowhere' does not exist",
        "unknown-namespace",
    ),
    (
        odd_pod("80", CONTAINERS.replace("web", "y" * 64)),
        f"Pod in/odd: spec.serviceAccountName: ServiceAccount '{'y' * 64}' cannot name a service",
        "bad-account",
    ),
    (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {'a' * 254}, namespace: in}}\n",
        "metadata.name: ",
        "",
    ),
]


@pytest.mark.parametrize(("text", "says", "code"), BAD, ids=[says.strip()[:60] for _, says, _ in BAD])
def test_what_is_wrong_is_one_line_with_its_place_and_what_is_right_beside_it_is_applied(
    mesh: RunningWorld, text: str, says: str, code: str
) -> None:
    before = running(mesh)
    good = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good", "namespace": "in"}})
    ran = mesh.apply(f"{good}\n---\n{text}")
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert (ran.code, len(errors)) == (2, 1), ran
    assert says.replace("stdin:2", "stdin:4").replace("stdin:1", "stdin:3") in errors[0]
    assert errors[0].endswith(f"({code})" if code else ")")
    assert "stdin:" in errors[0]
    assert "configmap in/good " in ran.out
    assert running(mesh) == before
    assert mesh.curl(CLIENT, "http://web:8080/").status == 200


def running(mesh: RunningWorld) -> set[tuple[str, str]]:
    """Every pod, by name and uid."""
    pods = mesh.api.get("/v1/objects/Pod", reply=dict[str, Any])["items"]
    return {(one["metadata"]["name"], one["metadata"]["uid"]) for one in pods}


@pytest.mark.parametrize("ports", ["8080,8080=tcp", "18001", "eighty"])
def test_a_bad_version_of_a_deployment_leaves_the_good_one_running(mesh: RunningWorld, ports: str) -> None:
    before = running(mesh)
    ran = mesh.apply(echo("web", "in", ["8080=http"], declares=ports))
    assert ran.code == 2
    field = "spec.template.metadata.annotations[endpoint.aether.io/ports]"
    assert f"Deployment in/web: {field}: port" in ran.err
    assert running(mesh) == before
    assert mesh.curl(CLIENT, "http://web:8080/").json()["service"] == "in/web"


def problem(mesh: RunningWorld, name: str, *words: str) -> str:
    """What `aether status` says of a pod, once it says all these words."""

    def found() -> str:
        lines = mesh.aether("status").out.splitlines()
        return next((line for line in lines if f"in/{name}" in line and all(word in line for word in words)), "")

    said: str = mesh.wait(f"{words} of pod {name}", found)
    return said


def remove(mesh: RunningWorld, name: str) -> Ran:
    return mesh.aether("delete", "pod", f"in/{name}", "--grace-period", "0")


def test_a_command_that_does_not_exist_is_told_at_its_pod(mesh: RunningWorld) -> None:
    assert mesh.apply(pod("nocommand", "in", ["no-such-program", "1"], extra=AS_WEB)).code == 0
    said = problem(mesh, "nocommand", "RunContainerError")
    assert said == '! pod in/nocommand: container main: RunContainerError: exec: "no-such-program": not found'
    assert mesh.curl(CLIENT, "http://web:8080/").status == 200
    assert remove(mesh, "nocommand").code == 0


@pytest.mark.parametrize("port", ["18008", "18081", "18001"])
def test_a_port_that_the_mesh_has_taken_in_the_pod_is_told_at_its_pod(mesh: RunningWorld, port: str) -> None:
    """The mesh's listeners are there before the workload: the workload fails, and says so itself."""
    assert mesh.apply(pod("taken", "in", [*ECHO, f"{port}=http"], extra=AS_WEB)).code == 0
    said = problem(mesh, "taken", "container main: CrashLoopBackOff", "exit status 1", "Address already in use")
    assert port in said
    assert remove(mesh, "taken").code == 0
    mesh.wait_ready()


def test_all_of_64_ports_are_served(mesh: RunningWorld) -> None:
    script = """
import http.client, json, socket, sys
for port in map(int, sys.argv[1].split(",")):
    if port < 9000:
        connection = http.client.HTTPConnection("many", port, timeout=5)
        connection.request("GET", "/")
        print(json.loads(connection.getresponse().read())["port"])
    else:
        with socket.create_connection(("many", port), timeout=5) as connection:
            print(connection.recv(200).decode().split()[1].removeprefix("port="))
"""
    ran = mesh.python(CLIENT, script, ",".join(map(str, PORTS)), limit_s=60)
    assert ran.code == 0, ran
    assert [int(line) for line in ran.out.split()] == PORTS


def test_a_refusal_lists_all_of_64_ports(mesh: RunningWorld) -> None:
    answer = mesh.curl(CLIENT, "http://many:7777/")
    assert (answer.status, answer.error) == (421, "port-not-declared")
    listing = ", ".join(f"{port}={'http' if port < 9000 else 'tcp'}" for port in PORTS)
    assert answer.body.strip() == f"many serves {listing}"


def test_a_pod_can_have_a_name_of_253_bytes(mesh: RunningWorld) -> None:
    assert len(LONG) == 253
    assert mesh.apply(pod(LONG, "in", [*ECHO, "8080=http"], extra=AS_WEB)).code == 0
    mesh.wait_ready()
    assert mesh.curl(f"in/{LONG}", "http://many:8000/").status == 200
    (found,) = mesh.pods("in", LONG[:63].rstrip("-"))
    assert mesh.curl(CLIENT, f"http://{found['status']['podIP']}:8080/").json()["service"]
    assert remove(mesh, LONG).code == 0


@pytest.mark.parametrize("length", [253, 254, 5000])
def test_a_host_of_any_length_is_answered(mesh: RunningWorld, length: int) -> None:
    """No mesh name is that long: its two labels and the domain are at most 143 bytes."""
    suffix = ".in.aether.internal"
    host = "a" * (length - len(suffix)) + suffix
    for spelled in (host, f"{host}:8080"):
        answer = mesh.curl(CLIENT, "http://127.0.0.1:18081/", "-H", f"Host: {spelled}")
        assert (answer.status, answer.error) == (404, "")


def test_the_longest_name_that_a_service_can_have_is_served(mesh: RunningWorld) -> None:
    name = f"{SIXTY_THREE}.{SIXTY_THREE}"
    assert mesh.curl(CLIENT, f"http://{name}:8080/").json()["service"] == f"{SIXTY_THREE}/{SIXTY_THREE}"
    answer = mesh.curl(CLIENT, f"http://{name}.aether.internal:8080/")
    assert "ns/in/sa/client" in answer.json()["xfcc"]
    refused = mesh.curl(CLIENT, f"http://{name}:7777/")
    assert (refused.status, refused.body.strip()) == (421, f"{name} serves 8080=http")
