"""A store and what tests of controllers put into it."""

from collections.abc import Mapping
from typing import Any

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import USER
from aether.control.world.facts import build_facts
from aether.control.world.registry import EmbeddedRegistry
from aether.model.facts import MeshConfig, NodeFacts, ServiceRecord

CONTAINER = {"name": "main", "image": "host", "command": ["run"]}
CONFIG = MeshConfig()
READY = {"type": "Ready", "status": "True"}
NONE: Mapping[str, str] = {}


class StoreBench:
    def __init__(self, *admissions: Any) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock, admissions=admissions)

    async def load(self) -> None:
        await self.store.load()

    async def apply(self, kind: str, name: str, namespace: str = "", *, manager: str = USER, **fields: Any) -> None:
        version = "apps/v1" if kind == "Deployment" else "v1"
        metadata = {"name": name, **fields.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        await self.store.apply({"apiVersion": version, "kind": kind, "metadata": metadata, **fields}, manager)

    async def node(self, name: str, labels: Mapping[str, str] = NONE) -> None:
        await self.apply("Node", name, metadata={"labels": dict(labels)}, spec={}, manager="world")

    async def pod(self, name: str, namespace: str = "default", **spec: Any) -> None:
        metadata = spec.pop("metadata", {})
        await self.apply("Pod", name, namespace, metadata=metadata, spec={"containers": [CONTAINER], **spec})

    def get(self, kind: str, name: str, namespace: str = "default") -> KubeObject:
        live = self.store.get(ObjectKey(kind, namespace, name))
        assert live is not None
        return live

    def has(self, kind: str, name: str, namespace: str = "default") -> bool:
        return self.store.get(ObjectKey(kind, namespace, name)) is not None

    async def say(self, name: str, namespace: str = "default", **status: Any) -> None:
        """Write a pod's status."""
        await self.store.update_status(ObjectKey("Pod", namespace, name), status)


class FactsBench(StoreBench):
    """A store beside a registry, and pods that run in sandboxes."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = EmbeddedRegistry()
        self.sandboxes: dict[str, str] = {}

    async def run(self, name: str, address: str, *, node: str = "n1", is_ready: bool = True, **fields: Any) -> str:
        """A pod that runs in a sandbox; its uid."""
        spec = fields.pop("spec", {})
        await self.pod(name, "shop", nodeName=node, serviceAccountName="cart", **{**spec, "metadata": fields})
        await self.say(name, "shop", phase="Running", podIPs=[{"ip": address}], conditions=[READY] if is_ready else [])
        uid: str = self.get("Pod", name, "shop")["metadata"]["uid"]
        self.sandboxes[uid] = f"/netns/{name}"
        return uid

    def facts(self, node: str = "n1") -> NodeFacts:
        return build_facts(self.store, self.registry, node, config=CONFIG, sandboxes=self.sandboxes)

    def service(self, name: str) -> ServiceRecord:
        return next(record for record in self.facts().services if record.service.name == name)
