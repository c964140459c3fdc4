from typing import Any

from tests.support.facts import row
from tests.support.memoryworld import pod
from tests.unit.api.test_status import CART

from aether.api.backend import WorldFacts
from aether.api.check import world_checks
from aether.api.status import world_status
from aether.errors import Diagnostic
from aether.model.endpoint import Health
from aether.model.facts import MeshConfig, NodeReport, Rejection
from aether.model.world import Check, CheckVerdict

HEALTHY = NodeReport(node="n1", is_proxy_live=True, captured=("uid-1",))


def checks(*, pods: tuple[Any, ...] = (), **facts: Any) -> dict[str, tuple[Check, ...]]:
    given: dict[str, Any] = {"config": MeshConfig(), "nodes": ("n1",), "reports": (HEALTHY,)} | facts
    known = WorldFacts(**given)
    return {s.title: s.checks for s in world_checks(world_status("w", "1", known, pods), known, pods)}


def failed(found: tuple[Check, ...]) -> list[Check]:
    return [check for check in found if check.verdict is not CheckVerdict.OK]


def running(place: str, *, uid: str = "uid-1", **options: Any) -> Any:
    one = pod(place, node="n1", **options)
    one["metadata"]["uid"] = uid
    return one


def test_a_sound_world_has_nothing_to_say() -> None:
    found = checks(pods=(running("shop/cart-1"),), views=(CART,), rows=(row("shop/cart"),))
    assert not [check for section in found.values() for check in failed(section)]
    assert [check.fact for check in found["services"]] == ["shop/cart has 1 of 1 endpoints healthy"]
    assert list(found) == ["nodes", "pods", "capture", "services", "declarations"]


def test_an_agent_that_is_away_and_a_rejected_resource_fail_with_what_to_do() -> None:
    away = failed(checks(reports=())["nodes"])
    assert [check.fact for check in away] == ["n1: the agent is connected", "n1: Envoy is live"]
    report = NodeReport(
        node="n1", is_proxy_live=True, rejections=(Rejection(type_url="t", name="cap_http", text="bad regex"),)
    )
    (rejected,) = failed(checks(reports=(report,))["nodes"])
    assert "bad regex" in rejected.why
    assert all(check.advice for check in (*away, rejected))


def test_each_pod_that_is_not_ready_is_a_fact_with_the_commands_that_look_at_it() -> None:
    (fact,) = checks(pods=(running("shop/cart-1", is_ready=False),))["pods"]
    assert (fact.verdict, fact.advice) == (
        CheckVerdict.FAILED,
        "aether describe pod shop/cart-1; aether logs shop/cart-1",
    )


def test_a_running_pod_of_the_mesh_that_is_not_captured_fails() -> None:
    unmanaged = running("shop/tool-1", uid="uid-3")
    unmanaged["metadata"]["annotations"] = {"aether.io/managed": "false"}
    pods = (running("shop/cart-1"), running("shop/web-1", uid="uid-2"), unmanaged)
    (fact,) = checks(pods=pods)["capture"]
    assert fact.fact == "1 of 2 running pods of the mesh are captured"
    assert "shop/web-1" in fact.why
    assert "shop/tool-1" not in fact.why


def test_a_service_whose_endpoints_are_all_unhealthy_fails_and_one_without_any_is_told() -> None:
    (none,) = checks(views=(CART,))["services"]
    assert (none.verdict, none.why) == (CheckVerdict.WARNING, "no endpoint is registered")
    (sick,) = checks(views=(CART,), rows=(row("shop/cart", health=Health.UNHEALTHY),))["services"]
    assert (sick.verdict, sick.why) == (CheckVerdict.FAILED, "none of its endpoints is healthy")


def test_what_was_declared_wrong_is_a_warning_that_names_the_place() -> None:
    flaw = Diagnostic(code="bad-port", message="out of range", subject="Pod shop/cart", field="metadata", item="99999")
    (fact,) = checks(problems=(flaw,))["declarations"]
    assert (fact.fact, fact.why) == ("Pod shop/cart: metadata", "out of range")
    assert "bad-port" in fact.advice
