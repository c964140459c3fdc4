"""The controllers of the single machine, each a level-triggered loop over the store."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.objects.store import ObjectStore
from aether.control.loop import Loop
from aether.control.world.accounts import DefaultAccounts
from aether.control.world.deployments import Deployments
from aether.control.world.publisher import Publisher
from aether.control.world.registry import EmbeddedRegistry
from aether.control.world.scheduler import Scheduler
from aether.control.world.service_addresses import ServiceAddresses
from aether.errors import Diagnostic
from aether.model.facts import MeshConfig
from aether.model.names import ServiceId

LOOK_AGAIN_S = 5.0
"""How often Deployments are looked at without a change: what waits for time (`minReadySeconds`) is due by then."""


class WorldParts(msgspec.Struct, frozen=True, kw_only=True):
    store: ObjectStore
    registry: EmbeddedRegistry
    addresses: ServiceAddresses
    config: MeshConfig
    clock: Clock


class Controllers:
    """Accounts, Deployments, the scheduler, the publisher, and the keeper of Service addresses."""

    def __init__(self, parts: WorldParts) -> None:
        self._parts = parts
        self._publisher = Publisher(parts.store, parts.registry, parts.config)
        self._loops: list[Loop] = []
        self._woken_by_registry: list[Loop] = []

    def problems(self) -> tuple[Diagnostic, ...]:
        """What the controllers have to say, sorted: Services left alone, ports not served, loops that fail."""
        failing = [
            Diagnostic(code="loop-failed", message=loop.last_error, where=loop.name)
            for loop in self._loops
            if loop.last_error
        ]
        return tuple(sorted((*self._publisher.problems, *self._parts.registry.problems(), *failing)))

    async def run(self) -> None:
        """Run until cancelled."""
        parts = self._parts
        steps: tuple[tuple[str, Callable[[], Awaitable[None]], Collection[str]], ...] = (
            ("accounts", DefaultAccounts(parts.store).step, {"Namespace", "ServiceAccount"}),
            ("deployments", Deployments(parts.store, parts.clock).step, {"Deployment", "Pod"}),
            ("scheduler", Scheduler(parts.store, parts.clock).step, {"Pod", "Node"}),
            ("publisher", self._publisher.step, {"Service", "ServiceAccount", "Namespace"}),
            ("service-addresses", self._keep_addresses, {"Service"}),
        )
        cancels: list[Callable[[], None]] = []
        for name, step, kinds in steps:
            every_s = LOOK_AGAIN_S if name == "deployments" else None
            loop = Loop(name, step, clock=parts.clock, every_s=every_s)
            self._loops.append(loop)
            cancels.append(parts.store.subscribe(loop.wake, kinds))
            if name == "publisher":
                cancels.append(parts.registry.subscribe(loop.wake))
        try:
            async with asyncio.TaskGroup() as group:
                for loop in self._loops:
                    group.create_task(loop.run())
        finally:
            for cancel in cancels:
                cancel()

    async def _keep_addresses(self) -> None:
        services = self._parts.store.list("Service")[0]
        self._parts.addresses.retire(
            ServiceId(one["metadata"]["namespace"], one["metadata"]["name"]) for one in services
        )
        await self._parts.addresses.save()
