"""Capture and service routing of a node, on rulesets in memory: what is applied, remembered and made again."""

import errno
from pathlib import Path

import msgspec
import pytest
from tests.support.facts import generated, local_pod, node_facts, row, user_service
from tests.support.ruleset import MemoryRuleset

from aether.adapters.kernel.nft import NftRefused
from aether.adapters.kernel.syscall import KernelError
from aether.control.agent.capture import NodeCapture, NodeRouting
from aether.model.facts import LocalPod, NodeFacts, ServiceEndpoint
from aether.model.ports import Transport
from aether.plan.mesh.node import plan_node
from aether.render.nft import CAPTURE_NAME, ROUTING_NAME

CART = local_pod("cart-1", "10.244.1.2")
WEB = local_pod("web-1", "10.244.1.3", account="web")
PLAIN = local_pod("plain-1", "10.244.1.4", managed="false")


def facts(*pods: LocalPod, db: str = "10.96.0.7") -> NodeFacts:
    """The pods, and a raw-TCP service elsewhere at the given address."""
    return node_facts(
        pods=pods,
        services=(generated("shop/db", db, ports="9000=tcp"),),
        rows=(row("shop/db", "9000=tcp", address="10.244.2.9"),),
    )


class Kernel:
    """The rulesets that were opened, by pod."""

    def __init__(self) -> None:
        self.rulesets: dict[str, MemoryRuleset] = {}
        self.unreachable: set[str] = set()
        self.capture = NodeCapture(self.open)

    def open(self, netns: Path) -> MemoryRuleset:
        pod = netns.name.removeprefix("pod-uid-")
        if pod in self.unreachable:
            raise KernelError(f"setns({netns})", errno.ENOENT)
        self.rulesets[pod] = MemoryRuleset()
        return self.rulesets[pod]

    async def settle(self, facts: NodeFacts) -> frozenset[str]:
        return await self.capture.settle(plan_node(facts, observed=frozenset()), facts)

    async def widen(self, facts: NodeFacts) -> None:
        await self.capture.widen(plan_node(facts, observed=frozenset()), facts)

    def raw(self, pod: str) -> frozenset[str]:
        return self.rulesets[pod].elements(CAPTURE_NAME, "raw4")


@pytest.fixture
def kernel() -> Kernel:
    return Kernel()


async def test_every_pod_of_the_mesh_has_its_table_and_no_other_pod_has(kernel: Kernel) -> None:
    assert await kernel.settle(facts(CART, WEB, PLAIN)) == {"uid-cart-1", "uid-web-1"}
    assert kernel.rulesets.keys() == {"cart-1", "web-1"}
    assert kernel.raw("cart-1") == {"10.96.0.7 . 9000", "10.244.2.9 . 9000"}


async def test_the_same_plan_again_applies_nothing(kernel: Kernel) -> None:
    await kernel.settle(facts(CART))
    await kernel.widen(facts(CART))
    await kernel.settle(facts(CART))
    assert len(kernel.rulesets["cart-1"].texts) == 1


async def test_widening_adds_and_takes_nothing_away(kernel: Kernel) -> None:
    await kernel.settle(facts(CART))
    await kernel.widen(facts(CART, db="10.96.0.8"))
    assert kernel.raw("cart-1") >= {"10.96.0.7 . 9000", "10.96.0.8 . 9000"}
    await kernel.settle(facts(CART, db="10.96.0.8"))
    assert kernel.raw("cart-1") == {"10.96.0.8 . 9000", "10.244.2.9 . 9000"}


async def test_a_change_of_elements_leaves_the_rules_alone(kernel: Kernel) -> None:
    await kernel.settle(facts(CART))
    await kernel.settle(facts(CART, db="10.96.0.8"))
    assert "chain" not in kernel.rulesets["cart-1"].texts[-1]


async def test_an_edit_that_is_refused_is_followed_by_a_whole_table(kernel: Kernel) -> None:
    await kernel.settle(facts(CART))
    kernel.rulesets["cart-1"].refuses = lambda text: "element inet" in text
    assert await kernel.settle(facts(CART, db="10.96.0.8")) == {"uid-cart-1"}
    assert kernel.raw("cart-1") == {"10.96.0.8 . 9000", "10.244.2.9 . 9000"}
    assert kernel.capture.problems() == ()


async def test_a_table_that_cannot_be_applied_is_said_and_tried_again_and_holds_up_nobody(kernel: Kernel) -> None:
    await kernel.settle(facts(CART, WEB))
    kernel.rulesets["web-1"].refuses = bool
    assert await kernel.settle(facts(CART, WEB, db="10.96.0.8")) == {"uid-cart-1"}
    assert kernel.capture.plan_of("uid-web-1") is None
    [problem] = kernel.capture.problems()
    assert (problem.code, problem.subject) == ("capture-failed", "pod uid-web-1")
    kernel.rulesets["web-1"].refuses = lambda _: False
    assert await kernel.settle(facts(CART, WEB, db="10.96.0.8")) == {"uid-cart-1", "uid-web-1"}
    assert kernel.capture.problems() == ()
    assert kernel.raw("web-1") == kernel.raw("cart-1")


