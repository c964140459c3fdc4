"""What an agent says of its node."""

from pathlib import Path

import msgspec
import pytest
from tests.support.agent import MemoryNode
from tests.support.facts import local_pod, node_facts

from aether.control.agent.report import Reporter
from aether.errors import Diagnostic
from aether.model.endpoint import Health
from aether.model.facts import LocalPod, Refusals, Rejection

CART = local_pod("cart-1", "10.244.1.2", ports="8080")
WEB = local_pod("web-1", "10.244.1.3", account="web", ports="80")
BAD = local_pod("bad-1", "10.244.1.4", ports="x")
REJECTION = Rejection(type_url="type/Cluster", name="c", text="no")
REFUSAL = Refusals("cart", "port-mismatch", 3)
PROBLEM = Diagnostic(code="capture-failed", message="no", subject="pod uid-cart-1")


class Said:
    """A node and what its loops found besides."""

    def __init__(self, folder: Path) -> None:
        self.node = MemoryNode(folder)
        self.problems: tuple[Diagnostic, ...] = ()
        self.refusals: tuple[Refusals, ...] = ()
        self.reporter = Reporter(
            self.node.state,
            rejections=self.node.proxy.rejections,
            refusals=lambda: self.refusals,
            problems=lambda: self.problems,
        )

    async def hear(self, *pods: LocalPod) -> None:
        await self.node.hear(node_facts(pods=pods))

    def health(self) -> dict[str, Health]:
        report = self.reporter.report()
        assert report is not None
        return {row.pod: row.health for row in report.rows}


@pytest.fixture
def said(tmp_path: Path) -> Said:
    return Said(tmp_path)


async def test_an_agent_that_knows_nothing_yet_takes_nothing_back(said: Said) -> None:
    assert said.reporter.report() is None
    said.node.state.facts = node_facts(pods=(CART,))
    said.node.state.healthy = frozenset({"uid-cart-1"})
    assert said.reporter.report() is None, "the facts are there, and no plan yet"
    await said.node.mesh.step()
    assert said.health() == {"cart-1": Health.HEALTHY}


async def test_each_served_pod_has_a_row_with_its_health(said: Said) -> None:
    await said.hear(CART, msgspec.structs.replace(WEB, is_terminating=True))
    assert said.health() == {"cart-1": Health.UNHEALTHY, "web-1": Health.DRAINING}
    said.node.state.healthy = frozenset({"uid-cart-1", "uid-web-1"})
    assert said.health() == {"cart-1": Health.HEALTHY, "web-1": Health.DRAINING}


async def test_a_pod_whose_table_is_gone_is_unhealthy_until_it_is_back(said: Said) -> None:
    await said.hear(CART, WEB)
    state = said.node.state
    state.healthy = frozenset({"uid-cart-1", "uid-web-1"})
    said.node.rulesets["uid-web-1"].lose("aether_capture")
    state.bare = await said.node.capture.missing()
    assert said.health() == {"cart-1": Health.HEALTHY, "web-1": Health.UNHEALTHY}
    await said.node.mesh.step()
    assert said.health() == {"cart-1": Health.HEALTHY, "web-1": Health.HEALTHY}
    assert said.node.rulesets["uid-web-1"].has_table("inet", "aether_capture")


async def test_a_pod_whose_declaration_is_refused_has_a_problem_and_no_row(said: Said) -> None:
    await said.hear(CART, BAD)
    said.problems = (PROBLEM,)
    report = said.reporter.report()
    assert report is not None
    assert [row.pod for row in report.rows] == ["cart-1"]
    assert [problem.code for problem in report.problems] == ["bad-port", "capture-failed"]


async def test_a_report_says_everything_that_was_found(said: Said) -> None:
    await said.hear(CART)
    said.node.asks("tcp|192.0.2.1:80")
    said.node.proxy.refused, said.refusals, said.node.state.is_proxy_live = (REJECTION,), (REFUSAL,), True
    report = said.reporter.report()
    assert report is not None
    assert (report.node, report.captured, report.is_proxy_live) == ("n1", ("uid-cart-1",), True)
    assert (report.rejections, report.refusals, report.observed) == ((REJECTION,), (REFUSAL,), ("tcp|192.0.2.1:80",))


async def test_a_report_is_the_state_now_and_the_same_state_is_the_same_report(said: Said) -> None:
    await said.hear(CART)
    first = said.reporter.report()
    await said.node.mesh.step()
    assert said.reporter.report() == first
    await said.hear()
    last = said.reporter.report()
    assert last is not None
    assert (last.captured, last.rows) == ((), ()), "what is gone is not in it"
