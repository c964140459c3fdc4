"""The mesh loop: the order of one step, what waits for what, and when it looks again."""

from pathlib import Path

import msgspec
import pytest
from tests.support.agent import MemoryNode, nothing
from tests.support.facts import generated, local_pod, node_facts, row

from aether.control.agent.identity import RENEW_AGAIN_S
from aether.control.agent.mesh import LOOK_AGAIN_S
from aether.model.facts import NodeFacts
from aether.model.settings import RetainSettings
from aether.render.envoy.names import (
    CA_SECRET,
    CAPTURE_TABLE,
    CLUSTER,
    ENDPOINT,
    LISTENER,
    NODE_SECRET,
    ROUTE,
    SECRET,
    inbound_listener,
)

CART = local_pod("cart-1", "10.244.1.2")
WEB = local_pod("web-1", "10.244.1.3", account="web")
PLAIN = local_pod("plain-1", "10.244.1.4", managed="false")

RAW = "10.96.0.7 . 9000"
"""The element of a pod's capture table for the raw-TCP port of `db`."""
RAW_NAME = "tcp|10.96.0.7:9000"


def with_db(*, address: str = "10.96.0.7", owner: str = "shop/db", ports: str = "9000=tcp") -> NodeFacts:
    """The pod `cart-1` here, and elsewhere the raw-TCP service `db`."""
    return node_facts(
        pods=(CART,),
        services=(generated(owner, address, ports=ports),),
        rows=(row(owner, ports, address="10.244.2.9"),),
    )


