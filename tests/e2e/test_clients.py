"""HTTP clients as people use them: curl in all its ways, Python's own, gRPC. And what a refusal makes them do."""

from typing import Any

import pytest
from tests.support.manifests import client, echo, namespace, together
from tests.support.proxy import access_lines, over_mesh_tls
from tests.support.world import RunningWorld

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("clients")]

NODES = 2
CLIENT = "web/client"
IDENTITY = "URI=spiffe://aether.internal/ns/web/sa/client"

MANIFESTS = together(
    namespace("web"),
    echo("site", "web", ["8080=http", "9090=h2", "9000=tcp"], declares="8080,9090=h2,9000=tcp"),
    client("client", "web"),
)

H2C = "--http2-prior-knowledge"


@pytest.mark.parametrize("options", [(), ("--http1.0",), (H2C,)])
@pytest.mark.parametrize("port", [8080, 9090])
def test_every_http_version_meets_every_codec_with_the_callers_identity(
    mesh: RunningWorld, port: int, options: tuple[str, ...]
) -> None:
    answer = mesh.curl(CLIENT, f"http://site:{port}/", *options)
    assert answer.status == 200
    assert (answer.json()["service"], answer.json()["port"]) == ("web/site", port)
    assert IDENTITY in answer.json()["xfcc"]


def test_the_hop_of_an_http_request_is_mesh_tls(mesh: RunningWorld) -> None:
    with over_mesh_tls(mesh):
        assert mesh.curl(CLIENT, "http://site:8080/").status == 200


