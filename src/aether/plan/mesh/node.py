"""The plan of one node: what its Envoy should serve, in our vocabulary, with what was refused beside it."""

import msgspec

from aether.errors import Diagnostic
from aether.model.endpoint import Health
from aether.model.facts import MeshConfig
from aether.model.identity import WorkloadIdentity
from aether.model.names import ServiceId
from aether.model.ports import Codec, PortClass
from aether.plan.mesh.services import ServiceView


class InboundPort(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A TCP port of a local pod: one inbound filter chain. `codec` is for http only. `uds_socket` replaces 127.0.0.1:number."""

    number: int
    port_class: PortClass
    codec: Codec = Codec.H1
    uds_socket: str = ""


class PodPlan(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One managed pod of this node: two capture listeners, the proxy-port listener, the inbound listener, a probe cluster.

    `inbound_secret` and `outbound_secret` name its certificates: never the same name for both (architecture, decision 21).
    """

    uid: str
    service: ServiceId
    pod: str
    addresses: tuple[str, ...]
    netns: str
    identity: WorkloadIdentity
    inbound_secret: str
    outbound_secret: str
    inbound: tuple[InboundPort, ...]


class EndpointPlan(msgspec.Struct, frozen=True, kw_only=True, order=True):
    address: str
    health: Health
    weight: int = 1
    node: str = ""


class MeshCluster(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """A port of a service, reached over the mesh hop. An EDS cluster; its load assignment has the same name.

    `server_name` is the pods' port in decimal. `is_http` decides ALPN (h2, or none).
    """

    name: str
    service: ServiceId
    server_name: str
    pinned: WorkloadIdentity
    stat_key: str
    is_http: bool
    endpoints: tuple[EndpointPlan, ...]


class PodDialCluster(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """The dialled pod itself, over the mesh hop: ORIGINAL_DST with the port overridden to 18008 (rulings B.4)."""

    name: str
    service: ServiceId
    server_name: str
    pinned: WorkloadIdentity
    stat_key: str
    is_http: bool


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """The answer to an on-demand name that is nobody's: a cluster without endpoints."""

    name: str


class PassThroughCluster(msgspec.Struct, frozen=True, kw_only=True, order=True, tag=True):
    """The answer to a raw-TCP name whose address is not the mesh's: to the dialled address."""

    name: str


ClusterPlan = MeshCluster | PodDialCluster | Tombstone | PassThroughCluster


class DialledPod(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A registered pod's address and what may be dialled there: (pod port, class, cluster name of the dial)."""

    address: str
    service: ServiceId
    ports: tuple[tuple[int, PortClass, str], ...]


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is sorted by name. Equal facts give an equal plan, whatever the order they came in."""

    node: str
    config: MeshConfig
    directory: tuple[ServiceView, ...] = ()
    dialled_pods: tuple[DialledPod, ...] = ()
    pods: tuple[PodPlan, ...] = ()
    clusters: tuple[ClusterPlan, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
