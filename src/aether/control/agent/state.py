"""What the loops of one agent share: the newest facts, plan and snapshot, and what each loop found out.

Rule: loops read anything, each field has one writer, named beside it.
"""

from collections.abc import Callable

from aether.model.facts import NodeFacts
from aether.plan.mesh.node import ClusterPlan, MeshContext, NodePlan, plan_cluster
from aether.render.envoy.snapshot import Snapshot


class AgentState:
    def __init__(self, node: str) -> None:
        self.node = node
        self.facts: NodeFacts | None = None  # the channel
        self.observed: set[str] = set()  # on-demand requests
        self.misses = 0  # on-demand requests: how many there were
        self.context: MeshContext | None = None  # the mesh loop
        self.plan: NodePlan | None = None  # the mesh loop
        self.snapshot: Snapshot = {}  # the mesh loop, and on-demand answers
        self.captured: frozenset[str] = frozenset()  # the mesh loop
        self.bare: frozenset[str] = (
            frozenset()
        )  # pods whose capture table was taken away; the table check, the mesh loop
        self.healthy: frozenset[str] = frozenset()  # the health loop
        self.is_proxy_live = False  # the health loop
        self._listeners: list[Callable[[], None]] = []

    def accept(self, context: MeshContext, plan: NodePlan, snapshot: Snapshot) -> None:
        self.context, self.plan, self.snapshot = context, plan, snapshot

    def clusters(self) -> tuple[ClusterPlan, ...]:
        """What the proxy's cluster names stand for now: as planned, and as answered since."""
        if self.plan is None or self.context is None:
            return ()
        planned = self.plan.clusters
        since = self.observed - {one.name for one in planned}
        return (*planned, *(plan_cluster(name, self.context) for name in sorted(since)))

    def on_change(self, wake: Callable[[], None]) -> None:
        self._listeners.append(wake)

    def changed(self) -> None:
        """Tell whoever reports that there is something new."""
        for wake in self._listeners:
            wake()
