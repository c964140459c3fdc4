"""A whole agent on sockets in a folder: a control plane and a proxy in memory, rulesets in memory, no namespaces."""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.support.ads_client import AdsClient, ads_client
from tests.support.facts import generated, local_pod, node_facts, row
from tests.support.memoryworld import ask
from tests.support.pods import until
from tests.support.ruleset import MemoryRuleset

from aether.adapters.ca import CertificateAuthority
from aether.adapters.clock import ManualClock
from aether.adapters.latest import Latest
from aether.adapters.paths import WorldPaths
from aether.adapters.rpc.node import NodeServer, SignReply, SignRequest
from aether.app.agent import REFUSALS_EVERY_S, TABLES_EVERY_S, Agent, AgentOptions
from aether.model.endpoint import Health
from aether.model.facts import LocalPod, NodeFacts, NodeReport
from aether.model.identity import WorkloadIdentity
from aether.render.envoy.names import CLUSTER, ENDPOINT, LISTENER
from aether.render.nft import CAPTURE_NAME, ROUTING_NAME

PORTS = "53=udp"
POD = local_pod("cart-1", "10.244.1.2", ports=PORTS)
LIMIT_S = 20.0


class Plane:
    """The control plane's end of the channel: what this node is told, and what it said."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._authority = authority
        self._told: Latest[NodeFacts] = Latest()
        self.reports: list[NodeReport] = []

    def tell(self, *pods: LocalPod, health: Health = Health.HEALTHY) -> None:
        """Facts with these pods, their rows as an earlier life reported them, and a raw-TCP service elsewhere."""
        rows = [row("shop/cart", PORTS, address=pod.addresses[0], health=health) for pod in pods]
        facts = node_facts(
            pods=pods,
            rows=[*rows, row("shop/db", "9000=tcp", address="10.244.2.9")],
            services=(generated("shop/db", "10.96.0.7", ports="9000=tcp"),),
        )
        self._told.set(msgspec.structs.replace(facts, ca_pem=self._authority.bundle_pem()))

    async def facts(self, node: str) -> AsyncGenerator[NodeFacts, None]:
        assert node == "n1"
        async for facts in self._told.values():
            yield facts

    def on_report(self, report: NodeReport) -> None:
        self.reports.append(report)

    def sign(self, request: SignRequest) -> SignReply:
        identity = WorkloadIdentity("aether.internal", request.namespace, request.account)
        chain_pem = self._authority.sign(request.csr_pem, identity)
        return SignReply(chain_pem=chain_pem, ca_pem=self._authority.bundle_pem())

    def health(self) -> list[Health]:
        """Of the pod, report by report, each change once."""
        said = [each.health for report in self.reports for each in report.rows]
        return [health for health, before in zip(said, [None, *said], strict=False) if health is not before]

    @property
    def newest(self) -> NodeReport:
        return self.reports[-1]


class Bench:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.paths = WorldPaths("w", runtime=folder, state=folder / "s")
        self.node = self.paths.node("n1")
        self.node.directory.mkdir(parents=True)
        self.plane = Plane(CertificateAuthority.open(folder / "ca", "aether.internal", clock=self.clock))
        self.rulesets: dict[str, MemoryRuleset] = {}
        self.options = AgentOptions(node="n1", world="w", runtime_root=str(folder), state_root=str(folder / "s"))

    def open_ruleset(self, netns: Path) -> MemoryRuleset:
        self.rulesets[netns.name] = self.rulesets.get(netns.name, MemoryRuleset()).opened_again()
        return self.rulesets[netns.name]

    @property
    def table(self) -> MemoryRuleset:
        """The pod's."""
        return self.rulesets["pod-uid-cart-1"]

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition)

    async def ask(self, target: str) -> Any:
        """One question to the admin socket."""
        status, answer = await asyncio.to_thread(ask, self.node.agent_socket, "GET", target)
        assert status == 200
        return answer

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        """An agent, until it is killed or the block ends."""
        self.node.agent_socket.unlink(missing_ok=True)
        agent = Agent(self.options, self.clock, open_ruleset=self.open_ruleset)
        try:
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                running = group.create_task(agent.run())
                await self.until(self.node.agent_socket.exists)
                yield agent
                running.cancel()
        finally:
            await agent.close()

    @asynccontextmanager
    async def proxy(self) -> AsyncIterator[AdsClient]:
        """An Envoy that takes what it is told of clusters and listeners."""
        async with ads_client(self.node.ads_socket) as client, asyncio.TaskGroup() as group:
            for type_url in (CLUSTER, ENDPOINT, LISTENER):
                await client.say(type_url, "*")
            acknowledging = group.create_task(_acknowledge(client))
            yield client
            acknowledging.cancel()


