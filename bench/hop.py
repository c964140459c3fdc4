"""The mesh's hop beside a hand-written static Envoy pair that does the same: HTTP/1.1, HTTP/2 and raw TCP.

Both ways run in one world, between the same two pods: client → a listener in the client's namespace → mutual TLS 1.3 →
a listener in the server's namespace → 127.0.0.1:8080. The static pair is one Envoy process with the least configuration
that does that; its two roles share the process as the mesh's do. wrk and h2load drive; the ratios count.
Target: latency at most 1.05 times the static pair's.
"""

import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.manifests import client, deployment, namespace, together
from tests.support.processes import processes_of
from tests.support.world import RunningWorld, world

from aether.adapters.ca import CertificateAuthority
from aether.adapters.clock import SystemClock
from aether.adapters.envoy.process import find_envoy
from aether.model.identity import WorkloadIdentity
from bench.figures import show

TRUST_DOMAIN = "static.bench"
HTTP_PORT, RAW_PORT = 19_080, 19_090
INBOUND_HTTP, INBOUND_RAW = 19_008, 19_009
ROUNDS = 3

_TYPES = "type.googleapis.com/envoy.extensions"
_HCM = f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"
_TCP = f"{_TYPES}.filters.network.tcp_proxy.v3.TcpProxy"
_ROUTER = f"{_TYPES}.filters.http.router.v3.Router"
_UPSTREAM_TLS = f"{_TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"
_DOWNSTREAM_TLS = f"{_TYPES}.transport_sockets.tls.v3.DownstreamTlsContext"
_HTTP_OPTIONS = f"{_TYPES}.upstreams.http.v3.HttpProtocolOptions"


def main(smoke: bool) -> None:  # noqa: FBT001
    seconds = 1 if smoke else 6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        (path / "app.json").write_text(json.dumps(_application()))
        (path / "bench.yaml").write_text(_manifests(path / "app.json"))
        with world(f"hop-{os.getpid()}", path / "bench.yaml") as mesh, _static_pair(mesh, path):
            address = _resolve(mesh, "app.bench")
            ways = {
                "h1": (f"http://127.0.0.1:{HTTP_PORT}/", f"http://{address}:8080/"),
                "h2": (f"http://127.0.0.1:{HTTP_PORT}/", f"http://{address}:8080/"),
                "tcp": (f"http://127.0.0.1:{RAW_PORT}/", f"http://{address}:9000/"),
            }
            for kind, (static, ours) in ways.items():
                _compare(mesh, kind, static, ours, seconds=seconds, rounds=1 if smoke else ROUNDS)


def _compare(mesh: RunningWorld, kind: str, static: str, ours: str, *, seconds: int, rounds: int) -> None:
    """Interleaved rounds; the best of each way, since whatever else runs only makes it worse."""
    load = _h2load if kind == "h2" else _wrk
    for connections in (1, 16):
        pairs = [
            (load(mesh, static, connections, seconds), load(mesh, ours, connections, seconds)) for _ in range(rounds)
        ]
        static_rps, mesh_rps = (max(pair[way][0] for pair in pairs) for way in (0, 1))
        static_ms, mesh_ms = (min(pair[way][1] for pair in pairs) for way in (0, 1))
        show(
            f"{kind}, {connections} connections",
            static_rps=static_rps,
            mesh_rps=mesh_rps,
            rps_ratio=mesh_rps / static_rps,
            static_p50_ms=static_ms,
            mesh_p50_ms=mesh_ms,
            latency_ratio=mesh_ms / static_ms,
        )


