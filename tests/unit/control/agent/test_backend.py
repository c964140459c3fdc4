"""What the admin socket answers: the live plan and snapshot."""

from pathlib import Path

import pytest
from tests.support.agent import MemoryNode, nothing
from tests.support.facts import generated, local_pod, node_facts, row

from aether.control.agent.backend import AgentBackend
from aether.model.facts import Rejection
from aether.model.world import ExplainRequest
from aether.render.envoy.names import CLUSTER, LISTENER, SECRET, inbound_listener

PORTS = "8080 9000=tcp"
FACTS = node_facts(
    pods=(local_pod("cart-1", "10.244.1.2", upstreams="db"), local_pod("bad-1", "10.244.1.3", ports="x")),
    services=(
        generated("shop/cart", "10.96.0.5", ports="8080"),
        generated("shop/db", "10.96.0.7", ports=PORTS),
        generated("shop/other", "10.96.0.8", ports=PORTS),
    ),
    rows=(
        row("shop/cart"),
        row("shop/db", PORTS, address="10.244.2.9"),
        row("shop/other", PORTS, address="10.244.2.8"),
    ),
)
REQUEST = ExplainRequest(namespace="shop", pod="cart-1", target="http://db:8080/")


class Answers:
    def __init__(self, folder: Path) -> None:
        self.node = MemoryNode(folder)
        self.backend = AgentBackend(self.node.state, self.node.proxy, seen=tuple)


@pytest.fixture
def answers(tmp_path: Path) -> Answers:
    return Answers(tmp_path)


async def test_before_the_first_facts_everything_is_empty_and_said_to_be_unknown(answers: Answers) -> None:
    answers.node.proxy.publish({})
    status = answers.backend.status()
    assert (status.is_control_connected, status.is_proxy_live, status.resources) == (False, False, 0)
    assert (answers.backend.scope().directory, answers.backend.scope().entries) == (0, ())
    assert answers.backend.resources() == ()
    assert answers.backend.explain(REQUEST).outcome == "unknown"


async def test_status_counts_what_the_proxy_was_told_and_what_it_took(answers: Answers) -> None:
    await answers.node.hear(FACTS)
    status = answers.backend.status()
    assert status.is_control_connected
    assert status.resources == status.acknowledged == len(answers.backend.resources())
    answers.node.proxy.takes = nothing
    assert answers.backend.status().acknowledged == 0


async def test_status_says_what_the_plan_refused_and_what_the_proxy_did(answers: Answers) -> None:
    answers.node.proxy.refused = (Rejection(type_url=CLUSTER, name="db", text="no such filter"),)
    await answers.node.hear(FACTS)
    status = answers.backend.status()
    assert status.rejections == ("db: no such filter",)
    assert [problem.code for problem in status.problems] == ["bad-port"]


async def test_scope_tells_own_from_declared_from_observed(answers: Answers) -> None:
    await answers.node.hear(FACTS)
    answers.node.asks("tcp|10.96.0.8:9000")
    answers.node.asks("pod|10.244.2.9:8080")
    answers.node.asks("tcp|192.0.2.1:80")
    scope = answers.backend.scope()
    assert {entry.name: entry.because for entry in scope.entries} == {
        "cart": "own",
        "db": "declared",
        "other": "observed",
    }
    clusters = {entry.name: entry.clusters for entry in scope.entries}
    assert clusters["db"] == (
        "db.shop.aether.internal:8080",
        "pod|10.244.2.9:8080",
        "tcp|10.96.0.7:9000",
    )
    assert clusters["other"] == ("tcp|10.96.0.8:9000",)
    assert (scope.directory, scope.misses) == (3, 3)


async def test_a_resource_is_what_was_published_under_its_name(answers: Answers) -> None:
    await answers.node.hear(FACTS)
    name = inbound_listener("uid-cart-1")
    listener = answers.backend.resource(LISTENER, name)
    assert listener is not None
    assert listener["name"] == name
    version = {each.version for each in answers.backend.resources() if (each.type_url, each.name) == (LISTENER, name)}
    assert version == {answers.node.proxy.newest[LISTENER][name].version}
    assert answers.backend.resource(LISTENER, "nobody's") is None
    assert answers.backend.resource("no.such/Type", name) is None


async def test_no_key_leaves_by_the_admin_socket(answers: Answers) -> None:
    await answers.node.hear(FACTS)
    secret = answers.backend.resource(SECRET, "out/shop/cart")
    assert secret is not None
    assert secret.keys() == {"name", "version"}


async def test_explain_answers_from_what_is_in_force_now(answers: Answers) -> None:
    await answers.node.hear(FACTS)
    assert answers.backend.explain(REQUEST).outcome == "deliver"
    await answers.node.hear(
        node_facts(pods=FACTS.pods, services=(generated("shop/db", "10.96.0.7", ports="8080=tcp"),))
    )
    assert answers.backend.explain(REQUEST).outcome != "deliver"
