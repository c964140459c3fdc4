"""What one node's agent is told, and what it tells: the two values of the node channel.

Both are levels, not events: each message is the whole truth of its sender, and replaces the one before.
"""

import msgspec

from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow
from aether.model.names import Domains, ServiceId
from aether.model.ports import PortClass, Transport
from aether.model.settings import LEAF_LIFETIME_LIMIT_S


class MeshConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every node of a mesh agrees on."""

    domains: Domains = Domains()
    trust_domain: str = "aether.internal"
    service_cidrs: tuple[str, ...] = ("10.96.0.0/16", "fd96::/112")
    pod_cidrs: tuple[str, ...] = ("10.244.0.0/16", "fd00:244::/32")
    dns_addresses: tuple[str, ...] = ("10.96.0.10", "fd96::a")
    ignored_namespaces: tuple[str, ...] = ("kube-system",)
    leaf_lifetime_s: float = LEAF_LIFETIME_LIMIT_S
    """Seconds a workload's certificate is valid; renewed at half of it. A day outlasts a night without a control plane,
    and ends a stolen key's use soon. More than `LEAF_LIFETIME_LIMIT_S` is that."""


class ServicePortRecord(msgspec.Struct, frozen=True, order=True):
    """A port of a Service object. `target` is the pod port: a number, or a name that slices resolve (issue: routes).

    `port_class` is what a generated Service says of the port; None on a user's Service, whose pods say it.
    """

    number: int
    transport: Transport
    target: int | str
    port_class: PortClass | None = None


class ServiceRecord(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A Service object, reduced. `is_generated`: the mesh made it; else it is the user's and is never touched.

    `addresses` are its cluster addresses, empty when headless. `endpoints` are the (pod address, ready) pairs its
    selector picks; only user Services carry them.
    """

    service: ServiceId
    is_generated: bool
    is_headless: bool = False
    addresses: tuple[str, ...] = ()
    ports: tuple[ServicePortRecord, ...] = ()
    endpoints: tuple["ServiceEndpoint", ...] = ()


class ServiceEndpoint(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A pod behind a user Service. `ports` maps a Service port (number, transport) to this pod's port number."""

    addresses: tuple[str, ...]
    is_ready: bool
    ports: tuple[tuple[int, Transport, int], ...]


class LocalPod(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A pod of this node that has a sandbox (a network namespace), managed by the mesh or not.

    `uid` is unique for the life of the mesh, `netns` is a path unique to the pod. `is_ready` is the container runtime's
    verdict (all containers ready); `is_terminating` once its deletion was asked for.
    """

    uid: str
    namespace: str
    name: str
    account: str
    addresses: tuple[str, ...]
    netns: str
    annotations: tuple[tuple[str, str], ...] = ()
    is_ready: bool = False
    is_terminating: bool = False


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an agent is told. Rows and services are sorted.

    `ca_pem` are the roots to trust, the one that signs first: a change of root is a fact like any other.
    """

    node: str
    node_addresses: tuple[str, ...]
    config: MeshConfig
    namespaces: tuple[str, ...] = ()
    services: tuple[ServiceRecord, ...] = ()
    rows: tuple[EndpointRow, ...] = ()
    pods: tuple[LocalPod, ...] = ()
    ca_pem: bytes = b""


class Refusals(msgspec.Struct, frozen=True, order=True):
    """How often `reason` was answered for the name as spelled by clients, since the agent started counting."""

    authority: str
    reason: str
    count: int


class Rejection(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A resource that Envoy refused, in Envoy's own words (never for secrets: their text may carry the key)."""

    type_url: str
    name: str
    text: str


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything an agent says of its node.

    `captured` are the uids of pods whose capture table and listeners are in place (only then may their processes
    start). `rows` are this node's registrations: the control plane replaces the node's rows by them.
    """

    node: str
    captured: tuple[str, ...] = ()
    rows: tuple[EndpointRow, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    refusals: tuple[Refusals, ...] = ()
    observed: tuple[str, ...] = ()
    is_proxy_live: bool = False
