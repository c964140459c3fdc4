"""Mesh DNS as pods meet it (rulings F): dig, and the C library's resolver with the pod's search path."""

import re

import pytest
from tests.support.manifests import client, deployment, echo, namespace, service, together
from tests.support.world import RunningWorld

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.envoy,
    pytest.mark.software,
    pytest.mark.xdist_group("names"),
]

NODES = 2
MESH = "aether.internal"
CLIENT = "red/client"

MANIFESTS = together(
    namespace("red"),
    namespace("blue"),
    echo("cart", "red", ["8080=http"], declares="8080"),
    echo("cart", "blue", ["8080=http"], declares="8080"),
    echo("ring", "red", ["8000=http"], declares="8000", replicas=3),
    service("ring", "red", {"clusterIP": "None", "selector": {"app": "ring"}, "ports": [{"port": 8000}]}),
    deployment(
        "plain",
        "red",
        ["python3", "-m", "http.server", "--bind", "::", "8000"],
        annotations={"aether.io/managed": "false"},
    ),
    service("plain", "red", {"selector": {"app": "plain"}, "ports": [{"port": 80, "targetPort": 8000}]}),
    client("client", "red"),
)

STATUS = re.compile(r"status: (\w+),")
TTL_S = 5


def dig(mesh: RunningWorld, *question: str) -> tuple[str, list[tuple[str, int, str]]]:
    """The status, and (type, ttl, data) of each answer, by the pod's own resolver."""
    ran = mesh.exec(CLIENT, "dig", "+noall", "+comments", "+answer", "+tries=1", "+time=3", *question)
    assert ran.code == 0, ran
    found = STATUS.search(ran.out)
    assert found, ran.out
    lines = [line.split() for line in ran.out.splitlines() if line and not line.startswith(";")]
    return found[1], [(kind, int(ttl), data) for _, ttl, _, kind, data in lines]


def cluster_names(space: str, name: str) -> tuple[str, ...]:
    return f"{name}.{space}.svc.cluster.local", f"{name}.{space}.{MESH}"


def resolved(mesh: RunningWorld, name: str) -> set[str]:
    """Addresses by getaddrinfo, both families."""
    ran = mesh.exec(CLIENT, "getent", "ahosts", name)
    return {line.split()[0] for line in ran.out.splitlines()}


def addresses(mesh: RunningWorld, space: str, name: str) -> tuple[str, ...]:
    (found,) = [one for one in mesh.status().services if (one.namespace, one.name) == (space, name)]
    return found.addresses


@pytest.mark.parametrize("space", ["red", "blue"])
def test_every_full_name_has_the_services_addresses_for_five_seconds(mesh: RunningWorld, space: str) -> None:
    ipv4, ipv6 = addresses(mesh, space, "cart")
    for name in cluster_names(space, "cart"):
        for spelled in (name, f"{name}.", name.upper()):
            assert dig(mesh, spelled, "A") == ("NOERROR", [("A", TTL_S, ipv4)])
            assert dig(mesh, spelled, "AAAA") == ("NOERROR", [("AAAA", TTL_S, ipv6)])
            assert dig(mesh, "+tcp", spelled, "A") == ("NOERROR", [("A", TTL_S, ipv4)])


def test_a_name_without_records_of_a_type_is_no_data(mesh: RunningWorld) -> None:
    for name in (*cluster_names("red", "cart"), f"red.{MESH}", MESH):
        assert dig(mesh, name, "TXT") == ("NOERROR", [])


@pytest.mark.parametrize("name", ["nobody.red", "cart.green", "cart.red.more"])
def test_an_unknown_name_of_either_domain_does_not_exist(mesh: RunningWorld, name: str) -> None:
    for domain in (MESH, "svc.cluster.local"):
        assert dig(mesh, f"{name}.{domain}", "A") == ("NXDOMAIN", [])


@pytest.mark.parametrize(
    ("name", "space"),
    [("cart", "red"), ("cart.blue", "blue"), ("cart.red.svc", "red"), ("cart.blue.svc.cluster.local", "blue")],
)
def test_the_search_path_of_a_pod_begins_in_its_own_namespace(mesh: RunningWorld, name: str, space: str) -> None:
    assert resolved(mesh, name) == set(addresses(mesh, space, "cart"))


def test_a_headless_name_has_the_addresses_of_its_pods_and_each_pod_a_name(mesh: RunningWorld) -> None:
    pods = {pod["metadata"]["name"]: {one["ip"] for one in pod["status"]["podIPs"]} for pod in mesh.pods("red", "ring")}
    assert len(pods) == 3
    assert resolved(mesh, "ring") == set.union(*pods.values())
    for pod, own in pods.items():
        assert resolved(mesh, f"{pod}.ring") == own
        assert resolved(mesh, f"{pod}.ring.red.{MESH}") == own


def test_a_service_that_is_not_the_meshs_has_its_kubernetes_names_only(mesh: RunningWorld) -> None:
    assert dig(mesh, "plain.red.svc.cluster.local", "A")[0] == "NOERROR"
    assert len(resolved(mesh, "plain")) == 2
    assert dig(mesh, f"plain.red.{MESH}", "A") == ("NXDOMAIN", [])
    assert mesh.curl(CLIENT, "http://plain/").status == 200


def test_a_pod_finds_itself_and_localhost(mesh: RunningWorld) -> None:
    (pod,) = mesh.pods("red", "client")
    assert resolved(mesh, "client") >= {one["ip"] for one in pod["status"]["podIPs"]}
    assert "127.0.0.1" in resolved(mesh, "localhost")


def test_a_name_can_be_253_bytes_long(mesh: RunningWorld) -> None:
    label = "a" * 63
    name = f"{label}.{label}.{label}.{'a' * 45}.{MESH}"
    assert len(name) == 253
    assert dig(mesh, name, "A") == ("NXDOMAIN", [])
    assert resolved(mesh, name) == set()
