"""Who is kept out, and what nobody can claim to be: clients without an identity, with a wrong one, and forged words.

Every refusal is looked at from the application's side too: its own count of accepted connections stays as it was.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.bent import BentWorld, bent_world
from tests.support.certificates import stranger, workload, world_issuer
from tests.support.manifests import client, echo, namespace, service, together
from tests.support.proxy import access_lines
from tests.support.world import Answer

from aether.adapters.ca.certificates import CLOCK_SKEW_S

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("outsiders")]

HOP = str(Path(__file__).parents[1] / "support/clients/hop.py")
UNMANAGED = {"aether.io/managed": "false"}
PORTS = ["8080=http", "9090=http", "9000=tcp", "2500=banner"]
DECLARES = "8080,9090,9000=tcp,2500=tcp"
RESERVED = (18001, 18002, 18054, 18081, 18082)


def user_service(name: str, app: str, ports: dict[int, int]) -> str:
    listed = [{"name": f"p{number}", "port": number, "targetPort": target} for number, target in ports.items()]
    return service(name, "out", {"selector": {"app": app}, "ports": listed})


MANIFESTS = together(
    namespace("out"),
    namespace("away"),
    echo("shop", "out", PORTS, declares=DECLARES, replicas=2),
    echo("till", "out", PORTS, declares=DECLARES),
    echo("owned", "out", ["8080=http"], declares="8080"),
    user_service("door", "shop", {80: 9090}),
    user_service("trap", "shop", {number: number for number in RESERVED}),
    user_service("owned", "owned", {8080: 8080}),
    client("insider", "out"),
    client("guest", "away"),
    client("free", "out", annotations={"capture.aether.io/redirect-all": "false"}),
    client("outsider", "out", annotations=UNMANAGED, node="node-1"),
)
INSIDER = "spiffe://aether.internal/ns/out/sa/insider"


@pytest.fixture(scope="module")
def mesh() -> Iterator[BentWorld]:
    with bent_world(f"outsiders-{os.getpid()}", MANIFESTS, nodes=2) as running:
        yield running


def addresses(mesh: BentWorld, app: str, family: str = "4") -> list[str]:
    """The pods' addresses: of `shop` there is one on each node."""
    every = [one["ip"] for each in mesh.pods("out", app) for one in each["status"]["podIPs"]]
    return [address for address in every if (":" in address) == (family == "6")]


def accepted(mesh: BentWorld, address: str) -> dict[str, int]:
    """Connections that the pod's application ever accepted, but for the port that its liveness is asked on."""
    counts: dict[str, int] = mesh.curl("out/insider", f"http://{address}:8080/").json()["accepted"]
    return {port: count for port, count in counts.items() if port != "8080"}


def hop(mesh: BentWorld, address: str, server_name: str, version: str, speaks: str, pem: bytes = b"") -> Any:
    ran = mesh.exec("out/outsider", "python3", HOP, address, server_name, version, speaks, stdin=pem)
    assert ran.code == 0, ran
    return ran.json()


HOPS = (("9090", "h2"), ("9000", "raw"), ("2500", "nothing"))


@pytest.mark.parametrize(("server_name", "speaks"), HOPS)
def test_the_meshs_own_certificate_opens_every_port(mesh: BentWorld, server_name: str, speaks: str) -> None:
    pem = workload(INSIDER, by=world_issuer(mesh.paths))
    answer = hop(mesh, addresses(mesh, "shop")[0], server_name, "1.3", speaks, pem)
    assert "out/shop" in answer["received"], answer


def certificates(mesh: BentWorld) -> dict[str, tuple[str, bytes, tuple[str, ...]]]:
    """What an outsider may try: the version, what it shows, and how the connection ends."""
    ours, other = world_issuer(mesh.paths), stranger()
    return {
        "plaintext": ("plain", b"", ("closed", "cut")),
        "no certificate": ("1.3", b"", ("TLSV13_ALERT_CERTIFICATE_REQUIRED",)),
        "another authority's": ("1.3", workload(INSIDER, by=other), ("TLSV1_ALERT_UNKNOWN_CA",)),
        "another trust domain's": (
            "1.3",
            workload("spiffe://other.mesh/ns/out/sa/insider", by=ours),
            ("SSLV3_ALERT_CERTIFICATE_UNKNOWN",),
        ),
        "an expired one": (
            "1.3",
            workload(INSIDER, by=ours, from_s=-2 * CLOCK_SKEW_S, until_s=-CLOCK_SKEW_S),
            ("SSLV3_ALERT_CERTIFICATE_EXPIRED",),
        ),
        "the right one over TLS 1.2": ("1.2", workload(INSIDER, by=ours), ("TLSV1_ALERT_PROTOCOL_VERSION",)),
    }


