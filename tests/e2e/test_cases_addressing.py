"""Cases T-A1 to T-A5: server-first, one number with two classes, the Host matrix, short names, self and headless."""

import itertools
import time

import pytest
from tests.support.figures import Figure
from tests.support.manifests import client, deployment, echo, namespace, service, together
from tests.support.proxy import access_lines, gauges, over_mesh_tls
from tests.support.world import Answer, RunningWorld

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.root,
    pytest.mark.envoy,
    pytest.mark.xdist_group("cases-addressing"),
]

NODES = 2
MESH = "aether.internal"
SHOP_LISTING = "80=http, 8080=http, 9000=tcp"
LIMIT_S = 1.0

GREETER = """
import socket, sys
server = socket.create_server(("::", 3306), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, _ = server.accept()
    connection.sendall(b"twenty bytes of hi!" + bytes([10]))
    connection.settimeout(5)
    try:
        connection.recv(1)
    except OSError:
        pass
    connection.close()
"""

MANIFESTS = together(
    *(namespace(name) for name in ("mix", "red", "blue", "green")),
    deployment("db", "mix", ["python3", "-c", GREETER], annotations={"endpoint.aether.io/ports": "3306=tcp,3307=tcp"}),
    echo("pay", "mix", ["8080=http"], declares="8080"),
    echo("bus", "mix", ["8080=tcp"], declares="8080=tcp"),
    echo("shop", "mix", ["80=http", "8080=http", "9000=tcp"], declares="80,8080,9000=tcp"),
    client("client", "mix"),
    echo("echo", "red", ["8080=http"], declares="8080"),
    echo("echo", "blue", ["8080=http"], declares="8080"),
    client("caller", "red"),
    client("caller", "blue"),
    client("caller", "green"),
    echo("ring", "mix", ["7000=tcp", "8000=http"], declares="7000=tcp,8000", replicas=3, extra={"nodeName": "node-2"}),
    service(
        "ring",
        "mix",
        {
            "clusterIP": "None",
            "selector": {"app": "ring"},
            "ports": [{"name": "raw", "port": 7000}, {"name": "web", "port": 8000}],
        },
    ),
)
CLIENT = "mix/client"
IDENTITY = "spiffe://aether.internal/ns/mix/sa/client"

LISTEN = """
import socket, sys, time
for _ in range(10):
    started = time.monotonic()
    with socket.create_connection((sys.argv[1], 3306), timeout=5) as connection:
        greeting = connection.recv(100)
        print(f"{time.monotonic() - started:.4f} {greeting.decode().strip()}")
"""


def test_t_a1_a_server_that_speaks_first_is_heard_within_50_ms(mesh: RunningWorld, figure: Figure) -> None:
    """Ten of ten, in one of at most five rounds: a machine busy with other tests slows one down, a wait all of them."""
    rounds = []
    with over_mesh_tls(mesh, "tcp_mix/db_3306"):
        for _ in range(5):
            lines = [line.split(maxsplit=1) for line in mesh.python(CLIENT, LISTEN, f"db.mix.{MESH}").out.splitlines()]
            assert [greeting for _, greeting in lines] == ["twenty bytes of hi!"] * 10
            rounds.append(max(float(seconds) for seconds, _ in lines))
            if rounds[-1] < 0.05:
                break
    figure("T-A1 slowest of ten greetings, ms", min(rounds) * 1000)
    assert min(rounds) < 0.05


def test_t_a1_the_destination_sees_the_callers_spiffe_id(mesh: RunningWorld) -> None:
    """On the port where nobody listens: a failed connection is what the destination's proxy writes of."""
    mesh.python(CLIENT, LISTEN.replace("3306", "3307"), f"db.mix.{MESH}")
    found = mesh.wait("the destination's line", lambda: [line for line in access_lines(mesh) if is_inbound_of_db(line)])
    assert {line["peer"] for line in found} == {IDENTITY}


def is_inbound_of_db(line: dict[str, object]) -> bool:
    return line["entry"] == "inbound" and line["destination_service"] == "db" and line["dialled_port"] == "3307"


SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
    connection.sendall(bytes.fromhex(sys.argv[3]))
    connection.shutdown(socket.SHUT_WR)
    while data := connection.recv(4096):
        sys.stdout.buffer.write(data)
"""


def test_t_a2_one_number_is_http_for_one_service_and_raw_tcp_for_another(mesh: RunningWorld) -> None:
    before = gauges(mesh, r"^cluster\.(mix/pay|tcp_mix/bus_8080|passthrough)\.upstream_(rq|cx)_total$")
    assert mesh.curl(CLIENT, "http://pay:8080/").json()["service"] == "mix/pay"
    for sent in (b"\x00\x01\xfe\xff!", b"GET / HTTP/1.1\r\n"):
        got = mesh.python(CLIENT, SEND, f"bus.mix.{MESH}", "8080", sent.hex()).out
        head, _, rest = got.partition("\n")
        assert head.startswith("service=mix/bus port=8080 ")
        assert rest == sent.decode(errors="replace")
    after = gauges(mesh, r"^cluster\.(mix/pay|tcp_mix/bus_8080|passthrough)\.upstream_(rq|cx)_total$")
    grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert grown.pop("cluster.mix/pay.upstream_rq_total") == 1
    assert grown.pop("cluster.tcp_mix/bus_8080.upstream_cx_total") == 2
    assert not [name for name in grown if "passthrough" in name]


SHOP = ("shop.mix.aether.internal", "shop.mix.svc.cluster.local", "shop.mix.svc", "shop.mix")
SPELLINGS = [spell(name) for name, spell in itertools.product(SHOP, (str.lower, str.upper, "{}.".format))]


def dial(mesh: RunningWorld, port: int, host: str) -> Answer:
    return mesh.curl(CLIENT, f"http://shop.mix.{MESH}:{port}/", "-H", f"Host: {host}")


def ask_proxy(mesh: RunningWorld, host: str) -> Answer:
    return mesh.curl(CLIENT, "http://127.0.0.1:18081/", "-H", f"Host: {host}")


def assert_shop(answer: Answer, port: int) -> None:
    assert answer.status == 200, answer
    assert (answer.json()["service"], answer.json()["port"]) == ("mix/shop", port)
    assert answer.seconds < LIMIT_S


def assert_refused(answer: Answer, reason: str, name: str) -> None:
    assert (answer.status, answer.error) == (421, reason), answer
    assert answer.body.strip() == f"{name.removesuffix('.')} serves {SHOP_LISTING}"
    assert answer.seconds < LIMIT_S


@pytest.mark.parametrize("name", SPELLINGS)
def test_t_a3_the_host_matrix_of_captured_dials(mesh: RunningWorld, name: str) -> None:
    assert_shop(dial(mesh, 8080, name), 8080)
    assert_shop(dial(mesh, 8080, f"{name}:8080"), 8080)
    assert_refused(dial(mesh, 8080, f"{name}:80"), "port-mismatch", name)
    assert_refused(dial(mesh, 7777, name), "port-not-declared", name)
    request = f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()
    raw = mesh.python(CLIENT, SEND, name, "9000", request.hex()).out
    assert raw.startswith("service=mix/shop port=9000 ")
    assert raw.encode().endswith(request)


@pytest.mark.parametrize("name", SPELLINGS)
def test_t_a3_the_host_matrix_of_the_proxy_port(mesh: RunningWorld, name: str) -> None:
    assert_shop(ask_proxy(mesh, name), 80)
    assert_refused(ask_proxy(mesh, f"{name}:9000"), "port-not-http", name)
    assert_refused(ask_proxy(mesh, f"{name}:18081"), "port-not-declared", name)


@pytest.mark.parametrize("caller", ["red", "blue"])
@pytest.mark.parametrize("dialled", ["red", "blue"])
def test_t_a4_a_short_name_is_the_callers_own_namespaces(mesh: RunningWorld, caller: str, dialled: str) -> None:
    pod = f"{caller}/caller"
    for host in ("echo", "ECHO", "echo.", "echo:8080"):
        captured = mesh.curl(pod, f"http://echo.{dialled}.{MESH}:8080/", "-H", f"Host: {host}")
        assert captured.json()["service"] == f"{caller}/echo"
    loopback = mesh.curl(pod, "http://127.0.0.1:18081/", "-H", "Host: echo:8080")
    assert loopback.json()["service"] == f"{caller}/echo"


def test_t_a4_a_namespace_without_it_gets_what_an_unknown_name_gets(mesh: RunningWorld) -> None:
    for dialled in ("red", "blue"):
        url = f"http://echo.{dialled}.{MESH}:8080/"
        short = mesh.curl("green/caller", url, "-H", "Host: echo")
        unknown = mesh.curl("green/caller", url, "-H", "Host: unknown.example")
        assert (short.code, short.status, short.error) == (unknown.code, unknown.status, unknown.error)
        assert "echo" not in short.body.removeprefix("echo")
        full = mesh.curl("green/caller", url)
        assert full.json()["service"] == f"{dialled}/echo"
    assert mesh.curl("green/caller", "http://127.0.0.1:18081/", "-H", "Host: echo:8080").status == 404


def ring(mesh: RunningWorld) -> dict[str, list[str]]:
    """The members by name, with their addresses."""
    return {pod["metadata"]["name"]: [one["ip"] for one in pod["status"]["podIPs"]] for pod in mesh.pods("mix", "ring")}


def bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def test_t_a5_members_reach_themselves_their_service_and_each_other(mesh: RunningWorld) -> None:
    members = ring(mesh)
    assert len(members) == 3
    for member, own in members.items():
        here = f"mix/{member}"
        for address in own:
            answer = mesh.curl(here, f"http://{bracketed(address)}:8000/")
            assert (answer.json()["pod"], answer.json()["port"]) == (member, 8000)
        local = mesh.curl(here, "http://localhost:8000/").json()
        assert (local["pod"], local["xfcc"]) == (member, "")
        assert mesh.curl(here, "http://ring:8000/").json()["service"] == "mix/ring"
        assert mesh.python(here, SEND, "ring", "7000", "00").out.startswith("service=mix/ring port=7000 ")
        for peer in members:
            assert mesh.curl(here, f"http://{peer}.ring:8000/").json()["pod"] == peer
            assert f"pod={peer}\n" in mesh.python(here, SEND, f"{peer}.ring", "7000", "00").out
        for peer in members.keys() - {member}:
            for address in members[peer]:
                answer = mesh.curl(here, f"http://{bracketed(address)}:8000/").json()
                assert (answer["pod"], answer["port"]) == (peer, 8000)
                assert "URI=spiffe://aether.internal/ns/mix/sa/ring" in answer["xfcc"]


def test_t_a5_a_member_that_comes_back_is_dialled_by_name_and_changes_no_listener(
    mesh: RunningWorld, figure: Figure
) -> None:
    before_listeners = listeners(mesh)
    before = ring(mesh)
    (gone, *_) = before
    assert mesh.aether("delete", "pod", f"mix/{gone}").code == 0
    new = mesh.wait("a new member", lambda: ring_ready(mesh) - before.keys())
    ready_at = time.monotonic()
    (name,) = new
    mesh.wait("the new member to be dialled by name", lambda: is_dialled(mesh, name))
    seconds = time.monotonic() - ready_at
    figure("T-A5 a new member dialled by name after it was ready, s", seconds)
    assert seconds < 2.0
    assert ring(mesh)[name] not in before.values()
    mesh.wait_ready()
    assert listeners(mesh) == before_listeners


def ring_ready(mesh: RunningWorld) -> set[str]:
    return {
        pod["metadata"]["name"]
        for pod in mesh.pods("mix", "ring")
        if any((one["type"], one["status"]) == ("Ready", "True") for one in pod.get("status", {}).get("conditions", ()))
    }


def is_dialled(mesh: RunningWorld, member: str) -> bool:
    answer = mesh.curl(CLIENT, f"http://{member}.ring:8000/")
    return answer.status == 200 and answer.json()["pod"] == member


def listeners(mesh: RunningWorld) -> dict[str, int]:
    """Of both nodes: how many there are, and how often one was changed."""
    return gauges(mesh, r"^listener_manager\.(total_listeners_active|listener_modified)$")
