"""The zone of mesh DNS, written for the node's DNS process whenever it changed."""

import asyncio
from pathlib import Path

from aether.adapters.dns import write_zone
from aether.control.agent.state import AgentState
from aether.plan.mesh.dns import Zone, plan_zone_in


class ZoneLoop:
    def __init__(self, state: AgentState, *, zone: Path, reload: Path) -> None:
        self._state = state
        self._zone = zone
        self._reload = reload
        self.written: Zone | None = None

    async def step(self) -> None:
        """Write what the plan's context says; nothing if that is what the file says."""
        if self._state.context is None:
            return
        zone = await asyncio.to_thread(plan_zone_in, self._state.context)
        if zone != self.written:
            await asyncio.to_thread(write_zone, self._zone, self._reload, zone)
            self.written = zone
