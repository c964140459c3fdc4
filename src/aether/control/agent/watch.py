"""The looking loop of an agent: is the proxy live, and which local pods may take traffic?"""

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from aether.adapters.clock import Clock
from aether.adapters.kernel.netns import socket_in
from aether.adapters.liveness import SocketIn, check_liveness
from aether.control.agent.health import HealthBook, Look
from aether.control.agent.state import AgentState
from aether.errors import Diagnostic
from aether.model.endpoint import Health
from aether.model.facts import LocalPod
from aether.model.ports import Codec
from aether.plan.mesh.pods import DeclaredPod, declared_pods
from aether.render.envoy.names import probe_healthy_stat

LOOK_EVERY_S = 0.25
"""Between looks. The inbound probe itself runs in Envoy; a look costs one request to its admin socket."""

PROBLEM_LOOKS = 12
"""Bad looks in a row after which a pod is reported: applications need a moment to start (3 s)."""

PROXY_GRACE_S = 5.0
"""How long a proxy that ended and started again may take until its probes have an answer. A healthy pod stays so
meanwhile: nobody has to learn of two changes, and a call that fails is the caller's proxy's to see."""

LIVENESS_EVERY_S = 2.0
"""Between liveness checks of a healthy pod: each is a connection that its application has to answer."""


class ProxyAdmin(Protocol):
    """The proxy's own word, as this loop uses it."""

    async def is_live(self) -> bool: ...

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        """Statistics whose name matches the regular expression. Raises AetherError when the proxy does not answer."""


class HealthWatch:
    """One look at everything; `state.healthy` and `state.is_proxy_live` are what it found."""

    def __init__(
        self, state: AgentState, admin: ProxyAdmin, *, clock: Clock, open_socket: SocketIn | None = None
    ) -> None:
        """`open_socket` makes a socket in the network namespace of a pod."""
        self._state = state
        self._admin = admin
        self._clock = clock
        self._open_socket = open_socket or _socket_in
        self._live_at: dict[str, float] = {}
        self._away_at = clock.now()
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
        self._note_proxy(is_live=is_live)
        pods = [one for one in declared_pods(facts) if not one.pod.is_terminating]
        looks = await asyncio.gather(*(self._look(one, passed) for one in pods))
        before = self.problems()
        has_changed = self.book.record(tuple(looks)) or is_live != self._state.is_proxy_live
        has_changed |= self.problems() != before
        self._live_at = {uid: at for uid, at in self._live_at.items() if uid in self.book.last}
        self._state.healthy, self._state.is_proxy_live = self.book.healthy, is_live
        if has_changed:
            self._state.changed()

    def problems(self) -> tuple[Diagnostic, ...]:
        """Why pods whose containers are ready take no traffic, for some time already."""
        facts = self._state.facts
        pods = {one.pod.uid: one for one in declared_pods(facts)} if facts is not None else {}
        return tuple(
            _problem(pods[look.uid], look)
            for look in self.book.failing(looks=PROBLEM_LOOKS)
            if look.is_ready and look.uid in pods
        )

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
        is_live = one.pod.is_ready if one.declaration.liveness is None else await self._is_live(one)
        is_inbound_ready = True if one.pod.uid in passed else None if self._is_proxy_new() else False
        return Look(uid=one.pod.uid, is_ready=one.pod.is_ready, is_live=is_live, is_inbound_ready=is_inbound_ready)

    def _note_proxy(self, *, is_live: bool) -> None:
        """Remember when the proxy was last seen to be away, or found at this agent's own start."""
        if not is_live and self._state.is_proxy_live:
            self._away_at = self._clock.now()

    def _is_proxy_new(self) -> bool:
        return self._clock.now() - self._away_at < PROXY_GRACE_S

    async def _is_live(self, one: DeclaredPod) -> bool:
        """What the pod's liveness port says now; for a healthy pod, what it said less than `LIVENESS_EVERY_S` ago."""
        uid, now = one.pod.uid, self._clock.now()
        if uid in self.book.healthy and now - self._live_at.get(uid, -LIVENESS_EVERY_S) < LIVENESS_EVERY_S:
            return True
        port = one.declaration.liveness
        assert port is not None
        codec = dict(one.declaration.codecs).get(port.number, Codec.H1)
        is_live = await check_liveness(self._open_socket, one.pod.netns, port.number, port.port_class, codec)
        if is_live:
            self._live_at[uid] = now
        return is_live


def _problem(one: DeclaredPod, look: Look) -> Diagnostic:
    subject = f"Pod {one.pod.namespace}/{one.pod.name}"
    port = one.declaration.liveness
    if not look.is_live and port is not None:
        message = f"takes no traffic: nothing that speaks {port.port_class} answers on its liveness port {port.number}"
        return Diagnostic(code="not-live", message=message, subject=subject, item=str(port))
    message = "takes no traffic: its inbound listener does not answer the node's probe over mutual TLS"
    return Diagnostic(code="inbound-not-ready", message=message, subject=subject)


def _primary(pod: LocalPod) -> str:
    return pod.addresses[0] if pod.addresses else ""


def _socket_in(netns: str, family: int, kind: int) -> socket.socket:
    return socket_in(Path(netns), family, kind)