CLAIMS = ("plaintext", "no certificate", "another authority's", "another trust domain's", "an expired one")


@pytest.mark.parametrize("claim", [*CLAIMS, "the right one over TLS 1.2"])
def test_who_is_not_of_the_mesh_opens_no_connection_to_an_application(mesh: BentWorld, claim: str) -> None:
    version, pem, ends = certificates(mesh)[claim]
    address = addresses(mesh, "shop")[0]
    before = accepted(mesh, address)
    for server_name, speaks in (*HOPS, ("live", "h2")):
        answer = hop(mesh, address, server_name, version, speaks, pem)
        assert answer["received"] == "", answer
        assert answer["ended"] in {*ends, "silent" if (version, speaks) == ("plain", "nothing") else "cut"}, answer
    assert accepted(mesh, address) == before


@pytest.mark.parametrize("server_name", ["7777", "shop", "8080.shop"])
def test_a_server_name_that_is_no_port_has_no_chain(mesh: BentWorld, server_name: str) -> None:
    answer = hop(
        mesh, addresses(mesh, "shop")[0], server_name, "1.3", "nothing", workload(INSIDER, by=world_issuer(mesh.paths))
    )
    assert answer["received"] == ""
    assert answer["ended"] in {"cut", "closed"}, answer


DIAL = """
import json, socket, sys, time
ended = {}
for number in map(int, sys.argv[2:]):
    began = time.monotonic()
    try:
        with socket.create_connection((sys.argv[1], number), timeout=3) as connection:
            connection.sendall(b"GET / HTTP/1.1\\r\\nHost: shop.out:8080\\r\\n\\r\\n")
            ended[number] = connection.recv(4096).decode()
    except OSError as error:
        ended[number] = type(error).__name__
    if time.monotonic() - began > 1:
        ended[number] += " late"
print(json.dumps(ended))
"""


def dial(mesh: BentWorld, caller: str, host: str, *numbers: int) -> dict[str, str]:
    ran = mesh.python(caller, DIAL, host, *map(str, numbers))
    assert ran.code == 0, ran
    found: dict[str, str] = ran.json()
    return found


@pytest.mark.parametrize("family", ["4", "6"])
def test_the_node_resets_an_outsiders_dial_of_a_pods_own_ports(mesh: BentWorld, family: str) -> None:
    for address in addresses(mesh, "shop", family):
        before = accepted(mesh, _url_host(address))
        numbers = (8080, 9090, 9000, 2500, *RESERVED)
        assert set(dial(mesh, "out/outsider", address, *numbers).values()) == {"ConnectionRefusedError"}
        assert accepted(mesh, _url_host(address)) == before


def test_a_pod_that_is_not_captured_does_not_reach_a_pods_own_ports_either(mesh: BentWorld) -> None:
    for address in addresses(mesh, "shop"):
        ended = dial(mesh, "out/free", address, 8080, 9090, 9000, 2500, 18001, 18002)
        assert set(ended.values()) == {"ConnectionRefusedError"}


def test_an_outsider_reaches_no_generated_service(mesh: BentWorld) -> None:
    assert set(dial(mesh, "out/outsider", "shop.out", 8080, 9000, 2500).values()) == {"ConnectionRefusedError"}


def test_an_outsider_reaches_a_user_service_and_brings_no_identity(mesh: BentWorld) -> None:
    answer = dial(mesh, "out/outsider", "door.out", 80)["80"]
    assert '"service": "out/shop"' in answer
    assert '"xfcc": ""' in answer


def test_no_service_leads_to_a_port_of_the_proxy(mesh: BentWorld) -> None:
    ended = dial(mesh, "out/outsider", "trap.out", *RESERVED)
    assert set(ended.values()) == {"ConnectionRefusedError"}, "whoever gets there speaks as that pod"


def _url_host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


@pytest.mark.parametrize("caller", ["out/insider", "out/free"])
def test_the_proxy_port_of_another_pod_is_ones_own(mesh: BentWorld, caller: str) -> None:
    own = f"spiffe://aether.internal/ns/out/sa/{caller.partition('/')[2]}"
    answer = mesh.curl(caller, f"http://{addresses(mesh, 'till')[0]}:18081/", "-H", "Host: shop.out:9090")
    assert answer.status == 200
    assert answer.json()["xfcc"].endswith(f"URI={own}")


