"""The node channel over a real socket: levels both ways, refusals in words, and a control plane that goes away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aether.adapters.clock import SystemClock
from aether.adapters.latest import Latest
from aether.adapters.rpc.node import ChannelFailed, NodeClient, NodeServer, SignReply, SignRequest
from aether.errors import AetherError
from aether.model.facts import MeshConfig, NodeFacts, NodeReport

LIMIT_S = 10.0


class Plane:
    """A control plane in memory."""

    def __init__(self) -> None:
        self.latest: Latest[NodeFacts] = Latest(facts("a"))
        self.reports: asyncio.Queue[NodeReport] = asyncio.Queue()

    async def facts(self, node: str) -> AsyncIterator[NodeFacts]:
        assert node == "n1"
        async for value in self.latest.values():
            yield value

    def on_report(self, report: NodeReport) -> None:
        self.reports.put_nowait(report)

    def sign(self, request: SignRequest) -> SignReply:
        if request.account != "cart":
            raise AetherError("not yours")
        return SignReply(chain_pem=b"chain of " + request.csr_pem, ca_pem=b"roots")


def facts(namespace: str) -> NodeFacts:
    return NodeFacts(node="n1", node_addresses=("10.243.0.1",), config=MeshConfig(), namespaces=(namespace,))


def request(account: str) -> SignRequest:
    return SignRequest(node="n1", namespace="shop", account=account, csr_pem=b"csr")


async def test_facts_and_reports_travel_and_a_new_control_plane_is_found_again(tmp_path: Path) -> None:
    plane, got = Plane(), asyncio.Queue[NodeFacts]()
    server = NodeServer(tmp_path / "s", plane)
    await server.start()
    client = NodeClient(tmp_path / "s", "n1", clock=SystemClock())
    client.reports.set(NodeReport(node="n1", captured=("u1",)))
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        running = group.create_task(client.run(got.put_nowait))
        assert (await got.get()).namespaces == ("a",)
        assert (await plane.reports.get()).captured == ("u1",)
        plane.latest.set(facts("b"))
        assert (await got.get()).namespaces == ("b",)
        client.reports.set(NodeReport(node="n1", captured=("u1", "u2")))
        assert (await plane.reports.get()).captured == ("u1", "u2")
        await server.stop()
        later = Plane()
        server = NodeServer(tmp_path / "s", later)
        await server.start()
        assert (await got.get()).namespaces == ("a",)
        assert (await later.reports.get()).captured == ("u1", "u2"), "the whole level is said again"
        running.cancel()
    await client.close()
    await server.stop()


async def test_a_signature_is_answered_and_a_refusal_says_why(tmp_path: Path) -> None:
    server = NodeServer(tmp_path / "s", Plane())
    await server.start()
    client = NodeClient(tmp_path / "s", "n1", clock=SystemClock())
    reply = await client.sign(request("cart"))
    assert (reply.chain_pem, reply.ca_pem) == (b"chain of csr", b"roots")
    with pytest.raises(ChannelFailed, match="shop/web: not yours"):
        await client.sign(request("web"))
    await server.stop()
    with pytest.raises(ChannelFailed, match="shop/cart"):
        await client.sign(request("cart"))
    await client.close()
