"""The whole of what a node's Envoy is told, as resources by type and name.

Owns: which resources exist and that equal plans give equal bytes. Secrets are not in a snapshot: they are rendered when
a certificate is issued (`secrets.py`).
"""

from collections.abc import Mapping

from aether.model.facts import MeshConfig
from aether.plan.mesh.node import ClusterPlan, NodePlan
from aether.render.envoy.resource import Resource

Snapshot = Mapping[str, Mapping[str, Resource]]
"""Type URL, then name. Read-only."""


class RenderCache:
    """What earlier renderings left: bytes per cluster, per pod and per virtual-host class. Speed only."""


def render_snapshot(plan: NodePlan, *, cache: RenderCache | None = None, access_log: str = "") -> Snapshot:
    """Clusters, load assignments, listeners and routes of a plan. `access_log` is the file to append to, or ""."""
    raise NotImplementedError


def render_cluster(cluster: ClusterPlan, config: MeshConfig) -> tuple[Resource, Resource | None]:
    """A cluster and, if it takes its endpoints from EDS, its load assignment."""
    raise NotImplementedError


def consistency(snapshot: Snapshot) -> list[str]:
    """Faults that Envoy would accept or answer badly, in words; empty for a sound snapshot."""
    raise NotImplementedError