@pytest.mark.parametrize("options", [(), (H2C,), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect: 100-continue")])
@pytest.mark.parametrize("port", [8080, 9090])
def test_a_large_body_arrives_whole(mesh: RunningWorld, port: int, options: tuple[str, ...]) -> None:
    script = 'head -c 3000000 /dev/zero | curl -s -m 10 "$@"'
    arguments = ["--data-binary", "@-", *options, f"http://site:{port}/upload"]
    answer = mesh.exec(CLIENT, "sh", "-c", script, "sh", *arguments).json()
    assert (answer["method"], answer["body_bytes"]) == ("POST", 3_000_000)


WEBSOCKET = """
import base64, os, socket, struct, sys
with socket.create_connection(("site", 8080), timeout=5) as connection:
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall((
        f"GET /chat HTTP/1.1\\r\\nHost: site\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
        f"Sec-WebSocket-Key: {key}\\r\\nSec-WebSocket-Version: 13\\r\\n\\r\\n"
    ).encode())
    head = b""
    while b"\\r\\n\\r\\n" not in head:
        head += connection.recv(4096)
    sys.stdout.write(head.split(b"\\r\\n")[0].decode() + "\\n")
    frame = struct.pack("!BBI", 0x81, 0x85, 0) + b"hello"
    for _ in range(3):
        connection.sendall(frame)
        assert connection.recv(4096) == frame
print("3 frames")
"""


def test_a_websocket_is_upgraded_and_carries_frames_both_ways(mesh: RunningWorld) -> None:
    ran = mesh.python(CLIENT, WEBSOCKET)
    assert ran.out == "HTTP/1.1 101 Switching Protocols\n3 frames\n", ran


def test_an_upstreams_own_status_is_passed_on_without_a_reason(mesh: RunningWorld) -> None:
    for status in (404, 421, 500, 503):
        answer = mesh.curl(CLIENT, f"http://site:8080/status/{status}")
        assert (answer.status, answer.error) == (status, "")


GRPC = """
import json, sys
import grpc
target, authority, wait_for_ready = sys.argv[1:]
options = [("grpc.default_authority", authority)] if authority else []
with grpc.insecure_channel(target, options=options) as channel:
    call = channel.unary_unary("/shop.Cart/Add", lambda body: body, lambda body: body)
    try:
        reply, ended = call.with_call(
            b"one", timeout=5, metadata=[("x-color", "blue")], wait_for_ready=bool(wait_for_ready)
        )
        code, details = ended.code(), ended.details()
    except grpc.RpcError as error:
        reply, ended, code, details = b"{}", error, error.code(), error.details()
    headers = dict([*ended.initial_metadata(), *ended.trailing_metadata()])
print(json.dumps({"reply": json.loads(reply), "code": code.name, "details": details, "headers": headers}))
"""


def grpc_call(mesh: RunningWorld, target: str, *, authority: str = "", waits: str = "") -> dict[str, Any]:
    ran = mesh.python(CLIENT, GRPC, target, authority, waits)
    assert ran.code == 0, ran
    answer: dict[str, Any] = ran.json()
    return answer


def test_a_grpc_call_is_delivered_with_its_metadata(mesh: RunningWorld) -> None:
    answer = grpc_call(mesh, "site.web.aether.internal:9090")
    reply = answer["reply"]
    assert (answer["code"], reply["port"], reply["path"]) == ("OK", 9090, "/shop.Cart/Add")
    assert reply["headers"]["x-color"] == "blue"
    assert IDENTITY in reply["xfcc"]


@pytest.mark.parametrize("waits", ["", "waits"])
def test_a_refused_grpc_call_says_why_as_grpc_says_it(mesh: RunningWorld, waits: str) -> None:
    answer = grpc_call(mesh, "site.web:7775", waits=waits)
    assert answer["code"] == "UNKNOWN"
    assert answer["details"].strip() == "site.web serves 8080=http, 9000=tcp, 9090=http"
    assert answer["headers"]["x-aether-error"] == "port-not-declared"


def test_a_grpc_call_for_another_port_is_refused_the_same_way(mesh: RunningWorld) -> None:
    answer = grpc_call(mesh, "site.web:9090", authority="site.web:8080")
    assert answer["code"] == "UNKNOWN"
    assert answer["headers"]["x-aether-error"] == "port-mismatch"


PYTHON_CLIENTS = {
    "http.client": """
import http.client
connection = http.client.HTTPConnection("site.web", 7777, timeout=5)
connection.request("POST", "/orders", body=b"one order")
print(connection.getresponse().status)
""",
    "urllib": """
import urllib.error, urllib.request
try:
    urllib.request.urlopen("http://site.web:7777/orders", data=b"one order", timeout=5)
except urllib.error.HTTPError as error:
    print(error.code)
""",
    "aiohttp": """
import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as session:
        async with session.post("http://site.web:7777/orders", data=b"one order") as answer:
            print(answer.status)
asyncio.run(main())
""",
}


class Refusals:
    """Counts what the proxies refused of the requests for one port that nobody declares."""

    def __init__(self, mesh: RunningWorld) -> None:
        self._mesh = mesh
        self._before = self._count(7777)
        self._ends_before = self._count(7778)

    def assert_one(self) -> None:
        """One request came since. Asked when the client has ended; a last request marks the end of the log."""
        self._mesh.curl(CLIENT, "http://site.web:7778/")
        self._mesh.wait("the last line of the access log", lambda: self._count(7778) > self._ends_before)
        assert self._count(7777) == self._before + 1

    def _count(self, port: int) -> int:
        lines = access_lines(self._mesh)
        return sum(
            (line.get("error"), line["authority"]) == ("port-not-declared", f"site.web:{port}") for line in lines
        )


@pytest.mark.parametrize("options", [(), ("--retry", "3", "--retry-connrefused")])
def test_curl_sends_a_refused_post_once(mesh: RunningWorld, options: tuple[str, ...]) -> None:
    refusals = Refusals(mesh)
    answer = mesh.curl(CLIENT, "http://site.web:7777/", "-d", "one order", *options)
    assert (answer.status, answer.error) == (421, "port-not-declared")
    refusals.assert_one()


EARLY_ANSWER = 92
"""What curl before 8.0 makes of an HTTP/2 answer that comes before the body was sent: it loses the answer."""


@pytest.mark.parametrize("options", [(H2C,), (H2C, "--retry", "3")])
def test_curl_sends_a_refused_post_over_h2c_once(mesh: RunningWorld, options: tuple[str, ...]) -> None:
    """The refusal does not wait for the body: HEADERS, DATA and RST_STREAM with NO_ERROR (RFC 9113, section 8.1)."""
    refusals = Refusals(mesh)
    answer = mesh.curl(CLIENT, "http://site.web:7777/", "-d", "one order", *options)
    assert (answer.code, answer.status, answer.error) in [(0, 421, "port-not-declared"), (EARLY_ANSWER, 0, "")]
    refusals.assert_one()


def test_a_refused_request_over_h2c_says_why(mesh: RunningWorld) -> None:
    answer = mesh.curl(CLIENT, "http://site.web:7776/", H2C)
    assert (answer.status, answer.error) == (421, "port-not-declared")


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_a_python_client_sends_a_refused_post_once(mesh: RunningWorld, name: str) -> None:
    refusals = Refusals(mesh)
    ran = mesh.python(CLIENT, PYTHON_CLIENTS[name])
    assert ran.out.strip() == "421", ran
    refusals.assert_one()


@pytest.mark.parametrize("waits", ["", "waits"])
def test_grpc_sends_a_refused_call_once(mesh: RunningWorld, waits: str) -> None:
    refusals = Refusals(mesh)
    assert grpc_call(mesh, "site.web:7777", waits=waits)["code"] == "UNKNOWN"
    refusals.assert_one()
