"""A real Envoy behind our own ADS server, with resources as small as can be: for what the stream itself must do."""

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import aiohttp
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import address_pb2, base_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.config.listener.v3 import listener_components_pb2, listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.filters.http.on_demand.v3 import on_demand_pb2
from envoy.extensions.filters.http.router.v3 import router_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2
from google.protobuf import wrappers_pb2
from google.protobuf.message import Message
from tests.support.ports import free_port

from aether.adapters.clock import SystemClock
from aether.adapters.envoy.admin import EnvoyAdmin
from aether.adapters.envoy.process import EnvoyCommand, envoy_program
from aether.adapters.envoy.xds import AdsServer
from aether.control.supervisor import Supervisor
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.resource import Resource, ads, encode, pack, resource_of, seconds
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, RULES, SECRET

TABLE = "table"
ON_DEMAND_TIMEOUT_S = 5.0
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Lab:
    """`put` and `drop` change what is wanted; `request` asks Envoy's listener for a cluster by Host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.backend = 0
        self.server = self.new_server()
        self.admin = EnvoyAdmin(folder / "admin.sock")
        bootstrap = folder / "bootstrap.json"
        settings = BootstrapSettings(
            node="node-1", ads_socket=str(folder / "ads.sock"), admin_socket=str(folder / "admin.sock")
        )
        bootstrap.write_text(json.dumps(render_bootstrap(settings)))
        self.command = EnvoyCommand(bootstrap=bootstrap, log_path=folder / "envoy.log")
        self.supervisor = Supervisor(envoy_program(self.command), is_ready=self.admin.is_live, clock=SystemClock())
        self.wanted: dict[str, dict[str, Resource]] = {url: {} for url in RULES}

    def new_server(self) -> AdsServer:
        return AdsServer(self.folder / "ads.sock")

    async def restart_server(self) -> None:
        """Another server on the same socket, as after a restart of the agent: it knows nothing of Envoy."""
        await self.server.stop()
        self.server = self.new_server()
        await self.server.start()

    def put(self, *resources: Resource) -> None:
        for resource in resources:
            self.wanted[resource.type_url] = {**self.wanted[resource.type_url], resource.name: resource}
        self.publish()

    def drop(self, type_url: str, *names: str) -> None:
        self.wanted[type_url] = {n: r for n, r in self.wanted[type_url].items() if n not in names}
        self.publish()

    def publish(self) -> None:
        self.server.publish(dict(self.wanted))

    def answer(self, make: Callable[[str], tuple[Resource, ...]]) -> list[str]:
        """Answer what is asked on demand with what `make` gives. The names asked for so far."""
        asked: list[str] = []

        def put(name: str) -> bool:
            asked.append(name)
            self.put(*make(name))
            return True

        self.server.on_demand = put
        return asked

    def live(self, name: str) -> tuple[Resource, ...]:
        """A cluster whose one endpoint is the backend."""
        return (eds_cluster(name), assignment(name, [self.backend]))

    async def acked(self, type_url: str, *names: str, within_s: float = 10.0) -> bool:
        """Whether Envoy takes what is wanted: under these names, or all of the type."""
        return await self.server.wait_acked(type_url, frozenset(names or self.wanted[type_url]), within_s)

    async def request(self, host: str, session: aiohttp.ClientSession, *, timeout_s: float = 10.0) -> int:
        url = f"http://127.0.0.1:{self.port}/"
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with session.get(url, headers={"host": host}, timeout=timeout) as response:
            await response.read()
            return response.status

    def basics(self) -> tuple[Resource, ...]:
        """One cluster `base` with its assignment, the listener and its table."""
        return (*self.live("base"), listener("main", self.port), table())


@contextlib.asynccontextmanager
async def running_lab(*, starts_envoy: bool = True) -> AsyncIterator[Lab]:
    """A lab whose server listens, whose backend answers and whose Envoy is supervised, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="xds-") as folder:
        lab = Lab(Path(folder))
        backend = await asyncio.start_server(_answer, "127.0.0.1", 0)
        lab.backend = backend.sockets[0].getsockname()[1]
        await lab.server.start()
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(lab.supervisor.run()) if starts_envoy else None
                yield lab
                if running is not None:
                    running.cancel()
        finally:
            await lab.server.stop()
            backend.close()


async def until(condition: Callable[[], Awaitable[bool]], what: str, *, within_s: float = 10.0) -> None:
    """Poll until it holds; the failure says what was waited for."""
    deadline = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within_s} s in vain: {what}")
        await SystemClock().sleep(0.01)


def eds_cluster(name: str, *, connect_timeout_s: float = 1.0) -> Resource:
    """`connect_timeout_s` makes it another version of the same cluster."""
    cluster = cluster_pb2.Cluster(
        name=name,
        type=cluster_pb2.Cluster.EDS,
        connect_timeout=seconds(connect_timeout_s),
        eds_cluster_config=cluster_pb2.Cluster.EdsClusterConfig(eds_config=ads(fetch_timeout_s=1.0)),
    )
    return _resource(name, CLUSTER, cluster)


def tombstone(name: str) -> tuple[Resource]:
    """A cluster that refuses at once."""
    return (bare_cluster(name),)


def bare_cluster(name: str) -> Resource:
    return _resource(
        name, CLUSTER, cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.STATIC, connect_timeout=seconds(1))
    )


