"""A pod, a mesh cluster and a service of tests, and what is inside rendered resources."""

from typing import Any

from envoy.config.listener.v3 import listener_pb2
from google.protobuf.message import Message

from aether.model.endpoint import Health
from aether.model.facts import MeshConfig
from aether.model.identity import WorkloadIdentity
from aether.model.names import ServiceId
from aether.model.ports import Codec, PortClass
from aether.plan.mesh.node import EndpointPlan, InboundPort, MeshCluster, PodPlan
from aether.plan.mesh.services import ServicePort, ServiceView
from aether.render.envoy.listeners import Place

CART = ServiceId("shop", "cart")
IDENTITY = WorkloadIdentity("aether.internal", "shop", "cart")
PORTS = (
    InboundPort(number=7000, port_class=PortClass.TCP),
    InboundPort(number=8080, port_class=PortClass.HTTP),
    InboundPort(number=8081, port_class=PortClass.HTTP, codec=Codec.H2),
    InboundPort(number=8082, port_class=PortClass.HTTP, uds_socket="/run/app.sock"),
)
POD = PodPlan(
    uid="0f1e",
    service=CART,
    pod="cart-1",
    addresses=("10.244.1.2", "fd00:244:1::2"),
    netns="/run/netns/pod-0f1e",
    identity=IDENTITY,
    inbound_secret="in/shop/cart-1",
    outbound_secret="out/shop/cart",
    inbound=PORTS,
)
CONFIG = MeshConfig()
PLACE = Place(pod=POD, config=CONFIG, access_log="/dev/null")
HTTP_CLUSTER = MeshCluster(
    name="cart.shop.aether.internal:8080",
    service=CART,
    server_name="8080",
    pinned=IDENTITY,
    stat_key="shop/cart",
    is_http=True,
    endpoints=(EndpointPlan(address="10.244.1.2", health=Health.HEALTHY),),
)
RAW_CLUSTER = MeshCluster(
    name="tcp|10.96.0.1:9000",
    service=CART,
    server_name="9000",
    pinned=IDENTITY,
    stat_key="tcp_shop/cart_9000",
    is_http=False,
    endpoints=(),
)
POD_DIAL = MeshCluster(
    name="pod|10.244.1.2:8080",
    service=CART,
    server_name="8080",
    pinned=IDENTITY,
    stat_key="shop/cart",
    is_http=True,
    endpoints=(EndpointPlan(address="10.244.1.2", health=Health.HEALTHY),),
)


def view(service: str, ports: str, *, owned: str = "") -> ServiceView:
    """``shop/cart`` with ports like ``80:8080=http 53=udp``; user-owned if `owned` lists what its pods declare."""
    namespace, name = service.split("/")
    return ServiceView(
        service=ServiceId(namespace, name),
        ports=tuple(sorted(_port(item) for item in ports.split())),
        declared=tuple(sorted(_port(item) for item in (owned or ports).split())),
        is_user_owned=bool(owned),
    )


def _port(item: str) -> ServicePort:
    numbers, _, port_class = item.partition("=")
    number, _, target = numbers.partition(":")
    return ServicePort(int(number), PortClass(port_class or "http"), int(target or number))


def unpack(kind: type[Message], packed: Any) -> Any:
    assert packed.type_url.endswith(kind.DESCRIPTOR.full_name)
    return kind.FromString(packed.value)


def chain_of(listener: listener_pb2.Listener, name: str) -> Any:
    return next(chain for chain in [*listener.filter_chains, listener.default_filter_chain] if chain.name == name)
