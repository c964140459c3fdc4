from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether


def test_the_scope_says_which_services_and_because_of_what(aether: Aether, served: ServedWorld) -> None:
    lines = aether("scope", "node-1").out.splitlines()
    assert lines[0] == "node node-1: directory of 3 services, endpoints of 1, asked for on demand 4 times"
    assert lines[-1].split() == ["shop/cart", "own", "cart.shop.aether.internal:8080"]
    assert '"directory": 3' in aether("scope", "node-1", "-o", "json").out


def test_an_unknown_node_is_answered_with_those_that_exist(aether: Aether, served: ServedWorld) -> None:
    said = aether("scope", "node-9")
    assert said.code == 1
    assert "node-1" in said.err
