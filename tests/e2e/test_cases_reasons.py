"""Case T-A12: the client's answer, the access log and `aether explain` say the same one word.

The sixth of the case's set-ups, a caller that is not allowed, comes with authorization.
"""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.figures import Figure
from tests.support.manifests import ECHO, client, deployment, echo, namespace, together
from tests.support.processes import processes_of
from tests.support.proxy import access_lines
from tests.support.world import RunningWorld

from aether.adapters.ca.authority import FILE_NAME, CertificateAuthority
from aether.adapters.clock import ManualClock
from aether.adapters.kernel.nft import Nft
from aether.model.identity import WorkloadIdentity
from aether.model.ports import INBOUND_PORT
from aether.model.world import Explanation

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("cases-reasons")]

NODES = 2
CLIENT = "why/client"
EXPLAIN_LIMIT_S = 5.0
TRUST_DOMAIN = "aether.internal"
ON_NODE_2 = {"nodeName": "node-2"}

MANIFESTS = together(
    namespace("why"),
    echo("sound", "why", ["8080=http"], declares="8080,9090", extra=ON_NODE_2),
    echo("stale", "why", ["8080=http"], declares="8080", extra=ON_NODE_2),
    echo("gone", "why", ["8080=http"], declares="8080", extra=ON_NODE_2),
    client("client", "why", node="node-1"),
)
SICK = deployment(
    "sick", "why", [*ECHO, "9090=http"], annotations={"endpoint.aether.io/ports": "8080,9090"}, extra=ON_NODE_2
)
"""It serves a port, but not the one that its liveness is judged by."""


def assert_one_word(mesh: RunningWorld, figure: Figure, url: str, *options: str, word: str, status: int = 503) -> None:
    """The request of these curl options fails with `word`, in all three places; explain gives a step and advice."""
    authority = options[1].removeprefix("Host: ") if options else url.removeprefix("http://").removesuffix("/")
    before = len(lines_of(mesh, authority))
    answer = mesh.curl(CLIENT, url, *options)
    assert (answer.status, answer.error) == (status, word), answer
    lines = mesh.wait("a line in the access log", lambda: lines_of(mesh, authority)[before:])
    assert {line["error"] for line in lines} == {word}
    host = ("-H", authority) if options else ()
    said = mesh.wait("explain to know", lambda: explained(mesh, url, *host))
    began = time.monotonic()
    text = mesh.aether("explain", CLIENT, url, *host)
    seconds = time.monotonic() - began
    figure(f"T-A12 aether explain, {word}, s", seconds)
    assert seconds < EXPLAIN_LIMIT_S
    assert said.reason == word
    assert [step for step in said.steps if not step.is_ok], said
    assert said.advice
    assert word in text.out
    assert said.advice in text.out.replace("\n", " ")


def lines_of(mesh: RunningWorld, authority: str) -> list[dict[str, object]]:
    """Of the caller's end."""
    return [line for line in access_lines(mesh) if line.get("authority") == authority and line["entry"] == "captured"]


def explained(mesh: RunningWorld, url: str, *options: str) -> Explanation | None:
    """None while it says that the request is delivered: the log is read now and then."""
    ran = mesh.aether("explain", CLIENT, url, *options, "-o", "json")
    assert ran.code == 0, ran
    said: dict[str, object] = ran.json()
    return msgspec.convert(said, Explanation) if said["reason"] else None


def test_t_a12_another_port_in_host(mesh: RunningWorld, figure: Figure) -> None:
    host = ("-H", "Host: sound:9090")
    assert_one_word(mesh, figure, "http://sound:8080/", *host, word="port-mismatch", status=421)


def test_t_a12_a_port_that_is_not_declared(mesh: RunningWorld, figure: Figure) -> None:
    assert_one_word(mesh, figure, "http://sound:7777/", word="port-not-declared", status=421)


def test_t_a12_an_application_that_refuses_the_connection(mesh: RunningWorld, figure: Figure) -> None:
    assert_one_word(mesh, figure, "http://sound:9090/", word="upstream-refused")


def test_t_a12_no_endpoint(mesh: RunningWorld, figure: Figure) -> None:
    assert mesh.curl(CLIENT, "http://gone:8080/").status == 200
    assert mesh.apply(echo("gone", "why", ["8080=http"], declares="8080", replicas=0)).code == 0
    mesh.wait("the last endpoint to be gone", lambda: not endpoints(mesh, "gone"))
    mesh.wait("the proxy to know", lambda: mesh.curl(CLIENT, "http://gone:8080/").error == "no-endpoint")
    assert_one_word(mesh, figure, "http://gone:8080/", word="no-endpoint")


def endpoints(mesh: RunningWorld, service: str) -> int:
    return sum(one.endpoints for one in mesh.status().services if one.name == service)


def test_t_a12_no_healthy_endpoint(mesh: RunningWorld, figure: Figure) -> None:
    assert mesh.apply(SICK).code == 0
    mesh.wait("its row", lambda: endpoints(mesh, "sick"))
    mesh.wait("its name", lambda: mesh.exec(CLIENT, "getent", "hosts", "sick").code == 0)
    assert_one_word(mesh, figure, "http://sick:9090/", word="unhealthy")
    assert mesh.aether("delete", "-f", "-", stdin=SICK).code == 0


def test_t_a12_an_expired_certificate(mesh: RunningWorld, figure: Figure, tmp_path: Path) -> None:
    (pod,) = mesh.pods("why", "stale")
    with expired_inbound(mesh, f"why/{pod['metadata']['name']}", tmp_path):
        assert_one_word(mesh, figure, "http://stale:8080/", word="upstream-identity")
    assert "expired" in str(lines_of(mesh, "stale:8080")[-1]["transport_failure"]).lower()


@contextlib.contextmanager
def expired_inbound(mesh: RunningWorld, pod: str, folder: Path) -> Iterator[None]:
    """Whoever dials the pod's inbound port from the client's node meets the right identity with a leaf that expired."""
    copy = folder / "ca"
    copy.mkdir(mode=0o700)
    (copy / FILE_NAME).write_bytes((mesh.paths.ca / FILE_NAME).read_bytes())
    (copy / FILE_NAME).chmod(0o600)
    authority = CertificateAuthority.open(copy, TRUST_DOMAIN, clock=ManualClock(wall=time.time() - 7200))
    leaf = authority.issue(WorkloadIdentity(TRUST_DOMAIN, "why", "stale"), lifetime_s=3600)
    (folder / "leaf.pem").write_bytes(leaf.chain_pem + leaf.key.reveal())
    (caller,) = mesh.pods("why", "client")
    with mesh.start(pod, "python3", "-c", IMPOSTOR, str(folder / "leaf.pem")) as impostor:
        assert impostor.out.readline() == b"listening\n", impostor.finish(5)
        (pid, *_) = processes_of(mesh.paths, str(folder / "leaf.pem"))
        with Nft(Path(f"/proc/{pid}/ns/net")) as nft:
            nft.apply(DIVERSION.format(caller=caller["status"]["hostIP"], port=INBOUND_PORT))
        yield


DIVERSION = """
table ip impostor {{
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    ip saddr {caller} tcp dport {port} redirect to :9443
  }}
}}
"""

IMPOSTOR = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
context.set_alpn_protocols(["h2"])
server = socket.create_server(("", 9443))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    try:
        context.wrap_socket(connection, server_side=True).close()
    except OSError:
        pass
"""
