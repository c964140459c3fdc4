"""The looking loop of an agent: is the proxy live, and which local pods may take traffic?"""

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from aether.adapters.kernel.netns import socket_in
from aether.adapters.liveness import check_liveness
from aether.control.agent.health import HealthBook, Look
from aether.control.agent.state import AgentState
from aether.model.endpoint import Health
from aether.model.facts import LocalPod
from aether.model.ports import Codec
from aether.plan.mesh.pods import DeclaredPod, declared_pods
from aether.render.envoy.names import probe_healthy_stat

LOOK_EVERY_S = 0.25
"""Between looks. The inbound probe itself runs in Envoy; a look costs one request to its admin socket."""


class ProxyAdmin(Protocol):
    """The proxy's own word, as this loop uses it."""

    async def is_live(self) -> bool: ...

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        """Statistics whose name matches the regular expression. Raises AetherError when the proxy does not answer."""


class HealthWatch:
    """One look at everything; `state.healthy` and `state.is_proxy_live` are what it found."""

    def __init__(self, state: AgentState, admin: ProxyAdmin) -> None:
        self._state = state
        self._admin = admin
        self._is_seeded = False
        self.book = HealthBook()

    async def step(self) -> None:
        facts = self._state.facts
        if facts is None:
            return
        if not self._is_seeded:
            self._seed()
        is_live = await self._admin.is_live()
        passed = await self._inbound_ready() if is_live else frozenset()
        pods = [one for one in declared_pods(facts) if not one.pod.is_terminating]
        looks = await asyncio.gather(*(self._look(one, passed) for one in pods))
        has_changed = self.book.record(tuple(looks)) or is_live != self._state.is_proxy_live
        self._state.healthy, self._state.is_proxy_live = self.book.healthy, is_live
        if has_changed:
            self._state.changed()

    def _seed(self) -> None:
        """What this agent's earlier life found healthy stays so until looks say otherwise."""
        assert self._state.facts is not None
        facts = self._state.facts
        rows = {row.address for row in facts.rows if row.node == facts.node and row.health is Health.HEALTHY}
        self.book.assume(pod.uid for pod in facts.pods if _primary(pod) in rows and not pod.is_terminating)
        self._state.healthy = self.book.healthy
        self._is_seeded = True

    async def _inbound_ready(self) -> frozenset[str]:
        assert self._state.facts is not None
        gauges = await self._admin.gauges(r"^cluster\.probe_.*\.membership_healthy$")
        return frozenset(pod.uid for pod in self._state.facts.pods if gauges.get(probe_healthy_stat(pod.uid), 0) > 0)

    async def _look(self, one: DeclaredPod, passed: frozenset[str]) -> Look:
        is_live = one.pod.is_ready
        port = one.declaration.liveness
        if port is not None:
            codec = dict(one.declaration.codecs).get(port.number, Codec.H1)
            is_live = await check_liveness(_socket_in, one.pod.netns, port.number, port.port_class, codec)
        return Look(uid=one.pod.uid, is_ready=one.pod.is_ready, is_live=is_live, is_inbound_ready=one.pod.uid in passed)


def _primary(pod: LocalPod) -> str:
    return pod.addresses[0] if pod.addresses else ""


def _socket_in(netns: str, family: int, kind: int) -> socket.socket:
    return socket_in(Path(netns), family, kind)
