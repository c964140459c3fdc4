from pathlib import Path

import pytest
from tools.check.tree import Tree
from tools.check.words import check_words


def findings(root: Path, text: str) -> list[str]:
    (root / "a.md").write_text(text)
    return [finding.message for finding in check_words(Tree.of_folder(root))]


@pytest.mark.parametrize(
    "text", ["from py" + "pi.org", "docker" + ".io/x", "--index" + "-url x", "in /wo" + "rk/main", "(/ro" + "ot/.x)"]
)
def test_a_host_or_a_path_of_somebody_s_machine_is_found(tmp_path: Path, text: str) -> None:
    assert len(findings(tmp_path, text)) == 1


@pytest.mark.parametrize(
    "text", ["the root of it", "/run/aether", "a/work/b", "$HOME/x", "pip install aether", "https://example.org"]
)
def test_other_words_are_fine(tmp_path: Path, text: str) -> None:
    assert findings(tmp_path, text) == []
