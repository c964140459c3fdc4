"""The addressing legs A1 to A13 and R1 to R5 on the real data plane (A4 needs routes; A12 is retired by R1 to R4).

Every echo names its service, port and pod, so a request that reaches a wrong target fails here and is not a 200.
"""

import itertools

import pytest
from tests.support.manifests import client, echo, namespace, together
from tests.support.world import Answer, RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("addressing")]

NODES = 2
MESH = "aether.internal"
REFUSAL_LIMIT_S = 1.0

MANIFESTS = together(
    namespace("mp"),
    echo("mp-httponly", "mp", ["8080=http"], declares="8080"),
    echo("mp-multi", "mp", ["8080=http", "9090=http"], declares="8080,9090"),
    echo("mp-eighty", "mp", ["80=http", "8080=http", "9090=http"], declares="80,8080,9090"),
    echo("mp-mixed", "mp", ["8080=http", "9000=tcp"], declares="8080,9000=tcp"),
    echo(
        "mp-tcpfirst",
        "mp",
        ["9000=tcp", "8080=http"],
        declares="8080=h1",
        annotations={"endpoint.aether.io/port": "9000", "endpoint.aether.io/protocol": "tcp"},
    ),
    echo("mp-nine", "mp", ["9000=http"], declares="9000"),
    echo("mp-first", "mp", ["3306=banner"], declares="3306=tcp"),
    client("mp-client", "mp"),
    client("mp-client-nocapture", "mp", annotations={"capture.aether.io/redirect-all": "false"}),
)

CAPTURED = "mp/mp-client"
LOOPBACK = "mp/mp-client-nocapture"

HTTP_PORTS = {
    "mp-httponly": (8080,),
    "mp-multi": (8080, 9090),
    "mp-eighty": (80, 8080, 9090),
    "mp-mixed": (8080,),
    "mp-tcpfirst": (8080,),
    "mp-nine": (9000,),
}
LISTINGS = {
    "mp-httponly": "8080=http",
    "mp-multi": "8080=http, 9090=http",
    "mp-eighty": "80=http, 8080=http, 9090=http",
    "mp-mixed": "8080=http, 9000=tcp",
    "mp-tcpfirst": "8080=http, 9000=tcp",
    "mp-nine": "9000=http",
}
FAMILIES = ("-4", "-6")


def mesh_name(service: str) -> str:
    return f"{service}.mp.{MESH}"


def kubernetes_names(service: str) -> tuple[str, ...]:
    return f"{service}.mp.svc.cluster.local", f"{service}.mp.svc", f"{service}.mp"


def all_names(service: str) -> tuple[str, ...]:
    return mesh_name(service), *kubernetes_names(service)


def every_http_port(*services: str) -> list[tuple[str, int]]:
    return [(service, port) for service in services or HTTP_PORTS for port in HTTP_PORTS[service]]


def assert_reached(answer: Answer, service: str, port: int) -> None:
    assert answer.status == 200, answer
    assert (answer.json()["service"], answer.json()["port"]) == (f"mp/{service}", port), answer
    assert answer.error == ""


def assert_refused(answer: Answer, reason: str, spelled: str, service: str) -> None:
    assert (answer.status, answer.error) == (421, reason), answer
    assert answer.body.strip() == f"{spelled} serves {LISTINGS[service]}", answer
    assert answer.seconds < REFUSAL_LIMIT_S


def loopback(mesh: RunningWorld, host: str, pod: str = LOOPBACK) -> Answer:
    return mesh.curl(pod, "http://127.0.0.1:18081/", "-H", f"Host: {host}")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("service", "port"), every_http_port())
def test_a1_a_captured_dial_of_the_mesh_name_reaches_that_port(
    mesh: RunningWorld, service: str, port: int, family: str
) -> None:
    assert_reached(mesh.curl(CAPTURED, f"http://{mesh_name(service)}:{port}/", family), service, port)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("service", "port"), every_http_port("mp-multi", "mp-eighty", "mp-mixed"))