def _wrk(mesh: RunningWorld, url: str, connections: int, seconds: int) -> tuple[float, float]:
    """Requests a second and the median latency in milliseconds."""
    host = ("-H", "Host: app.bench.aether.internal")
    ran = mesh.exec(
        "bench/client", "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *host, url, limit_s=60
    )
    assert "Non-2xx" not in ran.out, ran.out
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", ran.out)
    median = re.search(r"50%\s+([0-9.]+)(us|ms|s)", ran.out)
    assert rate is not None, ran
    assert median is not None, ran
    return float(rate[1]), float(median[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[median[2]]


def _h2load(mesh: RunningWorld, url: str, connections: int, seconds: int) -> tuple[float, float]:
    """The same over HTTP/2 with 10 streams a connection; the latency is the mean, which is what h2load prints."""
    host = ("-H", ":authority: app.bench.aether.internal:8080")
    ran = mesh.exec("bench/client", "h2load", f"-c{connections}", "-m10", f"-D{seconds}", *host, url, limit_s=60)
    rate = re.search(r"finished in [^,]+, ([0-9.]+) req/s", ran.out)
    mean = re.search(r"time for request:\s+\S+\s+\S+\s+([0-9.]+)(us|ms|s)", ran.out)
    assert " 0 failed" in ran.out, ran
    assert rate is not None, ran
    assert mean is not None, ran
    return float(rate[1]), float(mean[1]) * {"us": 0.001, "ms": 1.0, "s": 1000.0}[mean[2]]


def _manifests(config: Path) -> str:
    annotations = {"endpoint.aether.io/ports": "8080,9000=tcp"}
    command = [str(find_envoy()), "-c", str(config), "--disable-hot-restart", "--concurrency", "1", "-l", "error"]
    return together(
        namespace("bench"), deployment("app", "bench", command, annotations=annotations), client("client", "bench")
    )


def _resolve(mesh: RunningWorld, name: str) -> str:
    return mesh.exec("bench/client", "getent", "ahostsv4", name).out.split()[0]


@contextlib.contextmanager
def _static_pair(mesh: RunningWorld, folder: Path) -> Iterator[None]:
    """The static Envoy, in the node's own namespaces; it ends with the world, at the latest."""
    server = mesh.pods("bench", "app")[0]
    caller = mesh.pods("bench", "client")[0]
    config = folder / "static.json"
    config.write_text(json.dumps(_static(mesh, folder, caller, server)))
    inside = processes_of(mesh.paths, "envoy", "--config-path")[0]
    command = ["nsenter", "-t", str(inside), "-n", "-m", "-p", "--", str(find_envoy()), "-c", str(config)]
    process = subprocess.Popen([*command, "--disable-hot-restart", "--concurrency", "2", "-l", "warning"])
    try:
        url = f"http://127.0.0.1:{HTTP_PORT}/"
        mesh.wait("the static pair", lambda: mesh.curl("bench/client", url).status == 200)
        time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _static(mesh: RunningWorld, folder: Path, caller: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    authority = CertificateAuthority.open(folder / "ca", TRUST_DOMAIN, clock=SystemClock())
    (folder / "ca.pem").write_bytes(authority.bundle_pem())
    for name in ("client", "app"):
        leaf = authority.issue(WorkloadIdentity(TRUST_DOMAIN, "bench", name))
        (folder / f"{name}.pem").write_bytes(leaf.chain_pem)
        (folder / f"{name}.key").write_bytes(leaf.key.reveal())
    at_client, at_server = (str(mesh.paths.netns / f"pod-{pod['metadata']['uid']}") for pod in (caller, server))
    address = server["status"]["podIP"]
    return {
        "static_resources": {
            "listeners": [
                _listener("out-http", "127.0.0.1", HTTP_PORT, at_client, _http("hop-http")),
                _listener("out-tcp", "127.0.0.1", RAW_PORT, at_client, _tcp("hop-tcp")),
                _listener("in-http", "0.0.0.0", INBOUND_HTTP, at_server, _http("app-http"), _server_tls(folder, "h2")),
                _listener("in-tcp", "0.0.0.0", INBOUND_RAW, at_server, _tcp("app-tcp"), _server_tls(folder, "")),
            ],
            "clusters": [
                _cluster("hop-http", address, INBOUND_HTTP, tls=_client_tls(folder, "h2"), is_h2=True),
                _cluster("hop-tcp", address, INBOUND_RAW, tls=_client_tls(folder, "")),
                _cluster("app-http", "127.0.0.1", 8080, netns=at_server),
                _cluster("app-tcp", "127.0.0.1", 9000, netns=at_server),
            ],
        }
    }


def _application() -> dict[str, Any]:
    """An HTTP server that costs little: Envoy's own direct response, on both ports."""
    answer = {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello\n"}}}
    return {
        "static_resources": {
            "listeners": [
                _listener(f"app-{port}", "127.0.0.1", port, "", _http_manager([answer])) for port in (8080, 9000)
            ]
        }
    }


def _listener(
    name: str,
    address: str,
    port: int,
    netns: str,
    network_filter: Mapping[str, Any],
    tls: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    place = {"address": address, "port_value": port, **({"network_namespace_filepath": netns} if netns else {})}
    chain: dict[str, Any] = {"filters": [network_filter]}
    if tls is not None:
        chain["transport_socket"] = tls
    return {"name": name, "address": {"socket_address": place}, "filter_chains": [chain]}


def _http(cluster: str) -> dict[str, Any]:
    return _http_manager([{"match": {"prefix": "/"}, "route": {"cluster": cluster}}])


def _http_manager(routes: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "http",
        "typed_config": {
            "@type": _HCM,
            "stat_prefix": "http",
            "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
            "http_filters": [{"name": "router", "typed_config": {"@type": _ROUTER}}],
        },
    }


def _tcp(cluster: str) -> dict[str, Any]:
    return {"name": "tcp", "typed_config": {"@type": _TCP, "stat_prefix": "tcp", "cluster": cluster}}


def _cluster(
    name: str, address: str, port: int, *, tls: Mapping[str, Any] | None = None, is_h2: bool = False, netns: str = ""
) -> dict[str, Any]:
    place = {"address": {"socket_address": {"address": address, "port_value": port}}}
    cluster: dict[str, Any] = {
        "name": name,
        "connect_timeout": "5s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": place}]}]},
    }
    if tls is not None:
        cluster["transport_socket"] = tls
    if is_h2:
        options = {"@type": _HTTP_OPTIONS, "explicit_http_config": {"http2_protocol_options": {}}}
        cluster["typed_extension_protocol_options"] = {_HTTP_OPTIONS.removeprefix("type.googleapis.com/"): options}
    if netns:
        source = {"address": "127.0.0.1", "port_value": 0, "network_namespace_filepath": netns}
        cluster["upstream_bind_config"] = {"source_address": source}
    return cluster


def _client_tls(folder: Path, alpn: str) -> dict[str, Any]:
    return _tls(_UPSTREAM_TLS, folder, "client", alpn, sni="app")


def _server_tls(folder: Path, alpn: str) -> dict[str, Any]:
    return _tls(_DOWNSTREAM_TLS, folder, "app", alpn, require_client_certificate=True)


def _tls(kind: str, folder: Path, name: str, alpn: str, **more: object) -> dict[str, Any]:
    common = {
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3"},
        "alpn_protocols": [alpn] if alpn else [],
        "tls_certificates": [
            {
                "certificate_chain": {"filename": str(folder / f"{name}.pem")},
                "private_key": {"filename": str(folder / f"{name}.key")},
            }
        ],
        "validation_context": {"trusted_ca": {"filename": str(folder / "ca.pem")}},
    }
    return {"name": "tls", "typed_config": {"@type": kind, "common_tls_context": common, **more}}
