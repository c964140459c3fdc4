"""The plan of one node: what its Envoy should serve, in our vocabulary, with what was refused beside it."""

import msgspec

from aether.errors import Diagnostic
from aether.model.facts import MeshConfig, NodeFacts
from aether.model.identity import WorkloadIdentity, identity_of, inbound_secret, outbound_secret
from aether.model.names import ServiceId
from aether.model.ports import Codec, PortClass, Transport
from aether.plan.mesh.addressing import DialledPod
from aether.plan.mesh.clusters import (
    ClusterPlan,
    EndpointPlan,
    MeshCluster,
    MeshContext,
    PassThroughCluster,
    Tombstone,
    next_context,
    plan_cluster,
    plan_context,
)
from aether.plan.mesh.demand import wanted_clusters
from aether.plan.mesh.pods import DeclaredPod, declared_pods
from aether.plan.mesh.services import ServiceView

__all__ = [
    "ClusterPlan",
    "DialledPod",
    "EndpointPlan",
    "InboundPort",
    "MeshCluster",
    "MeshContext",
    "NodePlan",
    "PassThroughCluster",
    "PodPlan",
    "Tombstone",
    "next_context",
    "plan_cluster",
    "plan_context",
    "plan_node",
    "plan_node_in",
]


class InboundPort(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A TCP port of a local pod: one inbound filter chain.

    `codec` is for http only. `uds_socket`, if any, replaces 127.0.0.1:number.
    """

    number: int
    port_class: PortClass
    codec: Codec = Codec.H1
    uds_socket: str = ""


class PodPlan(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One managed pod of this node: capture listeners, the proxy-port listener, the inbound listener, a probe cluster.

    `inbound_secret` and `outbound_secret` name its certificates: never the same name for both (architecture, 21).
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


class NodePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything is sorted by name. Equal facts give an equal plan, whatever the order they came in."""

    node: str
    config: MeshConfig
    directory: tuple[ServiceView, ...] = ()
    dialled_pods: tuple[DialledPod, ...] = ()
    pods: tuple[PodPlan, ...] = ()
    clusters: tuple[ClusterPlan, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


def plan_node(facts: NodeFacts, *, observed: frozenset[str]) -> NodePlan:
    """What this node should serve. `observed` are the cluster names its proxy asked for on demand and that are kept."""
    return plan_node_in(plan_context(facts), observed=observed)


def plan_node_in(context: MeshContext, *, observed: frozenset[str]) -> NodePlan:
    """`plan_node` from a context that is already there: a newly observed name costs only what it adds."""
    facts = context.facts
    declared = declared_pods(facts)
    pod_problems = [problem for one in declared for problem in one.problems]
    names = wanted_clusters(declared, context.directory, observed=observed)
    return NodePlan(
        node=facts.node,
        config=facts.config,
        directory=context.services.views,
        dialled_pods=context.dialled_pods,
        pods=tuple(_plan_pod(one, facts.config) for one in declared),
        clusters=tuple(plan_cluster(name, context) for name in names),
        problems=tuple(sorted({*context.services.problems, *pod_problems})),
    )


def _plan_pod(declared: DeclaredPod, config: MeshConfig) -> PodPlan:
    pod = declared.pod
    return PodPlan(
        uid=pod.uid,
        service=declared.service,
        pod=pod.name,
        addresses=pod.addresses,
        netns=pod.netns,
        identity=identity_of(declared.service, config.trust_domain),
        inbound_secret=inbound_secret(pod.namespace, pod.name),
        outbound_secret=outbound_secret(declared.service),
        inbound=_inbound(declared),
    )


def _inbound(declared: DeclaredPod) -> tuple[InboundPort, ...]:
    codecs = dict(declared.declaration.codecs)
    return tuple(
        InboundPort(
            number=port.number,
            port_class=port.port_class,
            codec=codecs.get(port.number, Codec.H1),
            uds_socket=declared.declaration.uds_socket if port.port_class is PortClass.HTTP else "",
        )
        for port in declared.declaration.ports
        if port.transport is Transport.TCP
    )
