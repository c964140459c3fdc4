"""Capture and service routing on this node's kernel: what was applied, and what changes it.

Owns: one nftables context per pod and one for the node, and the plan that each was last given. A pod is captured before
any of its processes start and until its namespace goes. A refused edit is followed by a whole replacement.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import structlog

from aether.adapters.kernel.conntrack import delete_udp_flows
from aether.adapters.kernel.nft import NftRefused
from aether.errors import AetherError, Diagnostic
from aether.model.facts import LocalPod, NodeFacts
from aether.plan.capture import (
    CaptureChange,
    CapturePlan,
    MeshSets,
    ReplaceCapture,
    diff_capture,
    plan_capture,
    plan_mesh_sets,
    union,
)
from aether.plan.mesh.node import NodePlan
from aether.plan.mesh.pods import DeclaredPod, declared_pods
from aether.plan.routing import ReplaceRouting, RoutingChange, RoutingPlan, UdpFlow, diff_routing, plan_routing
from aether.render.nft import CAPTURE_NAME, render_capture_change, render_routing_change

log = structlog.get_logger()


class Ruleset(Protocol):
    """The ruleset of one network namespace; applying is one transaction."""

    def apply(self, text: str) -> None: ...

    def has_table(self, family: str, name: str) -> bool: ...

    def close(self) -> None: ...


class _Table:
    """One pod's capture table: the context and what it holds now."""

    def __init__(self, ruleset: Ruleset) -> None:
        self.ruleset = ruleset
        self.applied: CapturePlan | None = None

    def apply(self, wanted: CapturePlan) -> None:
        change = diff_capture(self.applied, wanted)
        if change is None:
            return
        self.applied = None  # unknown, until it is known again
        _apply_with_fallback(self.ruleset, change, wanted)
        self.applied = wanted


def _apply_with_fallback(ruleset: Ruleset, change: CaptureChange, wanted: CapturePlan) -> None:
    try:
        ruleset.apply(render_capture_change(change))
    except NftRefused as error:
        if isinstance(change, ReplaceCapture):
            raise
        log.warning("capture-edit-refused", error=str(error))
        ruleset.apply(render_capture_change(ReplaceCapture(wanted)))


class NodeCapture:
    """All capture tables of a node. `open_ruleset` opens the ruleset of the namespace at a path."""

    def __init__(self, open_ruleset: Callable[[Path], Ruleset]) -> None:
        self._open = open_ruleset
        self._tables: dict[str, _Table] = {}
        self.failures: dict[str, str] = {}

    async def widen(self, plan: NodePlan, facts: NodeFacts) -> None:
        """Apply everything that the plan adds; take nothing away (rulings B.3)."""
        await asyncio.to_thread(self._apply_all, plan, facts, keep_old=True)

    async def settle(self, plan: NodePlan, facts: NodeFacts) -> frozenset[str]:
        """Apply exactly the plan; the uids of pods whose table is in place. Forgets pods that are gone."""
        return await asyncio.to_thread(self._apply_all, plan, facts, keep_old=False)

    def plan_of(self, uid: str) -> CapturePlan | None:
        """What the pod's table holds now."""
        table = self._tables.get(uid)
        return table.applied if table else None

    def problems(self) -> tuple[Diagnostic, ...]:
        """The pods whose table could not be applied, with the kernel's word."""
        return tuple(
            Diagnostic(code="capture-failed", message=message, subject=f"pod {uid}")
            for uid, message in sorted(self.failures.items())
        )

    async def missing(self) -> frozenset[str]:
        """The pods whose table somebody took away; the next step makes it anew."""
        return await asyncio.to_thread(self._drop_missing)

    def close(self) -> None:
        for table in self._tables.values():
            table.ruleset.close()
        self._tables.clear()

    def _drop_missing(self) -> frozenset[str]:
        gone = {
            uid
            for uid, table in list(self._tables.items())
            if table.applied is not None and not table.ruleset.has_table("inet", CAPTURE_NAME)
        }
        for uid in gone:
            self._tables[uid].applied = None
        return frozenset(gone)

    def _apply_all(self, plan: NodePlan, facts: NodeFacts, *, keep_old: bool) -> frozenset[str]:
        sets = plan_mesh_sets(plan.directory, plan.dialled_pods)
        declared = {one.pod.uid: one for one in declared_pods(facts)}
        self._forget(declared)
        for uid, one in declared.items():
            self._apply_one(uid, one, sets, facts, keep_old=keep_old)
        return frozenset(uid for uid in declared if uid not in self.failures)

    def _apply_one(self, uid: str, one: DeclaredPod, sets: MeshSets, facts: NodeFacts, *, keep_old: bool) -> None:
        try:
            table = self._table(one.pod)
            wanted = plan_capture(one.pod, one.declaration, sets, facts.config)
            table.apply(union(table.applied, wanted) if keep_old and table.applied else wanted)
        except AetherError as error:
            if uid not in self.failures:
                log.warning("capture-failed", pod=f"{one.pod.namespace}/{one.pod.name}", error=str(error))
            self.failures[uid] = str(error)
        else:
            self.failures.pop(uid, None)

    def _table(self, pod: LocalPod) -> _Table:
        if pod.uid not in self._tables:
            self._tables[pod.uid] = _Table(self._open(Path(pod.netns)))
        return self._tables[pod.uid]

    def _forget(self, wanted: Mapping[str, DeclaredPod]) -> None:
        for uid in self._tables.keys() - wanted.keys():
            self._tables.pop(uid).ruleset.close()
        self.failures = {uid: text for uid, text in self.failures.items() if uid in wanted}


class NodeRouting:
    """The service routing of a node, in the node's own namespace."""

    def __init__(self, netns: Path, *, ruleset: Ruleset) -> None:
        self._netns = netns
        self._ruleset = ruleset
        self._applied: RoutingPlan | None = None
        self._stale: set[UdpFlow] = set()

    async def apply(self, facts: NodeFacts) -> None:
        """Make it so. Flows to delete are remembered until they are: an apply that fails forgets none."""
        wanted = await asyncio.to_thread(plan_routing, facts)
        change = diff_routing(self._applied, wanted)
        if change is not None:
            self._applied = None
            self._stale.update(change.stale)
            await asyncio.to_thread(self._apply, change, wanted)
            self._applied = wanted
        if self._stale:
            await asyncio.to_thread(delete_udp_flows, self._netns, sorted(self._stale - wanted.pinned))
            self._stale.clear()

    def close(self) -> None:
        self._ruleset.close()

    def _apply(self, change: RoutingChange, wanted: RoutingPlan) -> None:
        try:
            self._run(render_routing_change(change))
        except NftRefused as error:
            if isinstance(change, ReplaceRouting):
                raise
            log.warning("routing-edit-refused", error=str(error))
            self._run(render_routing_change(ReplaceRouting(plan=wanted)))

    def _run(self, text: str) -> None:
        if text:
            self._ruleset.apply(text)
