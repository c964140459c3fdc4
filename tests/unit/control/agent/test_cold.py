"""Names that the proxy asks for on demand: each answered at once, and kept."""

from pathlib import Path

import pytest
from tests.support.agent import MemoryNode
from tests.support.facts import generated, local_pod, node_facts, row

from aether.control.agent.cold import OBSERVED_LIMIT
from aether.render.envoy.names import CLUSTER, ENDPOINT

HTTP_NAME = "db.shop.aether.internal:8080"
RAW_NAME = "tcp|10.96.0.7:9000"
PORTS = "8080 9000=tcp"
FACTS = node_facts(
    pods=(local_pod("cart-1", "10.244.1.2"),),
    services=(generated("shop/db", "10.96.0.7", ports=PORTS),),
    rows=(row("shop/db", PORTS, address="10.244.2.9"),),
)


@pytest.fixture
async def node(tmp_path: Path) -> MemoryNode:
    node = MemoryNode(tmp_path)
    await node.hear(FACTS)
    return node


async def test_before_the_first_plan_a_name_is_refused_so_that_it_is_asked_for_again(tmp_path: Path) -> None:
    node = MemoryNode(tmp_path)
    assert not node.cold.ask(HTTP_NAME)
    assert (node.state.observed, node.proxy.published) == (set(), [])


@pytest.mark.parametrize("name", [HTTP_NAME, RAW_NAME])
async def test_a_mesh_name_is_answered_at_once_with_its_cluster_and_endpoints(node: MemoryNode, name: str) -> None:
    before = node.proxy.newest
    node.asks(name)
    assert node.owners(name)[-1] == "shop/sa/db"
    assert b"10.244.2.9" in node.proxy.newest[ENDPOINT][name].body
    assert node.proxy.newest[CLUSTER].items() > before[CLUSTER].items(), "everything else stays"
    assert node.proxy.newest == node.state.snapshot


@pytest.mark.parametrize("name", ["tcp|10.96.0.7:1", "ghost.shop.aether.internal:80", "whatever it is"])
async def test_a_name_that_is_nobodys_is_answered_with_a_tombstone(node: MemoryNode, name: str) -> None:
    node.asks(name)
    assert name in node.proxy.newest[CLUSTER]
    assert node.owners(name)[-1] == ""
    assert name not in node.proxy.newest[ENDPOINT]


async def test_a_tombstone_becomes_the_service_that_comes_to_own_its_name(node: MemoryNode) -> None:
    name = "late.shop.aether.internal:8080"
    node.asks(name)
    await node.hear(node_facts(pods=FACTS.pods, rows=(row("shop/late"),)))
    assert node.owners(name)[-1] == "shop/sa/late"


async def test_an_answer_is_planned_from_the_newest_context(node: MemoryNode) -> None:
    await node.hear(
        node_facts(pods=FACTS.pods, services=FACTS.services, rows=(row("shop/db", PORTS, address="10.244.3.3"),))
    )
    node.asks(RAW_NAME)
    assert b"10.244.3.3" in node.proxy.newest[ENDPOINT][RAW_NAME].body


async def test_names_beyond_the_limit_are_refused_and_those_known_are_answered(node: MemoryNode) -> None:
    node.cold.restore(f"tcp|192.0.2.1:{number}" for number in range(1, OBSERVED_LIMIT))
    node.asks(RAW_NAME)
    before = len(node.proxy.published)
    assert not node.cold.ask("tcp|192.0.2.2:80")
    assert len(node.state.observed) == OBSERVED_LIMIT
    assert len(node.proxy.published) == before
    node.asks(RAW_NAME)


async def test_it_tells_and_counts_each_answer(node: MemoryNode) -> None:
    changes: list[int] = []
    node.state.on_change(lambda: changes.append(node.state.misses))
    node.asks(HTTP_NAME)
    node.asks(RAW_NAME)
    assert changes == [1, 2]


async def test_what_was_asked_for_outlives_the_agent(node: MemoryNode) -> None:
    node.asks(RAW_NAME)
    node.asks("tcp|192.0.2.1:80")
    again = node.restarted()
    again.cold.load()
    await again.hear(FACTS)
    assert again.state.observed == {RAW_NAME, "tcp|192.0.2.1:80"}
    assert again.proxy.published[0][CLUSTER].keys() >= again.state.observed


async def test_so_does_what_the_proxy_itself_says_it_asked_for(node: MemoryNode) -> None:
    node.cold.restore([RAW_NAME])
    await node.mesh.step()
    assert node.owners(RAW_NAME)[-1] == "shop/sa/db"
    again = node.restarted()
    again.cold.load()
    assert again.state.observed == {RAW_NAME}


@pytest.mark.parametrize("data", [b"", b"{", b'{"names": []}', b"\xff"])
async def test_a_file_that_cannot_be_read_counts_as_empty(node: MemoryNode, data: bytes) -> None:
    (node.folder / "observed.json").write_bytes(data)
    node.cold.load()
    node.asks(RAW_NAME)
    again = node.restarted()
    again.cold.load()
    assert again.state.observed == {RAW_NAME}


async def test_a_name_that_cannot_be_saved_is_answered_all_the_same(node: MemoryNode) -> None:
    (node.folder / "observed.new").mkdir()
    node.asks(RAW_NAME)
    assert node.owners(RAW_NAME)[-1] == "shop/sa/db"
