from pathlib import Path

from tools.check.mirror import check_mirror
from tools.check.tree import Tree

BEHAVES = "def f():\n    return 1\n"
DECLARES = 'X = 1\n\nclass A:\n    y: int\n\n    def z(self):\n        """Doc."""\n        return self.y\n'


def findings(root: Path, **files: str) -> list[str]:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [finding.path for finding in check_mirror(Tree.of_folder(root))]


def test_a_module_that_does_something_needs_a_test_of_its_name(tmp_path: Path) -> None:
    assert findings(tmp_path, src__aether__plan__a=BEHAVES) == ["src/aether/plan/a.py"]
    assert findings(tmp_path, tests__unit__plan__test_a="") == []


def test_a_test_that_needs_a_machine_counts(tmp_path: Path) -> None:
    assert findings(tmp_path, src__aether__adapters__a=BEHAVES, tests__netns__test_a="") == []


def test_values_and_composition_need_no_test(tmp_path: Path) -> None:
    assert findings(tmp_path, src__aether__model__a=DECLARES, src__aether__app__b=BEHAVES) == []


def test_a_test_of_no_module_is_left_over(tmp_path: Path) -> None:
    assert findings(tmp_path, tests__unit__plan__test_gone="") == ["tests/unit/plan/test_gone.py"]


def test_tools_are_mirrored_in_their_own_folder(tmp_path: Path) -> None:
    assert findings(tmp_path, tools__check__a=BEHAVES) == ["tools/check/a.py"]
    assert findings(tmp_path, tests__unit__tools__check__test_a="") == []