def test_a2_a_captured_dial_of_a_kubernetes_name_reaches_that_port(
    mesh: RunningWorld, service: str, port: int, family: str
) -> None:
    for name in kubernetes_names(service):
        assert_reached(mesh.curl(CAPTURED, f"http://{name}:{port}/", family), service, port)


@pytest.mark.parametrize(("service", "port"), every_http_port())
def test_a3_host_names_service_and_port_on_the_proxy_port_without_capture(
    mesh: RunningWorld, service: str, port: int
) -> None:
    for name in all_names(service):
        assert_reached(loopback(mesh, f"{name}:{port}"), service, port)


def test_a3_an_absolute_request_line_on_the_proxy_port_is_the_same(mesh: RunningWorld) -> None:
    url = f"http://{mesh_name('mp-multi')}:9090/x"
    assert_reached(mesh.curl(LOOPBACK, url, "-x", "http://127.0.0.1:18081"), "mp-multi", 9090)


@pytest.mark.parametrize("family", FAMILIES)
def test_a5_a_host_port_that_is_not_the_dialled_one_is_refused(mesh: RunningWorld, family: str) -> None:
    for name in all_names("mp-multi"):
        answer = mesh.curl(CAPTURED, f"http://{name}:8080/", "-H", f"Host: {name}:9090", family)
        assert_refused(answer, "port-mismatch", name, "mp-multi")


@pytest.mark.parametrize("service", ["mp-mixed", "mp-tcpfirst"])
def test_a6_a_raw_tcp_port_on_the_proxy_port_is_not_http(mesh: RunningWorld, service: str) -> None:
    for name in all_names(service):
        assert_refused(loopback(mesh, f"{name}:9000"), "port-not-http", name, service)


@pytest.mark.parametrize("family", FAMILIES)
def test_a7_an_undeclared_port_is_refused_when_captured(mesh: RunningWorld, family: str) -> None:
    for name in all_names("mp-multi"):
        answer = mesh.curl(CAPTURED, f"http://{name}:7777/", family)
        assert_refused(answer, "port-not-declared", name, "mp-multi")


def test_a7_an_undeclared_port_is_refused_on_the_proxy_port(mesh: RunningWorld) -> None:
    for name in all_names("mp-multi"):
        assert_refused(loopback(mesh, f"{name}:7777"), "port-not-declared", name, "mp-multi")


RAW = """
import socket, sys
host, port, sent, family = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode(), int(sys.argv[4])
info = socket.getaddrinfo(host, port, socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_STREAM)[0]
try:
    with socket.socket(info[0], socket.SOCK_STREAM) as connection:
        connection.settimeout(5)
        connection.connect(info[4])
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while data := connection.recv(4096):
            sys.stdout.write(data.decode(errors="replace"))
except OSError as error:
    sys.stdout.write(f"closed: {type(error).__name__}")
"""


def raw(mesh: RunningWorld, host: str, port: int, sent: str, family: str = "4") -> str:
    return mesh.python(CAPTURED, RAW, host, str(port), sent, family).out


@pytest.mark.parametrize("family", ["4", "6"])
def test_a8_raw_tcp_to_an_undeclared_port_reaches_no_application(mesh: RunningWorld, family: str) -> None:
    assert "service=" not in raw(mesh, mesh_name("mp-mixed"), 7777, "hello\n", family)


@pytest.mark.parametrize(
    ("service", "port"), [pair for pair in every_http_port("mp-multi", "mp-eighty", "mp-mixed") if pair[1] != 80]
)
def test_a9_a_host_without_a_port_means_the_dialled_port(mesh: RunningWorld, service: str, port: int) -> None:
    for name in all_names(service):
        answer = mesh.curl(CAPTURED, f"http://{name}:{port}/", "-H", f"Host: {name}")
        assert_reached(answer, service, port)


@pytest.mark.parametrize("family", FAMILIES)
def test_a10_a_number_that_is_raw_tcp_elsewhere_is_http_here(mesh: RunningWorld, family: str) -> None:
    assert_reached(mesh.curl(CAPTURED, f"http://{mesh_name('mp-nine')}:9000/", family), "mp-nine", 9000)


