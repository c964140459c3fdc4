import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.support.facts import row
from tests.unit.control.world.bench import CONTAINER, StoreBench

from aether.adapters.clock import SystemClock
from aether.adapters.objects.kinds import ObjectKey
from aether.control.world.controllers import Controllers, WorldParts
from aether.control.world.registry import EmbeddedRegistry
from aether.control.world.service_addresses import ServiceAddresses
from aether.model.facts import MeshConfig, NodeReport

PATIENCE_S = 10.0
CONFIG = MeshConfig()


class World(StoreBench):
    def __init__(self) -> None:
        self.addresses = ServiceAddresses(CONFIG.service_cidrs, reserved=CONFIG.dns_addresses)
        super().__init__(self.addresses)
        self.registry = EmbeddedRegistry()
        self.controllers = Controllers(
            WorldParts(
                store=self.store,
                registry=self.registry,
                addresses=self.addresses,
                config=CONFIG,
                clock=SystemClock(),
            )
        )

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await SystemClock().sleep(0.005)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    await world.load()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(world.controllers.run())
        yield world
        running.cancel()


async def test_everything_follows_from_what_was_applied(world: World) -> None:
    await world.node("n1")
    await world.apply("Namespace", "shop")
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    await world.apply("Deployment", "web", "shop", spec=spec)
    await world.until(lambda: len(world.store.list("Pod", "shop")[0]) == 2)
    await world.until(lambda: all(pod["spec"].get("nodeName") == "n1" for pod in world.store.list("Pod", "shop")[0]))
    await world.until(lambda: world.has("ServiceAccount", "default", "shop"))


async def test_a_report_makes_a_service(world: World) -> None:
    await world.apply("Namespace", "shop")
    world.registry.report(NodeReport(node="n1", rows=(row("shop/cart"),)))
    await world.until(lambda: world.has("Service", "cart", "shop"))


async def test_problems_are_those_of_publisher_and_registry(world: World) -> None:
    await world.apply("Namespace", "shop")
    await world.apply("Service", "cart", "shop", spec={"ports": [{"port": 80}]})
    world.registry.report(NodeReport(node="n1", rows=(row("shop/cart"), row("shop/bad", "", address="10.244.1.9"))))
    await world.until(lambda: len(world.controllers.problems()) == 2)
    assert [problem.code for problem in world.controllers.problems()] == ["bad-row", "user-service"]


async def test_a_service_that_is_gone_is_retired(world: World) -> None:
    await world.apply("Service", "cart", "default", spec={"clusterIP": "10.96.0.77", "ports": [{"port": 80}]})
    await world.store.delete(ObjectKey("Service", "default", "cart"))
    await world.until(lambda: world.addresses.is_retired("default", "cart"))
