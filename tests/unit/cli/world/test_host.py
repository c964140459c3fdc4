from aether.cli.world.host import FACTS, world_facts
from aether.errors import Diagnostic
from aether.model.world import CheckVerdict


def problem(code: str) -> Diagnostic:
    return Diagnostic(code=code, message=f"because of {code}")


def test_without_a_problem_every_fact_holds() -> None:
    assert [check.fact for check in world_facts([])] == [fact for fact, _ in FACTS]
    assert {check.verdict for check in world_facts([])} == {CheckVerdict.OK}


def test_every_problem_breaks_its_fact_and_what_needs_it_is_not_claimed() -> None:
    checks = list(world_facts([problem("world-folder"), problem("world-tproxy")]))
    failed = [check for check in checks if check.verdict is CheckVerdict.FAILED]
    assert [check.why for check in failed] == ["because of world-folder", "because of world-tproxy"]
    assert checks[-1] is failed[-1]


def test_a_problem_without_a_fact_is_not_swallowed() -> None:
    assert list(world_facts([problem("world-new")]))[-1].why == "because of world-new"
