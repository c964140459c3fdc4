import msgspec
import pytest
from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether

from aether.cli.mesh.check import print_sections
from aether.model.world import Check, CheckSection, CheckVerdict

SECTIONS = (
    CheckSection(
        title="nodes",
        checks=(
            Check(fact="n1 is here"),
            Check(fact="n2 [is] here", verdict=CheckVerdict.FAILED, why="it is away", advice="look for it"),
            Check(fact="n3 is quick", verdict=CheckVerdict.WARNING, why="it is slow"),
        ),
    ),
)


def test_every_fact_has_its_mark_and_what_is_wrong_its_reason_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    print_sections(SECTIONS)
    assert capsys.readouterr().out.splitlines() == [
        "nodes",
        "✓ n1 is here",
        "\N{MULTIPLICATION SIGN} n2 [is] here: it is away",
        "    → look for it",
        "! n3 is quick: it is slow",
        "",
        "1 ok, 1 warnings, 1 failed",
    ]


def test_a_failed_fact_of_the_world_ends_with_one(aether: Aether, served: ServedWorld) -> None:
    said = aether("check", "-o", "json")
    sections = msgspec.convert(msgspec.json.decode(said.out), tuple[CheckSection, ...])
    assert said.code == 1
    assert [section.title for section in sections][:3] == ["host", "world", "nodes"]


def test_a_world_that_cannot_look_at_itself_is_a_failed_fact(aether: Aether, served: ServedWorld) -> None:
    served.world.known = None  # type: ignore[assignment]  # what a defect would do
    said = aether("check")
    assert said.code == 1
    assert "the world can look at itself" in said.out


def test_without_a_world_the_host_alone_is_looked_at_unless_one_is_named(aether: Aether) -> None:
    assert "no world is running" in aether("check").out
    assert aether("check", "--world", "other").code == 1