@pytest.fixture
def node(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


async def test_before_the_first_facts_a_step_touches_nothing(node: MemoryNode) -> None:
    assert await node.mesh.step() is None
    assert (node.journal, node.state.plan) == ([], None)


async def test_a_step_publishes_everything_that_a_node_needs(node: MemoryNode) -> None:
    await node.hear(with_db())
    assert inbound_listener("uid-cart-1") in node.proxy.newest[LISTENER]
    assert CAPTURE_TABLE in node.proxy.newest[ROUTE]
    assert node.proxy.newest[SECRET].keys() == {CA_SECRET, NODE_SECRET, "in/shop/cart-1", "out/shop/cart"}
    assert node.proxy.newest == node.state.snapshot


async def test_what_capture_needs_of_a_new_port_is_there_before_the_port_is_in_the_tables(node: MemoryNode) -> None:
    await node.hear(node_facts(pods=(CART,)))
    node.journal.clear()
    await node.hear(with_db())
    assert node.journal == ["kernel uid-cart-1", "publish"]
    assert RAW in node.kernel("raw4", pod="cart-1")


async def test_what_capture_needs_of_a_port_leaves_after_the_port_left_the_tables(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.journal.clear()
    await node.hear(with_db(ports="9000=http"))
    assert node.journal == ["publish", "kernel uid-cart-1"]
    assert RAW not in node.kernel("raw4", pod="cart-1")


async def test_a_port_that_moves_is_in_both_places_while_the_tables_change(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.journal.clear()
    await node.hear(with_db(address="10.96.0.8"))
    assert node.journal == ["kernel uid-cart-1", "publish", "kernel uid-cart-1"]
    assert node.kernel("raw4", pod="cart-1") == {"10.96.0.8 . 9000", "10.244.2.9 . 9000"}


async def test_a_step_that_finds_nothing_new_leaves_the_kernel_alone_and_says_the_same_again(node: MemoryNode) -> None:
    await node.hear(with_db())
    before = node.proxy.newest
    node.journal.clear()
    await node.mesh.step()
    assert node.journal == ["publish"]
    assert node.proxy.newest == before


async def test_a_pod_is_captured_once_its_table_is_applied_and_its_listeners_are_taken(node: MemoryNode) -> None:
    node.proxy.takes = nothing
    await node.hear(with_db())
    assert node.state.captured == frozenset()
    node.proxy.takes = lambda type_url, name: (type_url, name) == (LISTENER, inbound_listener("uid-cart-1"))
    await node.mesh.step()
    assert node.state.captured == {"uid-cart-1"}


async def test_one_pods_listener_that_is_not_taken_holds_up_no_other_pod(node: MemoryNode) -> None:
    node.proxy.takes = lambda _, name: "uid-web-1" not in name
    await node.hear(node_facts(pods=(CART, WEB)))
    assert node.state.captured == {"uid-cart-1"}


async def test_a_pod_whose_table_cannot_be_applied_is_not_captured_and_its_neighbour_is(node: MemoryNode) -> None:
    await node.hear(node_facts(pods=(CART, WEB)))
    node.rulesets["uid-web-1"].refuses = bool
    await node.hear(msgspec.structs.replace(with_db(), pods=(CART, WEB)))
    assert node.state.captured == {"uid-cart-1"}
    assert [problem.subject for problem in node.capture.problems()] == ["pod uid-web-1"]


async def test_nothing_has_to_be_in_place_for_a_pod_that_is_not_in_the_mesh(node: MemoryNode) -> None:
    node.proxy.takes = nothing
    await node.hear(node_facts(pods=(CART, PLAIN)))
    assert node.state.captured == {"uid-plain-1"}
    assert node.rulesets.keys() == {"uid-cart-1"}


async def test_it_looks_again_soon_and_then_less_often_until_everything_is_taken(node: MemoryNode) -> None:
    first_s, limit_s = LOOK_AGAIN_S
    node.proxy.takes = nothing
    waits = [await node.hear(with_db())] + [await node.mesh.step() for _ in range(7)]
    assert waits[:3] == [first_s, first_s * 2, first_s * 4]
    assert waits[-2:] == [limit_s, limit_s]


async def test_once_everything_was_taken_it_looks_soon_again_at_what_is_missing_next(node: MemoryNode) -> None:
    node.proxy.takes = nothing
    await node.hear(with_db())
    await node.mesh.step()
    taking, node.proxy.takes = node.proxy.takes, lambda *_: True
    await node.mesh.step()
    node.proxy.takes = taking
    assert await node.mesh.step() == LOOK_AGAIN_S[0]


async def test_with_everything_in_place_it_looks_again_when_the_first_leaf_is_due(node: MemoryNode) -> None:
    wait_s = await node.hear(with_db())
    assert wait_s is not None
    assert wait_s > RENEW_AGAIN_S
    node.clock.advance(wait_s)
    before, secret = len(node.signing.signed), node.proxy.newest[SECRET]["out/shop/cart"]
    await node.mesh.step()
    assert len(node.signing.signed) > before
    assert node.proxy.newest[SECRET]["out/shop/cart"] != secret


async def test_a_name_that_is_asked_on_demand_during_a_step_is_not_lost_by_its_publish(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.signing.on_sign = lambda: node.asks(RAW_NAME)
    await node.hear(msgspec.structs.replace(with_db(), pods=(CART, WEB)))
    assert RAW_NAME in node.proxy.newest[CLUSTER]
    assert RAW_NAME in node.proxy.newest[ENDPOINT]


async def test_an_address_that_changes_owner_is_nobodys_before_it_is_the_new_owners(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.asks(RAW_NAME)
    await node.mesh.step()
    await sees_a_tombstone_between(node)


async def test_so_is_an_address_that_was_asked_for_since_the_last_step(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.asks(RAW_NAME)
    await sees_a_tombstone_between(node)


async def test_so_is_an_address_that_was_asked_for_during_the_step_that_learns_of_the_change(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.signing.on_sign = lambda: node.asks(RAW_NAME)
    await node.hear(msgspec.structs.replace(with_db(owner="shop/other"), pods=(CART, WEB)))
    assert node.owners(RAW_NAME)[-3:] == ["shop/sa/db", "", "shop/sa/other"]


async def sees_a_tombstone_between(node: MemoryNode) -> None:
    waited: list[str] = []
    node.proxy.on_wait = lambda: waited.append(node.owners(RAW_NAME)[-1])
    await node.hear(with_db(owner="shop/other"))
    assert waited[0] == "", "the tombstone is waited for before the new owner goes out"
    assert node.owners(RAW_NAME)[-3:] == ["shop/sa/db", "", "shop/sa/other"]


async def test_an_address_that_stays_its_owners_is_published_once(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.asks(RAW_NAME)
    before = len(node.proxy.published)
    await node.hear(with_db())
    assert len(node.proxy.published) == before + 1


async def test_a_service_of_which_nothing_is_known_any_more_is_answered_for_until_its_grace_ends(
    node: MemoryNode,
) -> None:
    await node.hear(with_db())
    gone = node_facts(pods=(CART,))
    await node.hear(gone)
    assert RAW in node.kernel("raw4", pod="cart-1")
    node.clock.advance(RetainSettings().grace_s)
    await node.mesh.step()
    assert RAW not in node.kernel("raw4", pod="cart-1")


async def test_a_certificate_that_cannot_be_had_is_asked_for_again_soon_and_the_rest_goes_on(node: MemoryNode) -> None:
    await node.hear(node_facts(pods=(CART,)))
    node.signing.is_away = True
    assert await node.hear(node_facts(pods=(CART, WEB))) == RENEW_AGAIN_S
    assert "out/shop/cart" in node.proxy.newest[SECRET]
    assert "out/shop/web" not in node.proxy.newest[SECRET]
    assert [problem.code for problem in node.identities.problems] == ["signing-refused"]
    node.signing.is_away = False
    await node.mesh.step()
    assert "out/shop/web" in node.proxy.newest[SECRET]


async def test_an_agent_that_starts_again_publishes_what_its_earlier_life_did(node: MemoryNode) -> None:
    await node.hear(with_db())
    node.asks(RAW_NAME)
    node.asks("tcp|192.0.2.9:80")
    await node.mesh.step()
    again = node.restarted()
    again.cold.load()
    await again.hear(with_db())
    assert again.proxy.newest == node.proxy.newest
    assert again.signing.signed == []
