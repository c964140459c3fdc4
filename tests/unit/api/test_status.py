from typing import Any

import pytest
from tests.support.facts import row, service_id
from tests.support.memoryworld import deployment, pod, pod_status

from aether.api.backend import WorldFacts
from aether.api.status import why_not_ready, world_status
from aether.errors import Diagnostic
from aether.model.endpoint import Health
from aether.model.facts import MeshConfig, NodeReport, Refusals, Rejection
from aether.model.ports import PortClass
from aether.model.world import PodProblem, PortStatus, ReasonCount, WorldStatus
from aether.plan.mesh.services import ServicePort, ServiceView

CART = ServiceView(
    service=service_id("shop/cart"),
    ports=(ServicePort(80, PortClass.HTTP, 8080), ServicePort(9000, PortClass.TCP, 9000)),
    declared=(),
    addresses=("10.96.0.5",),
)


def status(*, pods: tuple[Any, ...] = (), deployments: tuple[Any, ...] = (), **facts: Any) -> WorldStatus:
    known: dict[str, Any] = {"config": MeshConfig(), "nodes": ("n1",), "views": (CART,)} | facts
    return world_status("w", "1", WorldFacts(**known), pods, deployments)


def test_a_service_has_its_ports_its_addresses_and_its_healthy_endpoints() -> None:
    rows = (
        row("shop/cart"),
        row("shop/cart", address="10.244.1.3", health=Health.UNHEALTHY),
        row("shop/cart", address="10.244.1.4", health=Health.DRAINING),
        row("shop/other"),
    )
    (service,) = status(rows=rows).services
    assert (service.healthy, service.endpoints, service.addresses) == (1, 3, ("10.96.0.5",))
    assert service.ports[0] == PortStatus(number=80, port_class="http", target=8080)


def test_refusals_are_summed_over_the_nodes_by_the_service_that_a_full_name_means() -> None:
    reports = (
        NodeReport(node="n1", refusals=(Refusals("cart.shop:81", "port-not-declared", 2),)),
        NodeReport(
            node="n2",
            refusals=(
                Refusals("CART.shop.aether.internal.", "port-not-declared", 3),
                Refusals("cart", "caller-namespace-unknown", 1),
                Refusals("nobody.shop", "port-required", 4),
            ),
        ),
    )
    found = status(reports=reports, nodes=("n1", "n2"))
    assert found.services[0].refusals == (ReasonCount(reason="port-not-declared", count=5),)
    assert {reason.reason: reason.count for reason in found.other_refusals} == {
        "caller-namespace-unknown": 1,
        "port-required": 4,
    }


def test_a_node_without_a_report_is_said_to_be_away() -> None:
    report = NodeReport(
        node="n1", is_proxy_live=True, rejections=(Rejection(type_url="t", name="cap_http", text="bad regex"),)
    )
    pods = (pod("shop/cart-1", node="n1"), pod("shop/cart-2", node="n1", is_ready=False), pod("shop/cart-3", node="n2"))
    here, away = status(reports=(report,), nodes=("n2", "n1"), pods=pods).nodes
    assert (here.is_agent_connected, here.is_proxy_live, here.pods_ready, here.pods) == (True, True, 1, 2)
    assert here.rejections == ("cap_http: bad regex",)
    assert (away.is_agent_connected, away.is_proxy_live, away.pods) == (False, False, 1)


def test_problems_of_the_nodes_and_of_the_control_plane_are_told_once() -> None:
    flaw = Diagnostic(code="bad-port", message="port '99999'", subject="Pod shop/cart")
    reports = (NodeReport(node="n1", problems=(flaw,)), NodeReport(node="n2", problems=(flaw,)))
    assert status(reports=reports, problems=(flaw,)).problems == (flaw,)


def test_wanted_are_single_pods_and_replicas_and_of_the_mesh_those_that_it_manages() -> None:
    owned = pod("shop/cart-1")
    owned["metadata"]["ownerReferences"] = [{"kind": "Deployment", "name": "cart"}]
    found = status(
        pods=(owned, pod("shop/tool"), pod("kube-system/dns")),
        deployments=(
            deployment("shop/cart", replicas=3),
            deployment("shop/out", replicas=2, annotations={"aether.io/managed": "false"}),
        ),
    )
    assert (found.pods_wanted, found.endpoints_wanted) == (7, 4)


def test_a_pod_that_has_done_its_work_is_neither_wanted_nor_a_problem() -> None:
    done = pod("shop/job", is_ready=False)
    done["status"] = {"phase": "Succeeded"}
    found = status(pods=(done,))
    assert (found.pods_wanted, found.pods, found.pod_problems) == (0, 0, ())


@pytest.mark.parametrize(
    ("status_", "why"),
    [
        ({}, "Pending"),
        ({"phase": "Pending", "message": "no node has room"}, "no node has room"),
        (pod_status(is_ready=False, reason="CrashLoopBackOff"), "container main: CrashLoopBackOff"),
        (
            {"conditions": [{"type": "Ready", "status": "False", "message": "not captured yet"}]},
            "not captured yet",
        ),
        (
            {"containerStatuses": [{"name": "a", "state": {"terminated": {"reason": "Error", "message": "boom"}}}]},
            "container a: Error: boom",
        ),
        (
            {
                "containerStatuses": [
                    {
                        "name": "a",
                        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                        "lastState": {"terminated": {"message": "exit status 1\nTraceback:\nport 80 is taken"}},
                    }
                ]
            },
            "container a: CrashLoopBackOff: back-off 10s: exit status 1: port 80 is taken",
        ),
    ],
)
def test_a_pod_that_is_not_ready_says_why(status_: dict[str, Any], why: str) -> None:
    waiting = pod("shop/cart-1", is_ready=False) | {"status": status_}
    assert why_not_ready(waiting) == why
    assert status(pods=(waiting,)).pod_problems == (PodProblem(namespace="shop", name="cart-1", reason=why),)


def test_a_pod_that_is_being_deleted_is_terminating_whatever_its_containers_say() -> None:
    leaving = pod("shop/cart-1", is_ready=False)
    leaving["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert why_not_ready(leaving) == "terminating"
