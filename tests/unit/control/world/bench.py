"""A store and what tests of controllers put into it."""

from collections.abc import Mapping
from typing import Any

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import USER

CONTAINER = {"name": "main", "image": "host", "command": ["run"]}
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
