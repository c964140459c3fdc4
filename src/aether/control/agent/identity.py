"""The certificates of one node: which identities it needs, and keeping each fresh.

Owns: asking for leaves, when to look again, and their spelling as SDS secrets. Every local pod's identity has two
names, `in/…` for its inbound listener and `out/…` for what it dials: one name may never be used both ways
(architecture, decision 21). A leaf that cannot be had leaves the one before it in place, and is asked for again.
"""

import asyncio
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

    async def leaf(self, identity: WorkloadIdentity) -> HeldLeaf:
        """The kept one while it is fresh. Raises AetherError when there is none to be had."""

    def ca_pem(self) -> bytes: ...

    def trust(self, bundle_pem: bytes) -> None:
        """Take over the roots to trust; leaves that the first did not sign are not fresh any more."""

    def prune(self, identities: Iterable[WorkloadIdentity]) -> None: ...


RENEW_AGAIN_S = 5.0
"""Between attempts to renew a leaf. Half of its life is left for them."""


class Identities:
    """The secrets that a plan needs, rendered."""

    def __init__(self, leaves: Leaves, *, clock: Clock) -> None:
        self._leaves = leaves
        self._clock = clock
        self._held: dict[WorkloadIdentity, HeldLeaf] = {}
        self.problems: tuple[Diagnostic, ...] = ()

    async def secrets(self, plan: NodePlan, *, ca_pem: bytes = b"") -> Mapping[str, Resource]:
        """Every secret by name. A pod whose certificate cannot be had has none, and `problems` says so.

        `ca_pem` are the roots to trust by the newest word of the control plane, if there is one.
        """
        if ca_pem:
            self._leaves.trust(ca_pem)
        node = agent_identity(plan.config.trust_domain)
        names: dict[str, WorkloadIdentity] = {NODE_SECRET: node}
        for pod in plan.pods:
            names[pod.inbound_secret] = names[pod.outbound_secret] = pod.identity
        wanted = set(names.values())
        self._held = {identity: leaf for identity, leaf in self._held.items() if identity in wanted}
        found = await asyncio.gather(*(self._refresh(identity) for identity in sorted(wanted)))
        self.problems = tuple(problem for problems in found for problem in problems)
        self._leaves.prune(wanted)
        secrets = {
            name: render_certificate(name, self._held[identity].chain_pem, self._held[identity].key)
            for name, identity in sorted(names.items())
            if identity in self._held
        }
        return {**secrets, CA_SECRET: render_validation(CA_SECRET, self._leaves.ca_pem())}

    def look_again_s(self) -> float | None:
        """Seconds until `secrets` should be asked again, since a leaf is due or missing; None for no reason."""
        if self.problems:
            return RENEW_AGAIN_S
        due = min((leaf.rotate_at for leaf in self._held.values()), default=None)
        return None if due is None else max(due - self._clock.wall(), RENEW_AGAIN_S)

    async def _refresh(self, identity: WorkloadIdentity) -> list[Diagnostic]:
        try:
            leaf = await self._leaves.leaf(identity)
        except AetherError as error:
            log.warning("certificate-not-issued", identity=str(identity), error=str(error))
            return [Diagnostic(code=error.code, message=str(error), subject=str(identity))]
        if self._held.get(identity) is not leaf:
            log.info("certificate-issued", identity=str(identity))
        self._held[identity] = leaf
        return []
