"""The clusters a node wants: its own, the declared and the observed (spec section 9, rulings D.1)."""

from collections.abc import Iterable, Iterator

from aether.model.facts import MeshConfig
from aether.model.names import ServiceId
from aether.model.ports import PortClass
from aether.plan.mesh.addressing import Directory, own_port_cluster
from aether.plan.mesh.naming import http_cluster, raw_cluster
from aether.plan.mesh.pods import DeclaredPod
from aether.plan.mesh.services import ServiceView


def wanted_services(pods: Iterable[DeclaredPod]) -> frozenset[ServiceId]:
    """The node's own services, and those its pods declare to call."""
    return frozenset(service for declared in pods for service in (declared.service, *declared.declaration.upstreams))


def wanted_clusters(pods: Iterable[DeclaredPod], directory: Directory, *, observed: frozenset[str]) -> tuple[str, ...]:
    """Names of clusters, sorted. `observed` are names that proxies asked for and that are kept."""
    services = wanted_services(pods)
    names = {
        name
        for service in services
        if (view := directory.views.get(service)) is not None
        for name in clusters_of(view, directory.config)
    }
    return tuple(sorted(names | observed))


def clusters_of(view: ServiceView, config: MeshConfig) -> Iterator[str]:
    """The names by which a service is delivered to, except of single pods, which are asked for on demand."""
    for port in view.ports:
        if port.port_class is PortClass.HTTP:
            yield http_cluster(view.service, port.number, config.domains)
        elif port.port_class is PortClass.TCP and not view.is_user_owned:
            yield from (raw_cluster(address, port.number) for address in view.addresses)
    for port in view.declared:
        if port.port_class is PortClass.HTTP and view.is_user_owned:
            yield own_port_cluster(view, port.number, config)
