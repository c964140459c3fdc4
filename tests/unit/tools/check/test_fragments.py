from pathlib import Path

import pytest
from tools.check.fragments import check_fragments
from tools.check.tree import Tree


def findings(root: Path, name: str, text: str) -> int:
    (root / "changes").mkdir()
    (root / "changes" / name).write_text(text)
    return len(list(check_fragments(Tree.of_folder(root))))


def test_one_sentence_by_topic_and_kind_is_fine(tmp_path: Path) -> None:
    assert findings(tmp_path, "mesh-on-one-machine.added.md", "A mesh\non one machine.\n") == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.new.md", "Text."),
        ("A.added.md", "Text."),
        ("a.added.txt", "Text."),
        ("a.added.md", "no stop"),
        ("a.added.md", "Two.\n\nParagraphs."),
    ],
)
def test_another_name_or_more_than_a_paragraph_is_not(tmp_path: Path, name: str, text: str) -> None:
    assert findings(tmp_path, name, text) == 1
