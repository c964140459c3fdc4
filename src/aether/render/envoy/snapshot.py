"""The whole of what a node's Envoy is told, as resources by type and name.

Owns: which resources exist, and that equal plans give equal bytes. Secrets are not in a snapshot: each is rendered when
its certificate is issued (`secrets`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from aether.model.facts import MeshConfig
from aether.plan.mesh.node import ClusterPlan, MeshCluster, NodePlan
from aether.render.envoy import names
from aether.render.envoy.clusters import application_cluster, mesh_cluster, pass_through, probe_cluster
from aether.render.envoy.consistency import consistency
from aether.render.envoy.endpoints import load_assignment
from aether.render.envoy.inbound import inbound_listener
from aether.render.envoy.listeners import Place, outbound_listeners
from aether.render.envoy.resource import Resource, encode, resource_of
from aether.render.envoy.tables import ServiceTables, pod_table

__all__ = ["RenderCache", "Resource", "Snapshot", "consistency", "render_cluster", "render_snapshot"]

Snapshot = Mapping[str, Mapping[str, Resource]]
"""Type URL, then name. Read-only."""


class RenderedPod(msgspec.Struct, frozen=True, kw_only=True):
    """What one pod needs: its listeners, its last hops and its probe."""

    place: Place
    listeners: tuple[Resource, ...]
    clusters: tuple[Resource, ...]


class RenderedCluster(msgspec.Struct, frozen=True, kw_only=True):
    plan: ClusterPlan
    cluster: Resource
    assignment: Resource | None


class RenderCache:
    """What earlier renderings left: bytes per cluster, per pod and per virtual-host class. Speed only."""

    def __init__(self) -> None:
        self.pods: Mapping[str, RenderedPod] = {}
        self.clusters: Mapping[str, RenderedCluster] = {}
        self._config: MeshConfig | None = None
        self._service_tables = ServiceTables(MeshConfig())
        self._pod_table = pod_table(MeshConfig())

    def begin(self, config: MeshConfig) -> None:
        """Forget everything, if it was rendered for another configuration."""
        if self._config != config:
            self._config, self.clusters = config, {}
            self._service_tables, self._pod_table = ServiceTables(config), pod_table(config)

    def tables(self, plan: NodePlan) -> tuple[Resource, ...]:
        """The route tables of a plan."""
        return (*self._service_tables.render(plan.directory), self._pod_table)


def render_snapshot(plan: NodePlan, *, cache: RenderCache | None = None, access_log: str = "") -> Snapshot:
    """Clusters, load assignments, listeners and routes of a plan. `access_log` is the file to append to, or ""."""
    kept = cache or RenderCache()
    kept.begin(plan.config)
    pods = _pods(plan, kept, access_log)
    clusters = _clusters(plan, kept)
    kept.pods, kept.clusters = pods, clusters
    return MappingProxyType(
        {
            names.CLUSTER: _by_name(
                [
                    _PASS_THROUGH,
                    *(rendered.cluster for rendered in clusters.values()),
                    *(resource for rendered in pods.values() for resource in rendered.clusters),
                ]
            ),
            names.ENDPOINT: _by_name(
                rendered.assignment for rendered in clusters.values() if rendered.assignment is not None
            ),
            names.LISTENER: _by_name(resource for rendered in pods.values() for resource in rendered.listeners),
            names.ROUTE: _by_name(kept.tables(plan)),
        }
    )


def render_cluster(cluster: ClusterPlan, config: MeshConfig) -> tuple[Resource, Resource | None]:
    """A cluster and, if it takes its endpoints from EDS, its load assignment. `config` is the mesh's."""
    body = encode(mesh_cluster(cluster, leaf_lifetime_s=config.leaf_lifetime_s))
    assignment = None
    if isinstance(cluster, MeshCluster):
        assignment = resource_of(cluster.name, names.ENDPOINT, encode(load_assignment(cluster.name, cluster.endpoints)))
    return resource_of(cluster.name, names.CLUSTER, body), assignment


_PASS_THROUGH = resource_of(names.PASS_THROUGH, names.CLUSTER, encode(pass_through()))


def _pods(plan: NodePlan, cache: RenderCache, access_log: str) -> dict[str, RenderedPod]:
    rendered = {}
    for pod in plan.pods:
        place = Place(pod=pod, config=plan.config, access_log=access_log)
        known = cache.pods.get(pod.uid)
        rendered[pod.uid] = known if known is not None and known.place == place else _pod(place)
    return rendered


def _pod(place: Place) -> RenderedPod:
    listeners = (*outbound_listeners(place), inbound_listener(place))
    clusters = (*(application_cluster(place.pod, port) for port in place.pod.inbound), probe_cluster(place.pod))
    return RenderedPod(
        place=place,
        listeners=tuple(resource_of(each.name, names.LISTENER, encode(each)) for each in listeners),
        clusters=tuple(resource_of(each.name, names.CLUSTER, encode(each)) for each in clusters),
    )


def _clusters(plan: NodePlan, cache: RenderCache) -> dict[str, RenderedCluster]:
    rendered = {}
    for each in plan.clusters:
        known = cache.clusters.get(each.name)
        if known is None or known.plan != each:
            cluster, assignment = render_cluster(each, plan.config)
            known = RenderedCluster(plan=each, cluster=cluster, assignment=assignment)
        rendered[each.name] = known
    return rendered


def _by_name(resources: Iterable[Resource]) -> Mapping[str, Resource]:
    return MappingProxyType({resource.name: resource for resource in sorted(resources, key=lambda each: each.name)})
