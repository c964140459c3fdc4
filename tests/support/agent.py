"""One node's agent without a machine: its loops around a proxy and rulesets in memory, with leaves of a real authority.

Everything that leaves the agent stands in one journal, in the order in which it left.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from tests.support.ruleset import MemoryRuleset

from aether.adapters.ca import CertificateAuthority, IdentityCache, Leaf, LocalSource
from aether.adapters.clock import ManualClock
from aether.adapters.envoy.tally import AdsStatistics, TypeStatistics
from aether.control.agent.capture import NodeCapture
from aether.control.agent.cold import ColdRequests
from aether.control.agent.identity import Identities
from aether.control.agent.mesh import MeshLoop
from aether.control.agent.state import AgentState
from aether.errors import AetherError
from aether.model.facts import NodeFacts, Rejection
from aether.model.identity import WorkloadIdentity
from aether.render.envoy.names import CLUSTER
from aether.render.envoy.resource import Resource
from aether.render.envoy.snapshot import Snapshot
from aether.render.nft import CAPTURE_NAME

_IDENTITY = re.compile(rb"spiffe://[a-z.]+/ns/([a-z-]+/sa/[a-z-]+)")


def everything(type_url: str, name: str) -> bool:
    """What an Envoy takes that serves."""
    return bool(type_url and name)


def nothing(type_url: str, name: str) -> bool:
    """What an Envoy takes that has not started."""
    return not type_url and not name


class MemoryProxy:
    """An ADS server with an Envoy that has acknowledged at once whatever `takes` says, and never the rest.

    `on_wait` is called while the agent waits for an acknowledgement: what happens meanwhile.
    """

    def __init__(self, *, on_publish: Callable[[], None] | None = None) -> None:
        self.takes: Callable[[str, str], bool] = everything
        self.on_wait: Callable[[], None] | None = None
        self.published: list[Snapshot] = []
        self.refused: tuple[Rejection, ...] = ()
        self._on_publish = on_publish

    @property
    def newest(self) -> Snapshot:
        return self.published[-1]

    def publish(self, snapshot: Mapping[str, Mapping[str, Resource]]) -> None:
        self.published.append(snapshot)
        if self._on_publish is not None:
            self._on_publish()

    async def wait_acked(self, type_url: str, names: frozenset[str], timeout_s: float) -> bool:
        if self.on_wait is not None and timeout_s > 0:
            self.on_wait()
        return all(self.takes(type_url, name) for name in names)

    def rejections(self) -> tuple[Rejection, ...]:
        return self.refused

    def statistics(self) -> AdsStatistics:
        types = [
            TypeStatistics(
                type_url=url, resources=len(held), held=sum(self.takes(url, name) for name in held), messages=1
            )
            for url, held in sorted(self.newest.items())
        ]
        return AdsStatistics(streams=1, streams_opened=1, types=tuple(types))


class SigningRefused(AetherError):
    """The control plane signs nothing."""

    code = "signing-refused"


class Signing:
    """The control plane's end of signing: whom it signed for. `is_away` refuses everybody.

    `on_sign` is called while the agent waits for a leaf: what happens meanwhile.
    """

    def __init__(self, authority: CertificateAuthority) -> None:
        self.is_away = False
        self.on_sign: Callable[[], None] | None = None
        self.signed: list[WorkloadIdentity] = []
        self._source = LocalSource(authority)

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        if self.is_away:
            raise SigningRefused(f"nobody signs for {identity}")
        self.signed.append(identity)
        if self.on_sign is not None:
            self.on_sign()
        return await self._source.leaf(identity)


class MemoryNode:
    """Node n1. `restarted` is the agent's next life: what was on disk, in the kernel and in Envoy is still there."""

    def __init__(self, folder: Path, *, rulesets: Mapping[str, MemoryRuleset] | None = None) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.journal: list[str] = []
        self.rulesets = dict(rulesets or {})
        self.proxy = MemoryProxy(on_publish=lambda: self.journal.append("publish"))
        self.state = AgentState("n1")
        self.authority = CertificateAuthority.open(folder / "ca", "aether.internal", clock=self.clock)
        self.signing = Signing(self.authority)
        leaves = IdentityCache(folder / "identities", self.signing, clock=self.clock)
        self.identities = Identities(leaves, clock=self.clock)
        self.capture = NodeCapture(self._open)
        self.cold = ColdRequests(self.state, self.proxy.publish, file=folder / "observed.json")
        self.mesh = MeshLoop(
            self.state,
            proxy=self.proxy,
            capture=self.capture,
            identities=self.identities,
            access_log="",
            clock=self.clock,
        )

    def restarted(self) -> "MemoryNode":
        return MemoryNode(self.folder, rulesets=self.rulesets)

    async def hear(self, facts: NodeFacts) -> float | None:
        """Take in what the control plane says, and do one step. What the step returned."""
        self.state.facts = msgspec.structs.replace(facts, ca_pem=self.authority.bundle_pem())
        return await self.mesh.step()

    def asks(self, cluster: str) -> None:
        """The proxy asks for a cluster on demand."""
        assert self.cold.ask(cluster)

    def owners(self, cluster: str) -> list[str]:
        """Whose identity a cluster was pinned to, publish by publish; "" where it was nobody's or not there."""
        return [_pin(snapshot[CLUSTER].get(cluster)) for snapshot in self.proxy.published]

    def kernel(self, name: str, *, pod: str) -> frozenset[str]:
        """The elements of a set of a pod's capture table."""
        return self.rulesets[f"uid-{pod}"].elements(CAPTURE_NAME, name)

    def _open(self, netns: Path) -> MemoryRuleset:
        uid = netns.name.removeprefix("pod-")
        before = self.rulesets.get(uid, MemoryRuleset())
        self.rulesets[uid] = before.opened_again(on_apply=lambda: self.journal.append(f"kernel {uid}"))
        return self.rulesets[uid]


def _pin(cluster: Resource | None) -> str:
    found = _IDENTITY.search(cluster.body) if cluster is not None else None
    return found[1].decode() if found is not None else ""
