import msgspec
import pytest
from tests.support.memoryworld import ServedWorld, deployment, pod
from tests.unit.cli.conftest import Aether

from aether.cli.mesh.explain import print_explanation
from aether.model.world import ExplainStep, Explanation, Via


def test_the_steps_are_printed_in_order_then_the_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    print_explanation(
        Explanation(
            outcome="refuse",
            reason="port-not-declared",
            summary="421 to the client",
            advice="cart.shop has 80 (http)",
            steps=(
                ExplainStep(stage="chain", says="cap_http"),
                ExplainStep(stage="virtual host", says="81 is not declared [here]", is_ok=False),
            ),
        )
    )
    assert capsys.readouterr().out.splitlines() == [
        "✓ chain         cap_http",
        "\N{MULTIPLICATION SIGN} virtual host  81 is not declared [here]",
        "→ refuse port-not-declared: 421 to the client",
        "  cart.shop has 80 (http)",
    ]


def test_the_question_reaches_the_agent_of_the_pod_s_node(aether: Aether, served: ServedWorld) -> None:
    served.apply(deployment("shop/cart"), pod("shop/cart-1", labels={"app": "cart"}))
    said = aether("explain", "deploy/cart", "-n", "shop", "http://web:80/", "-H", "Web", "--proxy")
    assert said.out == "→ deliver: http://web:80/ from shop/cart-1\n"
    (asked,) = served.agent.asked
    assert (asked.pod, asked.host_header, asked.via) == ("cart-1", "Web", Via.PROXY)


def test_an_explanation_can_be_data(aether: Aether, served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1"))
    said = aether("explain", "cart-1", "web:80", "-o", "json")
    assert msgspec.json.decode(said.out)["outcome"] == "deliver"