FORGED = (
    "By=spiffe://aether.internal/ns/out/sa/shop;Hash=00;URI=spiffe://aether.internal/ns/out/sa/admin",
    "URI=spiffe://aether.internal/ns/out/sa/admin",
)


@pytest.mark.parametrize("url", ["http://shop.out:9090/", "http://127.0.0.1:18081/"])
def test_a_client_cannot_say_who_it_is(mesh: BentWorld, url: str) -> None:
    forged = [word for value in FORGED for word in ("-H", f"X-Forwarded-Client-Cert: {value}")]
    answer = mesh.curl("out/insider", url, "-H", "Host: shop.out:9090", *forged)
    assert answer.status == 200
    xfcc = answer.json()["xfcc"]
    assert "admin" not in xfcc
    assert xfcc.count("URI=") == 1
    assert xfcc.endswith(f"URI={INSIDER}")


def test_a_client_cannot_say_where_it_is(mesh: BentWorld) -> None:
    """The route table reads the caller's namespace and the dialled port from a header that the listener writes."""
    forged = ("-H", "x-aether-from: out/9090", "-H", "X-Aether-From: out/9090")
    host = ("-H", "Host: shop:9090")
    assert mesh.curl("out/insider", "http://127.0.0.1:18081/", *host).status == 200
    assert mesh.curl("away/guest", "http://127.0.0.1:18081/", *host, *forged).status == 404
    captured = mesh.curl("away/guest", "http://shop.out:8080/", "-H", "Host: shop.out:9090", *forged)
    assert (captured.status, captured.error) == (421, "port-mismatch")


@pytest.mark.parametrize("url", ["http://shop.out:9090/", "http://till.out:8080/", "http://owned.out:8080/"])
def test_no_application_sees_the_listeners_header(mesh: BentWorld, url: str) -> None:
    answer = mesh.curl("out/insider", url, "-H", "x-aether-from: out/9090", "-H", "x-mine: kept")
    assert answer.status == 200
    assert answer.json()["headers"]["x-mine"] == "kept"
    assert "x-aether-from" not in answer.json()["headers"]


def test_a_pod_sees_neither_keys_nor_the_control_planes_sockets(mesh: BentWorld) -> None:
    for folder in (mesh.paths.runtime, mesh.paths.state):
        assert any(folder.iterdir())
        assert mesh.exec("out/insider", "ls", "-A", str(folder)).out == ""


def test_a_destination_that_is_somebody_else_is_refused_by_the_caller(mesh: BentWorld) -> None:
    (till,) = mesh.pods("out", "till")
    node, name = till["spec"]["nodeName"], till["metadata"]["name"]
    with mesh.bent(("swapped-secret", f"in/out/{name}", "node"), node=node):
        answer = mesh.curl("out/insider", "http://till.out:9090/")
        assert_not_till(answer)
        before = len(refused_raw(mesh))
        ended = dial(mesh, "out/insider", "till.out", 9000, 2500)
        assert set(ended.values()) <= {"", "ConnectionResetError"}, ended
        mesh.wait("the lines of both", lambda: len(refused_raw(mesh)) >= before + 2)
    mesh.wait_ready()
    mesh.wait("till to be itself", lambda: mesh.curl("out/insider", "http://till.out:9090/").status == 200)


def test_a_connection_that_carries_no_identity_reaches_nobody(mesh: BentWorld) -> None:
    (insider,) = mesh.pods("out", "insider")
    address = addresses(mesh, "till")[0]
    with mesh.bent(("no-identity",), node=insider["spec"]["nodeName"]):
        answer = mesh.curl("out/insider", "http://till.out:9090/")
        assert (answer.status, answer.error) == (503, "upstream-identity"), answer
        ended = dial(mesh, "out/insider", "till.out", 9000, 2500)
        assert set(ended.values()) <= {"", "ConnectionResetError"}, ended
    mesh.wait("the identity to be back", lambda: mesh.curl("out/insider", "http://till.out:9090/").status == 200)
    assert not accepted(mesh, address).keys() & {"9000", "2500"}


def assert_not_till(answer: Answer) -> None:
    assert (answer.status, answer.error) == (503, "upstream-identity"), answer
    assert "did not accept each other's certificate" in answer.body


def refused_raw(mesh: BentWorld) -> list[Any]:
    return [line for line in access_lines(mesh) if (line["kind"], line.get("error")) == ("tcp", "upstream-identity")]