@pytest.mark.parametrize("family", ["4", "6"])
def test_a11_http_bytes_to_a_raw_tcp_port_arrive_untouched(mesh: RunningWorld, family: str) -> None:
    request = "GET / HTTP/1.1\r\nHost: whatever\r\n\r\n"
    got = raw(mesh, mesh_name("mp-mixed"), 9000, request, family)
    assert got.startswith("service=mp/mp-mixed port=9000 ")
    assert got.partition("\n")[2] == request.replace("\r\n", "\n") or got.endswith(request)


def test_a11_other_bytes_to_an_http_port_reach_no_application(mesh: RunningWorld) -> None:
    assert "service=" not in raw(mesh, mesh_name("mp-nine"), 9000, "\x01\x02\x03 not http\n")


SERVER_FIRST = """
import socket, sys, time
took = []
for _ in range(10):
    started = time.monotonic()
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5) as connection:
        line = connection.recv(200).decode()
        took.append(time.monotonic() - started)
print(f"{max(took[1:]):.4f} {line}")
"""


def test_a13_a_server_that_speaks_first_is_heard_at_once(mesh: RunningWorld) -> None:
    worst, _, line = mesh.python(CAPTURED, SERVER_FIRST, mesh_name("mp-first"), "3306").out.partition(" ")
    assert line.startswith("service=mp/mp-first port=3306 ")
    assert float(worst) < 0.2


@pytest.mark.parametrize("family", FAMILIES)
def test_r1_port_80_is_port_80_when_captured(mesh: RunningWorld, family: str) -> None:
    for name in all_names("mp-eighty"):
        assert_reached(mesh.curl(CAPTURED, f"http://{name}/", family), "mp-eighty", 80)


def test_r1_a_host_without_a_port_means_80_on_the_proxy_port(mesh: RunningWorld) -> None:
    for name in all_names("mp-eighty"):
        assert_reached(loopback(mesh, name), "mp-eighty", 80)


OTHERS = [service for service in HTTP_PORTS if service != "mp-eighty"]


@pytest.mark.parametrize("service", OTHERS)
def test_r2_port_80_of_a_service_without_it_is_refused(mesh: RunningWorld, service: str) -> None:
    for name in all_names(service):
        assert_refused(mesh.curl(CAPTURED, f"http://{name}/"), "port-not-declared", name, service)


@pytest.mark.parametrize("service", OTHERS)
def test_r3_a_host_without_a_port_needs_port_80_on_the_proxy_port(mesh: RunningWorld, service: str) -> None:
    for name in all_names(service):
        assert_refused(loopback(mesh, name), "port-required", name, service)


@pytest.mark.parametrize("pod", [CAPTURED, LOOPBACK])
def test_r4_the_proxy_port_is_no_port_of_a_service(mesh: RunningWorld, pod: str) -> None:
    for name in all_names("mp-httponly"):
        dialled = mesh.curl(pod, f"http://{name}:18081/")
        assert_refused(dialled, "port-not-declared", name, "mp-httponly")
        assert_refused(loopback(mesh, f"{name}:18081", pod), "port-not-declared", name, "mp-httponly")


@pytest.mark.parametrize("pod", [CAPTURED, LOOPBACK])
def test_r4_a_name_that_nobody_knows_is_refused_at_once_with_the_proxys_own_ports(mesh: RunningWorld, pod: str) -> None:
    for port in ("18081", "18082"):
        answer = loopback(mesh, f"nobody.mp.{MESH}:{port}", pod)
        assert (answer.status, answer.error) == (421, "port-not-declared")
        assert answer.seconds < REFUSAL_LIMIT_S


@pytest.mark.parametrize(("port", "family"), [*itertools.product([18082, 7777], ["4", "6"])])
def test_r5_raw_tcp_to_retired_and_undeclared_ports_reaches_no_application(
    mesh: RunningWorld, port: int, family: str
) -> None:
    assert "service=" not in raw(mesh, mesh_name("mp-tcpfirst"), port, "hello\n", family)
