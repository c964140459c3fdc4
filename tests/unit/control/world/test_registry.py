import pytest
from tests.support.facts import row

from aether.control.world.registry import EmbeddedRegistry
from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import NodeReport

ONE = row("shop/cart", address="10.244.1.2")
TWO = row("shop/bank", address="10.244.1.3")


def report(*rows: EndpointRow, node: str = "n1") -> NodeReport:
    return NodeReport(node=node, rows=rows)


def test_a_report_is_the_whole_truth_of_its_node() -> None:
    registry = EmbeddedRegistry()
    registry.report(report(ONE, TWO))
    assert registry.rows() == (TWO, ONE)
    registry.report(report(ONE))
    assert registry.rows() == (ONE,)
    registry.report(report())
    assert registry.rows() == ()


def test_a_report_says_nothing_of_other_nodes() -> None:
    registry = EmbeddedRegistry()
    registry.report(report(ONE))
    registry.report(report(node="n2"))
    assert registry.rows() == (ONE,)
    assert registry.rows_by_node() == {"n1": (ONE,)}


def test_a_node_that_leaves_takes_its_rows_along() -> None:
    registry = EmbeddedRegistry()
    registry.report(report(ONE))
    registry.forget("n1")
    assert registry.rows() == ()
    assert registry.rows_by_node() == {}


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (row("shop/cart", ""), "n1: Pod shop/cart-2: ports: the endpoint is not served: it names no port"),
        (
            row("shop/cart", "80=http 80=tcp"),
            "n1: Pod shop/cart-2: ports: the endpoint is not served: port 80 stands twice for tcp",
        ),
    ],
)
def test_a_row_that_does_not_hold_is_refused_alone(bad: EndpointRow, expected: str) -> None:
    registry = EmbeddedRegistry()
    assert [str(problem) for problem in registry.report(report(bad, TWO))] == [expected]
    assert registry.rows() == (TWO,)
    assert [str(problem) for problem in registry.problems()] == [expected]
    registry.report(report(TWO))
    assert registry.problems() == ()


def test_a_node_speaks_for_itself_only() -> None:
    registry = EmbeddedRegistry()
    (problem,) = registry.report(report(ONE, node="n2"))
    assert str(problem) == "n2: Pod shop/cart-2: node: the endpoint is not served: node 'n2' reported it as 'n1''s"
    assert registry.rows() == ()


def test_subscribers_are_woken_by_changes_only() -> None:
    registry = EmbeddedRegistry()
    woken: list[int] = []
    cancel = registry.subscribe(lambda: woken.append(registry.revision))
    registry.report(report(ONE, TWO))
    registry.report(report(TWO, ONE))
    registry.report(report(row("shop/cart", health=Health.DRAINING), TWO))
    cancel()
    registry.report(report())
    assert woken == [1, 2]