async def _acknowledge(client: AdsClient) -> None:
    while True:
        response = await client.hear(limit_s=None)
        await client.say(response.type_url, nonce=response.nonce)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="aether-") as folder:  # a socket's path has 107 bytes
        bench = Bench(Path(folder))
        server = NodeServer(bench.paths.node_socket, bench.plane)
        await server.start()
        yield bench
        await server.stop()


async def test_facts_reach_everything_that_a_node_has(bench: Bench) -> None:
    bench.plane.tell(POD)
    async with bench.agent(), bench.proxy():
        await bench.until(lambda: bench.plane.reports and bench.plane.newest.captured == ("uid-cart-1",))
        assert "10.96.0.7 . 9000" in bench.table.elements(CAPTURE_NAME, "raw4")
        assert bench.rulesets["node-n1"].has_table("inet", ROUTING_NAME)
        assert b"db.shop.aether.internal" in bench.node.zone.read_bytes()
        assert {row.pod for row in bench.plane.newest.rows} == {"cart-1"}
        status = await bench.ask("/status")
        assert status["resources"] > status["acknowledged"] > 0, "nobody subscribed to tables and secrets"
    assert bench.table.is_closed


async def test_a_pod_that_comes_and_goes_is_followed(bench: Bench) -> None:
    bench.plane.tell()
    async with bench.agent(), bench.proxy():
        await bench.until(lambda: bench.plane.reports)
        bench.plane.tell(POD)
        await bench.until(lambda: bench.plane.newest.captured == ("uid-cart-1",))
        bench.plane.tell()
        await bench.until(lambda: bench.plane.newest.captured == ())
        assert bench.table.is_closed


async def test_without_a_proxy_nothing_is_captured_and_no_healthy_pod_is_taken_back(bench: Bench) -> None:
    bench.plane.tell(POD)
    async with bench.agent():
        await bench.until(lambda: bench.plane.reports)
        assert bench.plane.newest.captured == ()
        assert bench.plane.health() == [Health.HEALTHY]


async def test_an_agent_that_starts_again_reports_nothing_before_it_knows(bench: Bench) -> None:
    bench.plane.tell(POD)
    async with bench.agent(), bench.proxy():
        await bench.until(lambda: bench.plane.reports and bench.plane.newest.captured)
    bench.plane.reports.clear()
    async with bench.agent(), bench.proxy():
        await bench.until(lambda: bench.plane.reports and bench.plane.newest.captured)
    assert bench.plane.health() == [Health.HEALTHY]
    assert all(report.rows for report in bench.plane.reports)


async def test_a_capture_table_that_is_gone_makes_its_pod_unready_until_it_is_there_again(bench: Bench) -> None:
    bench.plane.tell(POD)
    async with bench.agent(), bench.proxy():
        await bench.until(lambda: bench.plane.reports and bench.plane.newest.captured)
        bench.table.lose(CAPTURE_NAME)
        bench.clock.advance(TABLES_EVERY_S)
        await bench.until(lambda: bench.plane.health() == [Health.HEALTHY, Health.UNHEALTHY, Health.HEALTHY])
        assert bench.table.has_table("inet", CAPTURE_NAME)
        assert bench.plane.newest.captured == ("uid-cart-1",)


async def test_what_was_refused_is_reported_when_it_was_logged(bench: Bench) -> None:
    bench.plane.tell(POD)
    async with bench.agent():
        await bench.until(lambda: bench.plane.reports)
        line = {"error": "port-mismatch", "authority": "db.shop:9000", "namespace": "shop"}
        bench.node.access_log.write_bytes(msgspec.json.encode(line) + b"\n")
        bench.clock.advance(REFUSALS_EVERY_S)
        await bench.until(lambda: bench.plane.newest.refusals)
        assert [each.reason for each in bench.plane.newest.refusals] == ["port-mismatch"]
