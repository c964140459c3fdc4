from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.facts import generated, local_pod, node_facts, row, user_service

from aether.model.endpoint import Health
from aether.model.world import ExplainRequest, Explanation, Via
from aether.plan.mesh.clusters import plan_context
from aether.plan.mesh.node import plan_node_in
from aether.render.envoy.snapshot import render_snapshot
from aether.render.explain import SeenFailure, explain

CONTEXT = plan_context(
    node_facts(
        rows=[
            row("shop/cart", "8080 9000=tcp", address="10.244.1.2"),
            row("shop/web", "80", address="10.244.2.3"),
            row("shop/web", "80", address="10.244.2.6"),
            row("shop/idle", "80", address="10.244.2.4", health=Health.UNHEALTHY),
            row("shop/own", "80", address="10.244.2.5"),
        ],
        services=[
            generated("shop/cart", "10.96.0.5", ports="8080 9000=tcp"),
            generated("shop/web", "10.96.0.6", ports="80"),
            generated("shop/idle", "10.96.0.7", ports="80"),
            user_service("shop/own", "10.96.0.8", ports="81:80"),
        ],
        pods=[local_pod("cart-2", "10.244.1.2", ports="8080,9000=tcp")],
    )
)
SNAPSHOT = render_snapshot(plan_node_in(CONTEXT, observed=frozenset()))


def explained(target: str, *, seen: Sequence[SeenFailure] = (), **fields: Any) -> Explanation:
    request = ExplainRequest(**({"namespace": "shop", "pod": "cart-2", "target": target} | fields))
    return explain(request, CONTEXT, SNAPSHOT, seen=seen)


@pytest.mark.parametrize(
    ("target", "fields", "outcome", "reason"),
    [
        ("http://cart:8080/", {}, "deliver", ""),
        ("http://web/", {}, "deliver", ""),
        ("cart:9000", {}, "deliver", ""),
        ("http://cart:9000/", {}, "deliver", ""),
        ("http://10.244.2.3:80/", {}, "deliver", ""),
        ("http://web/", {"via": Via.PROXY}, "deliver", ""),
        ("http://web/", {"host_header": "web:81"}, "refuse", "port-mismatch"),
        ("http://web:81/", {}, "refuse", "port-not-declared"),
        ("http://10.244.2.3:99/", {}, "refuse", "port-not-declared"),
        ("http://cart/", {"via": Via.PROXY}, "refuse", "port-required"),
        ("http://cart:9000/", {"via": Via.PROXY}, "refuse", "port-not-http"),
        ("http://idle/", {}, "refuse", "unhealthy"),
        ("http://nobody/", {"via": Via.PROXY}, "not-found", ""),
        ("http://nobody/", {}, "not-found", ""),
        ("http://example.org/", {}, "pass-through", ""),
        ("192.0.2.1:22", {}, "pass-through", ""),
        ("10.244.1.2:8080", {}, "pass-through", ""),
        ("own.shop.svc:99", {}, "pass-through", ""),
        ("cart:7777", {}, "closed", ""),
        ("https://web/", {}, "closed", ""),
        ("10.244.2.3:99", {}, "closed", ""),
    ],
)
def test_every_outcome_is_told_with_its_reason(target: str, fields: dict[str, Any], outcome: str, reason: str) -> None:
    found = explained(target, **fields)
    assert (found.outcome, found.reason) == (outcome, reason)
    assert found.steps
    assert bool(found.advice) == (outcome not in {"deliver", "pass-through"})


def test_a_delivery_is_followed_to_the_destination_s_chain() -> None:
    here = explained("http://cart:8080/")
    assert here.summary == "to pod shop/cart-2 on n1, port 8080, over mutual TLS as out/shop/cart"
    stages = [step.stage for step in here.steps]
    assert stages[:3] == ["name", "capture", "listener"]
    assert next(stage for stage in stages if stage.startswith("arrival")) == "arrival: filter chain"
    assert any("in_http_cart-2_8080" in step.says for step in here.steps)
    assert any("from the pod's namespace" in step.says for step in here.steps)
    there = explained("http://web/")
    assert there.summary.startswith("to pod shop/web-3 on n1, or one of 1 more, port 80")
    assert there.steps[-1].says.startswith("in_http_web-3_80")


def test_a_cold_name_is_said_to_be_asked_for() -> None:
    says = {step.stage: step.says for step in explained("http://web/").steps}
    assert says["on demand"] == "the agent answers web.shop.aether.internal:80 with shop/web"
    assert "on demand" not in {step.stage for step in explained("http://cart:8080/").steps}


def test_a_pod_that_does_not_serve_the_port_is_said_to_serve_others() -> None:
    found = explained("http://10.244.2.3:99/")
    assert found.summary == "421 by the proxy: 10.244.2.3 serves 80=http"
    (asked,) = [step for step in found.steps if step.stage == "on demand"]
    assert asked.says == "the agent answers that the pod serves 80=http"


def test_the_step_at_which_it_stops_is_marked() -> None:
    (stopped,) = [step for step in explained("http://web:81/").steps if not step.is_ok]
    assert stopped.stage == "route"
    (stopped,) = [step for step in explained("http://idle/").steps if not step.is_ok]
    assert stopped.stage == "endpoint"


def test_what_cannot_be_told_says_why() -> None:
    assert "not on node n1" in explained("http://web/", pod="nobody").summary
    assert "target 'ftp://x'" in explained("ftp://x").summary
    assert "speaks HTTP" in explained("web:80", via=Via.PROXY).summary
    request = ExplainRequest(namespace="shop", pod="cart-2", target="http://web/")
    assert explain(request, None, {}).outcome == "unknown"


def failure(cluster: str, reason: str = "upstream-refused", **fields: Any) -> SeenFailure:
    defaults: dict[str, Any] = {"namespace": "shop", "pod": "cart-2", "why": "connection refused", "age_s": 3.2}
    return SeenFailure(cluster=cluster, reason=reason, **(defaults | fields))


def test_a_delivery_that_failed_a_moment_ago_is_told_with_the_newest_failure() -> None:
    name = "web.shop.aether.internal:80"
    found = explained("http://web/", seen=[failure(name), failure(name, "upstream-identity", age_s=9.0)])
    assert (found.outcome, found.reason) == ("deliver", "upstream-refused")
    assert found.steps[-1].says == "3 s ago it failed: connection refused"
    assert not found.steps[-1].is_ok
    assert "aether logs" in found.advice


@pytest.mark.parametrize(
    "other",
    [failure("cart.shop.aether.internal:8080"), failure("web.shop.aether.internal:80", pod="web-1")],
)
def test_another_clusters_or_another_pods_failure_says_nothing(other: SeenFailure) -> None:
    assert explained("http://web/", seen=[other]) == explained("http://web/")


def test_a_refusal_is_told_as_it_is_now_whatever_was_seen() -> None:
    seen = [failure("idle.shop.aether.internal:80")]
    assert explained("http://idle/", seen=seen) == explained("http://idle/")
