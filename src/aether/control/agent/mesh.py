"""The main loop of an agent: facts to plan to resources to Envoy, with the pods' capture around it.

The order of one step keeps rulings B.3: what capture needs of a new port is in place before the port is in the tables,
and leaves after it left them; a pod counts as captured once its table is applied and Envoy has its listeners.
"""

from collections.abc import Mapping
from typing import Protocol

import structlog

from aether.adapters.clock import Clock
from aether.control.agent.identity import Identities
from aether.control.agent.state import AgentState
from aether.model.facts import NodeFacts
from aether.plan.mesh.node import (
    MeshCluster,
    MeshContext,
    NodePlan,
    Tombstone,
    next_context,
    plan_cluster,
    plan_node_in,
)
from aether.render.envoy.names import CLUSTER, LISTENER, SECRET, inbound_listener
from aether.render.envoy.resource import Resource
from aether.render.envoy.snapshot import RenderCache, render_cluster, render_snapshot

ACK_WAIT_S = 0.5
"""How long a step waits for Envoy to take a change before it goes on; Envoy may be starting."""
LOOK_AGAIN_S = (0.1, 2.0)
"""After a step that could not see everything taken: at first, and at most, doubling in between."""

log = structlog.get_logger()


class Proxy(Protocol):
    """The ADS server, as this loop uses it."""

    def publish(self, snapshot: Mapping[str, Mapping[str, Resource]]) -> None: ...

    async def wait_acked(self, type_url: str, names: frozenset[str], timeout_s: float) -> bool: ...


class Capture(Protocol):
    """The kernel side of capture on this node."""

    async def widen(self, plan: NodePlan, facts: NodeFacts) -> None:
        """Apply everything that the plan adds; take nothing away."""

    async def settle(self, plan: NodePlan, facts: NodeFacts) -> frozenset[str]:
        """Apply exactly the plan; the uids of pods whose table is in place."""


class MeshLoop:
    def __init__(
        self,
        state: AgentState,
        *,
        proxy: Proxy,
        capture: Capture,
        identities: Identities,
        access_log: str,
        clock: Clock,
    ) -> None:
        self._state = state
        self._proxy = proxy
        self._capture = capture
        self._identities = identities
        self._access_log = access_log
        self._clock = clock
        self._cache = RenderCache()
        self._again_s = LOOK_AGAIN_S[0]

    async def step(self) -> float | None:
        """Look at everything, and make it so. Seconds to look again in: something is due or missing."""
        state = self._state
        if (facts := state.facts) is None:
            return None
        context = next_context(facts, before=state.context, now_s=self._clock.now())
        plan = plan_node_in(context, observed=frozenset(state.observed))
        await self._capture.widen(plan, facts)
        secrets = await self._identities.secrets(plan, ca_pem=facts.ca_pem)
        await self._retire(context, plan)
        plan = self._publish(context, secrets)
        in_place = await self._capture.settle(plan, facts)
        state.bare -= in_place
        listening = await self._listening(plan)
        state.captured = (in_place & listening) | _unmanaged(facts, plan)
        state.changed()
        if len(state.captured) == len(facts.pods):
            self._again_s = LOOK_AGAIN_S[0]
            return self._identities.look_again_s()
        again_s, self._again_s = self._again_s, min(self._again_s * 2, LOOK_AGAIN_S[1])
        return again_s

    def _publish(self, context: MeshContext, secrets: Mapping[str, Resource]) -> NodePlan:
        """Plan, render and publish without a pause, so that no name asked for on demand meanwhile is left out."""
        started = self._clock.now()
        plan = plan_node_in(context, observed=frozenset(self._state.observed))
        rendered = render_snapshot(plan, cache=self._cache, access_log=self._access_log)
        snapshot = {**rendered, SECRET: secrets}
        self._state.accept(context, plan, snapshot)
        self._proxy.publish(snapshot)
        log.debug("planned", clusters=len(snapshot[CLUSTER]), built_s=self._clock.now() - started)
        return plan

    async def _retire(self, context: MeshContext, plan: NodePlan) -> None:
        """Take away the clusters whose name changes owner, before the new owner's go out under it (rulings D.4)."""
        retired: frozenset[str] = frozenset()
        while changed := self._changing_owner(context, plan) - retired:  # while it waits, more names may be asked for
            snapshot = self._state.snapshot
            tombstones = {name: render_cluster(Tombstone(name=name), plan.config)[0] for name in changed}
            self._state.snapshot = {**snapshot, CLUSTER: {**snapshot[CLUSTER], **tombstones}}
            self._proxy.publish(self._state.snapshot)
            await self._proxy.wait_acked(CLUSTER, changed, ACK_WAIT_S)
            retired |= changed
            log.info("addresses-changed-owner", clusters=sorted(changed), services=len(context.services.views))

    def _changing_owner(self, context: MeshContext, plan: NodePlan) -> frozenset[str]:
        planned = {one.name: one for one in plan.clusters}
        before = [one for one in self._state.clusters() if isinstance(one, MeshCluster)]
        after = [planned.get(one.name) or plan_cluster(one.name, context) for one in before]
        return frozenset(
            old.name
            for old, new in zip(before, after, strict=True)
            if isinstance(new, MeshCluster) and new.service != old.service
        )

    async def _listening(self, plan: NodePlan) -> frozenset[str]:
        """The pods whose listeners Envoy has taken; waits a little for those it has not yet."""
        names = frozenset(self._state.snapshot[LISTENER])
        if await self._proxy.wait_acked(LISTENER, names, ACK_WAIT_S):
            return frozenset(pod.uid for pod in plan.pods)
        return frozenset([pod.uid for pod in plan.pods if await self._has_listener(pod.uid)])

    async def _has_listener(self, uid: str) -> bool:
        return await self._proxy.wait_acked(LISTENER, frozenset({inbound_listener(uid)}), 0.0)


def _unmanaged(facts: NodeFacts, plan: NodePlan) -> frozenset[str]:
    """Pods that are not in the mesh: nothing has to be in place for them."""
    return frozenset(pod.uid for pod in facts.pods) - frozenset(pod.uid for pod in plan.pods)
