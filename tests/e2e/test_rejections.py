"""One resource that Envoy refuses: the rest is applied, traffic goes on, the refusal is told, and it heals.

The refused resources are bent on purpose, in the agent of the test; everything that deals with the refusal is the
product's.
"""

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.bent import BentWorld, bent_world
from tests.support.manifests import client, echo, namespace, together

from aether.render.envoy.names import CAPTURE_TABLE, inbound_listener
from aether.wire.xds.delta import WITHHELD

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("rejections")]

WRK_FAILURES = re.compile(r"Socket errors|Non-2xx")
MANIFESTS = together(
    namespace("rej"),
    echo("web", "rej", ["8080=http"], declares="8080"),
    echo("site", "rej", ["8080=http"], declares="8080"),
    client("caller", "rej"),
)
CALLER = "rej/caller"
WEB_CLUSTER = "web.rej.aether.internal:8080"


@pytest.fixture(scope="module")
def mesh() -> Iterator[BentWorld]:
    with bent_world(f"rejections-{os.getpid()}", MANIFESTS) as running:
        for host in ("web", "site"):
            assert running.curl(CALLER, f"http://{host}:8080/").status == 200
        yield running


def bad(mesh: BentWorld, kind: str) -> tuple[str, str, str]:
    """A bend, the resource that it spoils, and words of Envoy's refusal."""
    (web,) = mesh.pods("rej", "web")
    return {
        "cluster": ("bad-cluster", WEB_CLUSTER, "duration"),
        "listener": ("bad-listener", inbound_listener(web["metadata"]["uid"]), "aether.NotThere"),
        "table": ("bad-table", CAPTURE_TABLE, "nique"),
        "secret": ("bad-secret", "out/rej/caller", WITHHELD),
    }[kind]


def told(mesh: BentWorld, name: str) -> list[str]:
    """What the node says of the refused resource."""
    return [text for node in mesh.status().nodes for text in node.rejections if text.startswith(f"{name}: ")]


@pytest.mark.parametrize("kind", ["cluster", "listener", "table", "secret"])
def test_a_refused_resource_is_told_with_envoys_words_and_heals(mesh: BentWorld, kind: str) -> None:
    bend, name, words = bad(mesh, kind)
    with mesh.bent((bend, name)):
        (text,) = mesh.wait("the refusal", lambda: told(mesh, name))
        assert words in text
        status = mesh.aether("status")
        assert "1 rejected" in status.out
        assert name in unfolded(status.out)
        check = mesh.aether("check")
        assert check.code == 1
        assert name in unfolded(check.out)
        assert unfolded(text) in unfolded(check.out)
        assert words in logged(mesh, name)["text"]
    mesh.wait("it to heal", lambda: not told(mesh, name))
    check = mesh.aether("check")
    assert check.code == 0, check.out
    assert "accepted every resource" in check.out


def unfolded(text: str) -> str:
    """Without the line breaks and spaces of a terminal's width."""
    return re.sub(r"\s+", "", text)


def logged(mesh: BentWorld, name: str) -> dict[str, Any]:
    """The agent's line about a refused resource."""
    lines = map(json.loads, mesh.paths.node("node-1").agent_log.read_text().splitlines())
    found: list[dict[str, Any]] = [
        line for line in lines if line["event"] == "resource-rejected" and line["name"] == name
    ]
    return found[-1]


@pytest.mark.parametrize("kind", ["cluster", "listener", "table", "secret"])
def test_traffic_goes_on_and_what_is_new_is_applied(mesh: BentWorld, kind: str) -> None:
    bend, name, _ = bad(mesh, kind)
    late = echo(f"late-{kind}", "rej", ["8080=http", "9000=banner"], declares="8080,9000=tcp")
    with mesh.start(CALLER, "wrk", "-t1", "-c4", "-d6s", "http://site:8080/") as load:
        with mesh.bent((bend, name)):
            mesh.wait("the refusal", lambda: told(mesh, name))
            assert mesh.apply(late).code == 0
            mesh.wait_ready()
            assert mesh.curl(CALLER, "http://web:8080/").status == 200, "what was good before still serves"
            url, host = "http://127.0.0.1:18081/", f"Host: late-{kind}:8080"
            assert mesh.curl(CALLER, url, "-H", host).status == 200
            assert f"service=rej/late-{kind} port=9000" in mesh.python(CALLER, BANNER, f"late-{kind}").out
            assert len(told(mesh, name)) == 1
        ran = load.finish(30)
    assert not WRK_FAILURES.search(ran.out), ran.out
    assert mesh.curl(CALLER, f"http://late-{kind}:8080/").status == 200
    assert mesh.aether("delete", "-f", "-", stdin=late).code == 0
    mesh.wait_ready()


BANNER = """
import socket, sys
print(socket.create_connection((sys.argv[1], 9000), timeout=5).recv(200).decode())
"""


def test_no_log_and_no_report_holds_key_material(mesh: BentWorld) -> None:
    with mesh.bent(("bad-secret", "out/rej/caller")):
        mesh.wait("the refusal", lambda: told(mesh, "out/rej/caller"))
        said = [mesh.aether("status", "-o", "json").out, mesh.aether("check", "-o", "json").out]
    said += [log.read_text() for log in mesh.paths.runtime.glob("nodes/*/*.log")]
    said.append(mesh.paths.log.read_text())
    for text in said:
        assert "PRIVATE KEY" not in text
        assert "not a certificate" not in text, "Envoy's words about a secret may quote it"
