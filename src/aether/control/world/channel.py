"""The control plane's end of the node channels: facts out, reports in, certificates signed.

A report replaces the one before it. An agent that is away keeps its rows and its last report; only `connected` tells.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol

import msgspec

from aether.adapters.latest import Latest
from aether.adapters.objects.store import ObjectStore
from aether.adapters.rpc.node import SignReply, SignRequest
from aether.control.world.facts import build_facts
from aether.control.world.registry import EmbeddedRegistry
from aether.errors import AetherError
from aether.model.facts import MeshConfig, NodeFacts, NodeReport
from aether.model.identity import WorkloadIdentity, agent_identity


class UnknownNode(AetherError):
    """An agent speaks for a node that this mesh does not have."""

    code = "unknown-node"


class SigningRefused(AetherError):
    """A node asked for the identity of somebody who does not run there."""

    code = "signing-refused"


class Signer(Protocol):
    """The certificate authority, as the channel uses it."""

    def sign(self, csr_pem: bytes, identity: WorkloadIdentity, *, lifetime_s: float) -> bytes:
        """The chain (PEM). Raises AetherError when it refuses."""

    def bundle_pem(self) -> bytes: ...


class NodeChannels:
    """What every agent is told, and what each said last."""

    def __init__(
        self,
        store: ObjectStore,
        registry: EmbeddedRegistry,
        signer: Signer,
        *,
        config: MeshConfig,
        sandboxes: Callable[[], Mapping[str, str]],
    ) -> None:
        self._store = store
        self._registry = registry
        self._signer = signer
        self._config = config
        self._sandboxes = sandboxes
        self._facts: dict[str, Latest[NodeFacts]] = {}
        self._reports: dict[str, NodeReport] = {}
        self._connected: dict[str, int] = {}
        self._reported = asyncio.Event()
        self.captured: frozenset[str] = frozenset()

    def add_node(self, node: str) -> None:
        self._facts[node] = Latest()

    async def refresh(self) -> None:
        """Look at store and registry, and tell each agent what is new for it. One step of a level-triggered loop."""
        sandboxes, ca_pem = self._sandboxes(), self._signer.bundle_pem()
        for node, latest in self._facts.items():
            facts = build_facts(self._store, self._registry, node, config=self._config, sandboxes=sandboxes)
            latest.set(msgspec.structs.replace(facts, ca_pem=ca_pem))

    async def facts(self, node: str) -> AsyncGenerator[NodeFacts, None]:
        if node not in self._facts:
            raise UnknownNode(f"node {node!r} is not in this mesh")
        self._connected[node] = self._connected.get(node, 0) + 1
        try:
            async for facts in self._facts[node].values():
                yield facts
        finally:
            self._connected[node] -= 1

    def on_report(self, report: NodeReport) -> None:
        if report.node not in self._facts:
            raise UnknownNode(f"node {report.node!r} is not in this mesh")
        self._reports[report.node] = report
        self.captured = frozenset(uid for each in self._reports.values() for uid in each.captured)
        self._registry.report(report)
        reported, self._reported = self._reported, asyncio.Event()
        reported.set()

    def sign(self, request: SignRequest) -> SignReply:
        """A node may have its own identity and those of the pods that were placed on it, no others."""
        identity = WorkloadIdentity(self._config.trust_domain, request.namespace, request.account)
        if not self._may_have(request.node, identity):
            raise SigningRefused(f"{identity} does not run on node {request.node}")
        chain_pem = self._signer.sign(request.csr_pem, identity, lifetime_s=self._config.leaf_lifetime_s)
        return SignReply(chain_pem=chain_pem, ca_pem=self._signer.bundle_pem())

    async def wait_captured(self, uid: str) -> None:
        """Until the pod's node has reported its capture table and listeners in place."""
        while uid not in self.captured:
            await self._reported.wait()

    def live_reports(self) -> tuple[NodeReport, ...]:
        """The last report of each node whose agent is connected now."""
        return tuple(report for node, report in sorted(self._reports.items()) if self._connected.get(node))

    def any_facts(self) -> NodeFacts | None:
        """The newest facts of some node: what is not about a node is the same in all of them."""
        return next((latest.value for latest in self._facts.values() if latest.value is not None), None)

    def _may_have(self, node: str, identity: WorkloadIdentity) -> bool:
        facts = self._facts[node].value if node in self._facts else None
        if identity == agent_identity(self._config.trust_domain):
            return node in self._facts
        return facts is not None and any(
            (pod.namespace, pod.account) == (identity.namespace, identity.account) for pod in facts.pods
        )
