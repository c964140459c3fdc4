"""The certificates of one node: which identities it needs, and keeping each fresh.

Owns: asking for leaves, when to ask again, and their spelling as SDS secrets. Every local pod's identity has two names,
`in/…` for its inbound listener and `out/…` for what it dials: one name may never be used both ways (architecture,
decision 21). A leaf that cannot be had leaves the one before it in place, and is asked for again.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import structlog

from aether.adapters.clock import Clock
from aether.errors import AetherError, Diagnostic
from aether.model.identity import WorkloadIdentity, agent_identity
from aether.model.secret import Secret
from aether.plan.mesh.node import NodePlan
from aether.render.envoy.names import CA_SECRET, NODE_SECRET
from aether.render.envoy.resource import Resource
from aether.render.envoy.secrets import render_certificate, render_validation

log = structlog.get_logger()


class HeldLeaf(Protocol):
    """A certificate in use. Times are seconds of the wall clock."""

    @property
    def chain_pem(self) -> bytes: ...

    @property
    def key(self) -> Secret: ...

    @property
    def rotate_at(self) -> float: ...


class Leaves(Protocol):
    """Where leaves come from: kept on disk, else signed by the control plane."""

    async def leaf(self, identity: WorkloadIdentity) -> HeldLeaf: ...

    def ca_pem(self) -> bytes: ...

    def prune(self, identities: Iterable[WorkloadIdentity]) -> None: ...


class Identities:
    """The secrets that a plan needs, rendered."""

    def __init__(self, leaves: Leaves, *, clock: Clock) -> None:
        self._leaves = leaves
        self._clock = clock
        self._held: dict[WorkloadIdentity, HeldLeaf] = {}
        self.problems: tuple[Diagnostic, ...] = ()

    async def secrets(self, plan: NodePlan) -> Mapping[str, Resource]:
        """Every secret by name. A pod whose certificate cannot be had has none, and `problems` says so."""
        node = agent_identity(plan.config.trust_domain)
        names: dict[str, WorkloadIdentity] = {NODE_SECRET: node}
        for pod in plan.pods:
            names[pod.inbound_secret] = names[pod.outbound_secret] = pod.identity
        wanted = set(names.values())
        self._held = {identity: leaf for identity, leaf in self._held.items() if identity in wanted}
        self.problems = tuple([p for identity in sorted(wanted) for p in await self._refresh(identity)])
        self._leaves.prune(wanted)
        secrets = {
            name: render_certificate(name, self._held[identity].chain_pem, self._held[identity].key)
            for name, identity in sorted(names.items())
            if identity in self._held
        }
        return {**secrets, CA_SECRET: render_validation(CA_SECRET, self._leaves.ca_pem())}

    def next_rotation(self) -> float | None:
        """When (wall clock, seconds) the next leaf is due for renewal."""
        return min((leaf.rotate_at for leaf in self._held.values()), default=None)

    async def _refresh(self, identity: WorkloadIdentity) -> list[Diagnostic]:
        held = self._held.get(identity)
        if held is not None and self._clock.wall() < held.rotate_at:
            return []
        try:
            self._held[identity] = await self._leaves.leaf(identity)
        except AetherError as error:
            log.warning("certificate-not-issued", identity=str(identity), error=str(error))
            return [Diagnostic(code=error.code, message=str(error), subject=str(identity))]
        log.info("certificate-issued", identity=str(identity))
        return []
