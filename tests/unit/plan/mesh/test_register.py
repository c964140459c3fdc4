import msgspec
import pytest
from tests.support.facts import declared, local_pod, node_facts

from aether.model.endpoint import EndpointRow, Health, row_problem
from aether.model.names import ServiceId
from aether.plan.mesh.register import plan_rows

POD = local_pod("cart-1", "10.244.1.2", "fd00:244:1::2", ports="8080=h2,9000=tcp,53=udp", weight="7")


def test_a_served_pod_is_one_row_with_every_port_and_class() -> None:
    (row,) = plan_rows(node_facts(pods=[POD]), healthy=frozenset())
    assert row == EndpointRow(
        service=ServiceId("shop", "cart"),
        pod="cart-1",
        node="n1",
        address="10.244.1.2",
        addresses=("10.244.1.2", "fd00:244:1::2"),
        ports=declared("8080 9000=tcp 53=udp"),
        health=Health.UNHEALTHY,
        weight=7,
    )
    assert row_problem(row) is None


@pytest.mark.parametrize(
    ("is_terminating", "healthy", "health"),
    [
        (False, frozenset[str](), Health.UNHEALTHY),
        (False, frozenset({"uid-cart-2"}), Health.UNHEALTHY),
        (False, frozenset({"uid-cart-1"}), Health.HEALTHY),
        (True, frozenset({"uid-cart-1"}), Health.DRAINING),
        (True, frozenset[str](), Health.DRAINING),
    ],
)
def test_a_row_is_promoted_when_its_pod_is_healthy_and_drains_when_it_ends(
    is_terminating: bool, healthy: frozenset[str], health: Health
) -> None:
    pod = msgspec.structs.replace(POD, is_terminating=is_terminating)
    (row,) = plan_rows(node_facts(pods=[pod]), healthy=healthy)
    assert row.health is health


def test_pods_that_are_refused_or_unmanaged_have_no_row() -> None:
    pods = [
        local_pod("bad-port", "10.244.1.3", ports="x"),
        local_pod("bad-account", "10.244.1.4", account="cart.v2"),
        local_pod("no-address"),
        local_pod("unmanaged", "10.244.1.5", managed="false"),
        local_pod("ignored", "10.244.1.6", namespace="kube-system"),
    ]
    assert plan_rows(node_facts(pods=pods), healthy=frozenset()) == ()


def test_rows_are_sorted() -> None:
    pods = [local_pod("b", "10.244.1.2", account="pay"), local_pod("a", "10.244.1.3"), local_pod("c", "10.244.1.4")]
    assert [row.pod for row in plan_rows(node_facts(pods=pods), healthy=frozenset())] == ["a", "c", "b"]
