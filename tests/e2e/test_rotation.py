"""Certificates are replaced while they are in use: leaves over and over, and once the root. Nobody's connection drops.

The mesh of this world gives out leaves for seconds instead of a day; everything else is as ever.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from tests.support.bent import BentWorld, bent_world
from tests.support.manifests import client, echo, namespace, together
from tests.support.proxy import gauges

from aether.adapters.ca.certificates import issuer_key_id, subject_key_id, uri_names
from aether.model.facts import MeshConfig

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.envoy, pytest.mark.xdist_group("rotation")]

LIFETIME_S = 12.0
"""Renewed after six seconds; a hop lives for three."""
LOAD_S = 20
STEADY = str(Path(__file__).parents[1] / "support/clients/steady.py")
WRK_FAILURES = re.compile(r"Socket errors|Non-2xx")
MANIFESTS = together(
    namespace("rot"),
    echo("web", "rot", ["8080=http", "9000=tcp"], declares="8080,9000=tcp", replicas=2),
    client("caller", "rot"),
    client("outsider", "rot", annotations={"aether.io/managed": "false"}),
)


@pytest.fixture(scope="module")
def mesh() -> Iterator[BentWorld]:
    config = MeshConfig(leaf_lifetime_s=LIFETIME_S)
    with bent_world(f"rotation-{os.getpid()}", MANIFESTS, nodes=2, config=config) as running:
        yield running


@contextlib.contextmanager
def steady_use(mesh: BentWorld, seconds: int) -> Iterator[dict[str, Any]]:
    """Connections in use throughout the block and `seconds` at least; none may drop. What they saw is in the value."""
    words = ("python3", STEADY, "web.rot", "8080", "9000", str(seconds))
    seen: dict[str, Any] = {}
    with mesh.start("rot/caller", *words) as using:
        assert using.out.readline() == b"begun\n", using.finish(5)
        yield seen
        ran = using.finish(seconds + 30)
    assert ran.code == 0, ran
    seen.update(ran.json())
    assert {name: one["error"] for name, one in seen.items()} == {"h1": "", "h2": "", "raw": ""}
    assert all(one["answers"] > seconds for one in seen.values()), seen


PRESENTED = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection((sys.argv[1], 18008), timeout=5) as plain:
    with context.wrap_socket(plain, server_hostname="8080") as tls:
        print(ssl.DER_cert_to_PEM_cert(tls.getpeercert(True)))
"""


def presented(mesh: BentWorld) -> list[x509.Certificate]:
    """What the inbound of each pod of the service shows now."""
    found = []
    for pod in mesh.pods("rot", "web"):
        ran = mesh.python("rot/outsider", PRESENTED, pod["status"]["podIP"])
        assert ran.code == 0, ran
        found.append(x509.load_pem_x509_certificate(ran.out.encode()))
    return found


def test_leaves_are_renewed_under_load_and_no_connection_drops(mesh: BentWorld) -> None:
    before = presented(mesh)
    opened = hops(mesh)
    with steady_use(mesh, LOAD_S) as seen:
        ran = mesh.exec("rot/caller", "wrk", "-t1", "-c8", f"-d{LOAD_S}s", "http://web.rot:8080/", limit_s=LOAD_S + 30)
        assert ran.code == 0, ran
        assert not WRK_FAILURES.search(ran.out), ran.out
    after = presented(mesh)
    for name in ("h1", "h2"):
        assert len(seen[name]["certificates"]) >= 3, "the destination saw few of the caller's certificates"
    assert not {one.serial_number for one in before} & {one.serial_number for one in after}
    for one in after:
        assert (one.not_valid_after_utc - one.not_valid_before_utc).total_seconds() == pytest.approx(312, abs=1)
    assert hops(mesh) - opened >= LOAD_S / (LIFETIME_S / 4), "a hop outlives its certificate"


def hops(mesh: BentWorld) -> int:
    return sum(gauges(mesh, r"^cluster\.rot/web\.upstream_cx_total$").values())


def leaves(mesh: BentWorld) -> list[x509.Certificate]:
    """Every leaf that an agent keeps on disk."""
    files = [*mesh.paths.runtime.glob("nodes/*/identities/*.leaf")]
    return [x509.load_pem_x509_certificate(file.read_bytes()) for file in files]


def test_a_leaf_that_nobody_needs_is_forgotten(mesh: BentWorld) -> None:
    leaver = client("leaver", "rot")
    assert mesh.apply(leaver).code == 0
    mesh.wait_ready()
    mesh.wait("its leaf", lambda: "leaver" in owners(mesh))
    assert mesh.aether("delete", "-f", "-", stdin=leaver).code == 0
    mesh.wait("its leaf to be gone", lambda: "leaver" not in owners(mesh))
    assert owners(mesh) == {"web", "caller", "agent"}


def owners(mesh: BentWorld) -> set[str]:
    return {uri.rpartition("/")[2] for one in leaves(mesh) for uri in uri_names(one) or ()}


def bundles(mesh: BentWorld) -> list[list[x509.Certificate]]:
    """The roots that each agent trusts, the signing one first."""
    files = sorted(mesh.paths.runtime.glob("nodes/*/identities/bundle.pem"))
    return [x509.load_pem_x509_certificates(file.read_bytes()) for file in files]


def test_the_root_is_replaced_under_load_and_no_connection_drops(mesh: BentWorld) -> None:
    (old,), (also_old,) = bundles(mesh)
    assert old == also_old
    with steady_use(mesh, 12) as seen:
        mesh.rotate_root()
        mesh.wait("both agents to trust both roots", lambda: [len(roots) for roots in bundles(mesh)] == [2, 2])
        new = bundles(mesh)[0][0]
        assert bundles(mesh) == [[new, old], [new, old]]
        mesh.wait(
            "leaves of the new root only", lambda: {issuer_key_id(one) for one in leaves(mesh)} == {subject_key_id(new)}
        )
        mesh.wait(
            "the new root's leaves in use",
            lambda: {issuer_key_id(one) for one in presented(mesh)} == {subject_key_id(new)},
        )
        ran = mesh.exec("rot/caller", "wrk", "-t1", "-c8", "-d5s", "http://web.rot:8080/")
        assert not WRK_FAILURES.search(ran.out), ran.out
    assert len(seen["h1"]["certificates"]) >= 2
