import msgspec
import pytest
from tests.support.facts import service_id
from tests.support.memoryworld import ServedWorld, ask, pod

from aether.adapters.objects.kinds import key_of
from aether.model.world import Check, CheckSection, ExplainRequest, Explanation, NodeScope, Via, WorldStatus
from aether.plan.mesh.services import ServiceView


def explain(served: ServedWorld, **fields: str) -> tuple[int, dict[str, object]]:
    asked = {"namespace": "shop", "pod": "cart-1", "target": "http://web:80/"} | fields
    return ask(served.paths.api_socket, "POST", "/v1/explain", msgspec.json.encode(asked))


def test_the_status_is_derived_from_facts_and_objects(served: ServedWorld) -> None:
    cart = pod("shop/cart-1")
    served.apply(cart)
    served.set_status(key_of(cart), cart["status"])
    served.know(views=(ServiceView(service=service_id("shop/cart"), ports=(), declared=()),))
    status = msgspec.convert(ask(served.paths.api_socket, "GET", "/v1/status")[1], WorldStatus)
    assert (status.world, status.pods_ready, status.pods_wanted) == ("default", 1, 1)
    assert [service.name for service in status.services] == ["cart"]


def test_checks_are_the_derived_ones_and_those_of_the_control_plane(served: ServedWorld) -> None:
    served.world.sections = (CheckSection(title="certificates", checks=(Check(fact="the root is valid"),)),)
    sections = msgspec.convert(ask(served.paths.api_socket, "GET", "/v1/check")[1], tuple[CheckSection, ...])
    assert [section.title for section in sections] == ["nodes", "declarations", "certificates"]


def test_an_explanation_is_the_one_of_the_pod_s_node(served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1"))
    status, answer = explain(served, namespace="", via="proxy")
    assert status == 200
    assert msgspec.convert(answer, Explanation).summary == "http://web:80/ from shop/cart-1"
    assert served.agent.asked == [
        ExplainRequest(namespace="shop", pod="cart-1", kind="pod", target="http://web:80/", via=Via.PROXY)
    ]


def test_an_explanation_without_an_answering_agent_says_which(served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1", node="node-2"), pod("shop/cart-2", node=""))
    status, problem = explain(served)
    assert (status, problem["code"]) == (503, "agent-away")
    assert "node-2" in str(problem["detail"])
    assert explain(served, pod="cart-2")[1]["code"] == "no-such-node"
    assert explain(served, pod="cart-3")[1]["code"] == "no-such-pod"


def test_the_scope_is_the_node_s(served: ServedWorld) -> None:
    scope = msgspec.convert(ask(served.paths.api_socket, "GET", "/v1/scope/node-1")[1], NodeScope)
    assert (scope.node, scope.entries[0].name) == ("node-1", "cart")
    status, problem = ask(served.paths.api_socket, "GET", "/v1/scope/node-9")
    assert (status, problem["code"]) == (404, "no-such-node")
    assert "node-1" in problem["detail"]


@pytest.mark.parametrize("target", ["/v1/logs", "/v1/pod"])
def test_a_pod_must_be_named(served: ServedWorld, target: str) -> None:
    assert ask(served.paths.api_socket, "GET", target)[1]["code"] == "bad-request"


def test_a_name_is_answered_with_the_pod_that_it_means(served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1"))
    _, found = ask(served.paths.api_socket, "GET", "/v1/pod?pod=cart-1")
    assert found["metadata"]["namespace"] == "shop"


def test_stop_begins_the_end(served: ServedWorld) -> None:
    ask(served.paths.api_socket, "POST", "/v1/stop")
    assert served.world.is_stopped.wait(5)


def test_the_version_is_the_package_s(served: ServedWorld) -> None:
    _, answer = ask(served.paths.api_socket, "GET", "/v1/version")
    assert answer["world"] == "default"
    assert answer["version"]
