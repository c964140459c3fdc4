"""What the loops of one agent share."""

from pathlib import Path

from tests.support.agent import MemoryNode
from tests.support.facts import generated, local_pod, node_facts, row

from aether.control.agent.state import AgentState
from aether.plan.mesh.node import MeshCluster, Tombstone


def test_everybody_who_wants_to_hear_of_changes_does() -> None:
    state, heard = AgentState("n1"), list[str]()
    state.on_change(lambda: heard.append("zone"))
    state.on_change(lambda: heard.append("report"))
    state.changed()
    assert heard == ["zone", "report"]


def test_before_the_first_plan_no_name_stands_for_anything() -> None:
    state = AgentState("n1")
    state.observed.add("tcp|10.96.0.7:9000")
    assert state.clusters() == ()


async def test_clusters_are_those_of_the_plan_and_those_answered_since(tmp_path: Path) -> None:
    node = MemoryNode(tmp_path)
    await node.hear(
        node_facts(
            pods=(local_pod("cart-1", "10.244.1.2", upstreams="db"),),
            services=(generated("shop/db", "10.96.0.7", ports="8080 9000=tcp"),),
            rows=(row("shop/db", "8080 9000=tcp"),),
        )
    )
    assert node.state.plan is not None
    assert node.state.clusters() == node.state.plan.clusters
    node.asks("ghost.shop.aether.internal:80")
    node.asks("tcp|[fd96::7]:9000")
    answered = node.state.clusters()[len(node.state.plan.clusters) :]
    assert answered[0] == Tombstone(name="ghost.shop.aether.internal:80")
    assert {one.name for one in node.state.clusters() if isinstance(one, MeshCluster)} == {
        "db.shop.aether.internal:8080",
        "tcp|10.96.0.7:9000",
    }
