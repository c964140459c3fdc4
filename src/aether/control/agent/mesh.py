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
from aether.plan.mesh.node import NodePlan, next_context, plan_node_in
from aether.render.envoy.names import CLUSTER, ENDPOINT, LISTENER, SECRET, inbound_listener
from aether.render.envoy.resource import Resource
from aether.render.envoy.snapshot import RenderCache, Snapshot, render_snapshot

ACK_WAIT_S = 2.0
"""How long a step waits for Envoy to take a change before it goes on; Envoy may be starting."""

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

    async def step(self) -> None:
        """Look at everything, and make it so."""
        state = self._state
        if (facts := state.facts) is None:
            return
        started = self._clock.now()
        context = next_context(facts, before=state.context, now_s=started)
        plan = plan_node_in(context, observed=frozenset(state.observed))
        await self._capture.widen(plan, facts)
        secrets = await self._identities.secrets(plan)
        snapshot = {**render_snapshot(plan, cache=self._cache, access_log=self._access_log), SECRET: secrets}
        state.accept(context, plan, snapshot)
        self._proxy.publish(snapshot)
        built_s = self._clock.now() - started
        in_place = await self._capture.settle(plan, facts) & await self._listening(plan, snapshot)
        state.captured = in_place | _unmanaged(facts, plan)
        state.changed()
        log.debug("planned", clusters=len(snapshot[CLUSTER]), assignments=len(snapshot[ENDPOINT]), built_s=built_s)

    async def _listening(self, plan: NodePlan, snapshot: Snapshot) -> frozenset[str]:
        """The pods whose listeners Envoy has taken; waits a little for those it has not yet."""
        names = frozenset(snapshot[LISTENER])
        if await self._proxy.wait_acked(LISTENER, names, ACK_WAIT_S):
            return frozenset(pod.uid for pod in plan.pods)
        return frozenset([pod.uid for pod in plan.pods if await self._has_listener(pod.uid)])

    async def _has_listener(self, uid: str) -> bool:
        return await self._proxy.wait_acked(LISTENER, frozenset({inbound_listener(uid)}), 0.0)


def _unmanaged(facts: NodeFacts, plan: NodePlan) -> frozenset[str]:
    """Pods that are not in the mesh: nothing has to be in place for them."""
    return frozenset(pod.uid for pod in facts.pods) - frozenset(pod.uid for pod in plan.pods)