def bad_cluster(name: str) -> Resource:
    """One that Envoy names when it refuses it: TLS with a certificate that is none."""
    source = base_pb2.DataSource(inline_string="none")
    leaf = common_pb2.TlsCertificate(certificate_chain=source, private_key=source)
    common = tls_pb2.CommonTlsContext(tls_certificates=[leaf])
    return _tls_cluster(name, tls_pb2.UpstreamTlsContext(common_tls_context=common))


def invalid_cluster(name: str) -> Resource:
    """One that spoils its whole message and is not named: its timeout is negative."""
    return _resource(
        name, CLUSTER, cluster_pb2.Cluster(name=name, type=cluster_pb2.Cluster.STATIC, connect_timeout=seconds(-1))
    )


def phantom_cluster(name: str) -> Resource:
    """One that is refused and stays in Envoy's warming map (a ring larger than its own limit)."""
    cluster = cluster_pb2.Cluster(
        name=name,
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(1),
        lb_policy=cluster_pb2.Cluster.RING_HASH,
        ring_hash_lb_config=cluster_pb2.Cluster.RingHashLbConfig(
            minimum_ring_size=wrappers_pb2.UInt64Value(value=100), maximum_ring_size=wrappers_pb2.UInt64Value(value=5)
        ),
    )
    return _resource(name, CLUSTER, cluster)


def assignment(name: str, ports: Iterable[int], *, address: str = "127.0.0.1") -> Resource:
    endpoints = [
        endpoint_components_pb2.LbEndpoint(endpoint=endpoint_components_pb2.Endpoint(address=_address(port, address)))
        for port in ports
    ]
    locality = endpoint_components_pb2.LocalityLbEndpoints(lb_endpoints=endpoints)
    return _resource(name, ENDPOINT, endpoint_pb2.ClusterLoadAssignment(cluster_name=name, endpoints=[locality]))


def table(name: str = TABLE, *, hosts: int = 1) -> Resource:
    """Every request goes to the cluster that its Host names. More than one host for `*` is what Envoy refuses."""
    route = route_components_pb2.Route(
        match=route_components_pb2.RouteMatch(prefix="/"),
        route=route_components_pb2.RouteAction(cluster_header=":authority"),
    )
    all_hosts = [
        route_components_pb2.VirtualHost(name=f"all-{number}", domains=["*"], routes=[route]) for number in range(hosts)
    ]
    return _resource(name, ROUTE, route_pb2.RouteConfiguration(name=name, virtual_hosts=all_hosts))


def listener(name: str, port: int, *, table: str = TABLE) -> Resource:
    """One that asks for clusters on demand."""
    odcds = on_demand_pb2.OnDemandCds(source=ads(fetch_timeout_s=1.0), timeout=seconds(ON_DEMAND_TIMEOUT_S))
    hcm = http_connection_manager_pb2
    manager = hcm.HttpConnectionManager(
        stat_prefix=name,
        rds=hcm.Rds(route_config_name=table, config_source=ads(fetch_timeout_s=0)),
        http_filters=[
            hcm.HttpFilter(name="on_demand", typed_config=pack(on_demand_pb2.OnDemand(odcds=odcds))),
            hcm.HttpFilter(name="router", typed_config=pack(router_pb2.Router())),
        ],
    )
    chain = listener_components_pb2.FilterChain(
        filters=[listener_components_pb2.Filter(name="http", typed_config=pack(manager))]
    )
    return _resource(name, LISTENER, listener_pb2.Listener(name=name, address=_address(port), filter_chains=[chain]))


def counts(lab: Lab) -> Mapping[str, int]:
    """Resources sent since the server started, by the last word of the type."""
    return {one.type_url.rpartition(".")[2]: one.resources for one in lab.server.statistics().types if one.messages}


def secret_cluster(name: str, secret: str) -> Resource:
    """A TLS cluster that asks for its certificate over the stream."""
    sds = secret_pb2.SdsSecretConfig(name=secret, sds_config=ads(fetch_timeout_s=1.0))
    common = tls_pb2.CommonTlsContext(tls_certificate_sds_secret_configs=[sds])
    return _tls_cluster(name, tls_pb2.UpstreamTlsContext(common_tls_context=common))


def certificate(name: str, key: str) -> Resource:
    """A secret whose chain and key are this text, which Envoy refuses if it is no PEM."""
    source = base_pb2.DataSource(inline_string=key)
    leaf = common_pb2.TlsCertificate(certificate_chain=source, private_key=source)
    return _resource(name, SECRET, secret_pb2.Secret(name=name, tls_certificate=leaf))


def _tls_cluster(name: str, context: tls_pb2.UpstreamTlsContext) -> Resource:
    cluster = cluster_pb2.Cluster(
        name=name,
        type=cluster_pb2.Cluster.STATIC,
        connect_timeout=seconds(1),
        transport_socket=base_pb2.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context)),
    )
    return _resource(name, CLUSTER, cluster)


def _address(port: int, address: str = "127.0.0.1") -> address_pb2.Address:
    return address_pb2.Address(socket_address=address_pb2.SocketAddress(address=address, port_value=port))


def _resource(name: str, type_url: str, message: Message) -> Resource:
    return resource_of(name, type_url, encode(message))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_ANSWER)
            await writer.drain()
    writer.close()
