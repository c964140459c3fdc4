"""The zone file of a node's DNS, as the agent writes it."""

from pathlib import Path

import msgspec
import pytest
from tests.support.facts import generated, node_facts, row

from aether.adapters.dns import ZoneNotWritten
from aether.control.agent.names import ZoneLoop
from aether.control.agent.state import AgentState
from aether.model.facts import NodeFacts
from aether.plan.mesh.clusters import plan_context
from aether.plan.mesh.dns import Zone
from aether.plan.mesh.node import plan_node_in

CART = node_facts(services=(generated("shop/cart", "10.96.0.5", ports="8080"),), rows=(row("shop/cart"),))
NOBODY = node_facts()


class Node:
    def __init__(self, folder: Path) -> None:
        self.state = AgentState("n1")
        self.path = folder / "dns.json"
        self.zone = ZoneLoop(self.state, zone=self.path, reload=folder / "dns.sock")

    def know(self, facts: NodeFacts) -> None:
        context = plan_context(facts)
        self.state.accept(context, plan_node_in(context, observed=frozenset()), {})

    def names(self) -> set[str]:
        return {name.name for name in msgspec.json.decode(self.path.read_bytes(), type=Zone).names}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_before_the_first_plan_the_last_zone_stays(node: Node) -> None:
    node.path.write_bytes(b"an earlier life's")
    await node.zone.step()
    assert node.path.read_bytes() == b"an earlier life's"


async def test_the_file_has_what_the_plan_has(node: Node) -> None:
    node.know(CART)
    await node.zone.step()
    assert "cart.shop.aether.internal" in node.names()
    node.know(NOBODY)
    await node.zone.step()
    assert "cart.shop.aether.internal" not in node.names()


async def test_a_zone_that_did_not_change_is_not_written_again(node: Node) -> None:
    node.know(CART)
    await node.zone.step()
    node.path.unlink()
    node.know(CART)
    await node.zone.step()
    assert not node.path.exists()


async def test_a_zone_that_could_not_be_written_is_written_at_the_next_step(node: Node) -> None:
    node.know(CART)
    node.path.mkdir()
    with pytest.raises(ZoneNotWritten):
        await node.zone.step()
    assert node.zone.written is None
    node.path.rmdir()
    await node.zone.step()
    assert "cart.shop.aether.internal" in node.names()