async def test_a_namespace_that_cannot_be_entered_is_a_problem_of_its_pod_alone(kernel: Kernel) -> None:
    kernel.unreachable.add("web-1")
    assert await kernel.settle(facts(CART, WEB)) == {"uid-cart-1"}
    assert [problem.subject for problem in kernel.capture.problems()] == ["pod uid-web-1"]
    await kernel.settle(facts(CART))
    assert kernel.capture.problems() == (), "a pod that is gone has no problems"


async def test_a_pod_whose_annotations_are_refused_is_captured_whole(kernel: Kernel) -> None:
    bad = local_pod("bad-1", "10.244.1.5", ports="x", redirect_all="false")
    assert await kernel.settle(facts(bad)) == {"uid-bad-1"}
    plan = kernel.capture.plan_of("uid-bad-1")
    assert plan is not None
    assert plan.captures_all


async def test_a_table_that_somebody_took_away_is_missed_once_and_made_again(kernel: Kernel) -> None:
    await kernel.settle(facts(CART, WEB))
    assert await kernel.capture.missing() == frozenset()
    kernel.rulesets["web-1"].lose(CAPTURE_NAME)
    assert await kernel.capture.missing() == {"uid-web-1"}
    assert kernel.capture.plan_of("uid-web-1") is None
    await kernel.settle(facts(CART, WEB))
    assert await kernel.capture.missing() == frozenset()
    assert kernel.raw("web-1") == kernel.raw("cart-1")


async def test_the_ruleset_of_a_pod_that_is_gone_is_closed_and_so_are_all_at_the_end(kernel: Kernel) -> None:
    await kernel.settle(facts(CART, WEB))
    await kernel.settle(facts(CART))
    assert kernel.rulesets["web-1"].is_closed
    assert not kernel.rulesets["cart-1"].is_closed
    kernel.capture.close()
    assert kernel.rulesets["cart-1"].is_closed
    assert kernel.capture.plan_of("uid-cart-1") is None


def routed(*backends: str, transport: Transport = Transport.TCP) -> NodeFacts:
    """A user's Service at 10.96.0.9:80 with these ready pods behind it."""
    ports = ((80, transport, 8080),)
    service = msgspec.structs.replace(
        user_service("shop/legacy", "10.96.0.9", ports=f"80:8080/{transport}"),
        endpoints=tuple(ServiceEndpoint(addresses=(each,), is_ready=True, ports=ports) for each in backends),
    )
    return node_facts(services=(service,))


@pytest.fixture
def table() -> MemoryRuleset:
    return MemoryRuleset()


@pytest.fixture
def routing(table: MemoryRuleset, tmp_path: Path) -> NodeRouting:
    return NodeRouting(tmp_path / "no-such-namespace", ruleset=table)


async def test_routes_are_applied_and_changed_by_element(routing: NodeRouting, table: MemoryRuleset) -> None:
    await routing.apply(routed("10.244.1.9"))
    assert "10.96.0.9 . tcp . 80 . 0 : 10.244.1.9 . 8080" in table.elements(ROUTING_NAME, "backends4")
    await routing.apply(routed("10.244.1.8"))
    assert "10.96.0.9 . tcp . 80 . 0 : 10.244.1.8 . 8080" in table.elements(ROUTING_NAME, "backends4")
    assert f"table inet {ROUTING_NAME} {{" not in table.texts[-1]


async def test_the_same_routes_again_apply_nothing(routing: NodeRouting, table: MemoryRuleset) -> None:
    await routing.apply(routed("10.244.1.9"))
    await routing.apply(routed("10.244.1.9"))
    assert len(table.texts) == 1


async def test_a_refused_edit_of_routes_is_followed_by_a_whole_table(
    routing: NodeRouting, table: MemoryRuleset
) -> None:
    await routing.apply(routed("10.244.1.9"))
    table.refuses = lambda text: "element inet" in text
    await routing.apply(routed("10.244.1.8"))
    assert "10.96.0.9 . tcp . 80 . 0 : 10.244.1.8 . 8080" in table.elements(ROUTING_NAME, "backends4")


async def test_a_table_of_routes_that_was_refused_is_applied_at_the_next_step(
    routing: NodeRouting, table: MemoryRuleset
) -> None:
    table.refuses = bool
    with pytest.raises(NftRefused):
        await routing.apply(routed("10.244.1.9"))
    table.refuses = lambda _: False
    await routing.apply(routed("10.244.1.9"))
    assert table.has_table("inet", ROUTING_NAME)


async def test_flows_that_could_not_be_deleted_are_not_forgotten(routing: NodeRouting, table: MemoryRuleset) -> None:
    await routing.apply(routed("10.244.1.9", transport=Transport.UDP))
    for _ in range(2):
        with pytest.raises(KernelError):
            await routing.apply(routed("10.244.1.8", transport=Transport.UDP))
    assert len(table.texts) == 2, "the table itself was changed, once"


def test_the_ruleset_of_the_node_is_closed_at_the_end(routing: NodeRouting, table: MemoryRuleset) -> None:
    routing.close()
    assert table.is_closed
