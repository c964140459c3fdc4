"""Store and registry to the facts of one node: what its agent is told."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.store import ObjectStore
from aether.model.endpoint import EndpointRow
from aether.model.facts import LocalPod, MeshConfig, NodeFacts, ServiceEndpoint, ServicePortRecord, ServiceRecord
from aether.model.kube import KubeServicePort, Pod, Service
from aether.model.kube_parse import parse_node, parse_pod, parse_service
from aether.model.names import ServiceId
from aether.model.ports import Transport
from aether.plan.publish import class_of, is_generated

_PARSED_LIMIT = 2048
"""Parsed objects that are remembered: facts are built after every change, of which most are about one object."""

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


class _Version:
    """An object at one revision, of which there is only one: its uid and revision stand for its content."""

    __slots__ = ("_key", "object")

    def __init__(self, object_: KubeObject) -> None:
        self.object = object_
        self._key = (object_["metadata"]["uid"], object_["metadata"]["resourceVersion"])

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Version) and self._key == other._key


@functools.lru_cache(maxsize=_PARSED_LIMIT)
def _parse_pod(version: _Version) -> Pod:
    return parse_pod(version.object)


@functools.lru_cache(maxsize=_PARSED_LIMIT)
def _parse_service(version: _Version) -> Service:
    return parse_service(version.object)


class Rows(Protocol):
    """The part of a registry that facts are made of."""

    def rows(self) -> tuple[EndpointRow, ...]: ...


def build_facts(
    store: ObjectStore, registry: Rows, node: str, *, config: MeshConfig, sandboxes: Mapping[str, str]
) -> NodeFacts:
    """What `node`'s agent should know now, everything sorted. `sandboxes` are the pods' namespace paths by uid."""
    live = store.get(ObjectKey("Node", "", node))
    pods = [_parse_pod(_Version(object_)) for object_ in store.list("Pod")[0]]
    return NodeFacts(
        node=node,
        node_addresses=parse_node(live).addresses if live is not None else (),
        config=config,
        namespaces=tuple(sorted(object_["metadata"]["name"] for object_ in store.list("Namespace")[0])),
        services=tuple(sorted(_service(object_, pods) for object_ in store.list("Service")[0])),
        rows=registry.rows(),
        pods=tuple(sorted(_local(pod, sandboxes[pod.meta.uid]) for pod in pods if _is_here(pod, node, sandboxes))),
    )


def _is_here(pod: Pod, node: str, sandboxes: Mapping[str, str]) -> bool:
    return pod.spec.node == node and pod.meta.uid in sandboxes and bool(pod.addresses)


def _local(pod: Pod, netns: str) -> LocalPod:
    return LocalPod(
        uid=pod.meta.uid,
        namespace=pod.meta.namespace,
        name=pod.meta.name,
        account=pod.spec.account,
        addresses=pod.addresses,
        netns=netns,
        annotations=pod.meta.annotations,
        is_ready=pod.is_ready,
        is_terminating=pod.meta.is_terminating,
    )


def _service(object_: KubeObject, pods: Sequence[Pod]) -> ServiceRecord:
    service = _parse_service(_Version(object_))
    generated = is_generated(service)
    return ServiceRecord(
        service=ServiceId(service.meta.namespace, service.meta.name),
        is_generated=generated,
        is_headless=service.is_headless,
        addresses=service.addresses,
        ports=tuple(_port_record(port, is_generated=generated) for port in _by_number(service.ports)),
        endpoints=() if generated else tuple(sorted(_endpoints(service, pods))),
    )


def _by_number(ports: Iterable[KubeServicePort]) -> list[KubeServicePort]:
    return sorted(ports, key=lambda port: (port.number, port.transport))


def _port_record(port: KubeServicePort, *, is_generated: bool) -> ServicePortRecord:
    port_class = class_of(port) if is_generated else None
    return ServicePortRecord(port.number, port.transport, port.target, port_class)


def _endpoints(service: Service, pods: Sequence[Pod]) -> Iterable[ServiceEndpoint]:
    """One per pod that the selector picks and that has an address (as Kubernetes' EndpointSlices have them).

    Ready as there: the pod is ready and not terminating, or the Service publishes pods that are not. Pods that have
    ended are left out.
    """
    for pod in pods:
        if not _is_member(service, pod):
            continue
        is_ready = service.publishes_not_ready or (pod.is_ready and not pod.meta.is_terminating)
        ports = tuple(sorted(entry for port in service.ports for entry in _resolve(port, pod)))
        yield ServiceEndpoint(addresses=pod.addresses, is_ready=is_ready, ports=ports)


def _is_member(service: Service, pod: Pod) -> bool:
    return (
        bool(service.selector)
        and pod.meta.namespace == service.meta.namespace
        and set(service.selector) <= set(pod.meta.labels)
        and pod.phase not in _TERMINAL_PHASES
        and bool(pod.addresses)
    )


def _resolve(port: KubeServicePort, pod: Pod) -> Iterable[tuple[int, Transport, int]]:
    """The pod's own number for a Service port: none if it names a container port that the pod does not have."""
    if isinstance(port.target, int):
        return [(port.number, port.transport, port.target)]
    containers = (*pod.spec.containers, *(item for item in pod.spec.init_containers if item.is_sidecar))
    numbers = [
        candidate.number
        for container in containers
        for candidate in container.ports
        if candidate.name == port.target and candidate.transport is port.transport
    ]
    return [(port.number, port.transport, number) for number in numbers[:1]]
