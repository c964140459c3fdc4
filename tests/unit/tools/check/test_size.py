from pathlib import Path

from tools.check.size import check_size
from tools.check.tree import Tree


def findings(root: Path, **files: str) -> list[tuple[str, bool]]:
    for name, text in files.items():
        path = root / "src/aether" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    return [(finding.message, finding.is_refused) for finding in check_size(Tree.of_folder(root))]


def test_a_long_module_is_asked_about_and_a_longer_one_refused(tmp_path: Path) -> None:
    assert findings(tmp_path, short="x = 1\n" * 400) == []
    assert findings(tmp_path, long="x = 1\n" * 401) == [("401 lines; 600 are refused", False)]
    assert ("601 lines; 600 are refused", True) in findings(tmp_path, longer="x = 1\n" * 601)


def test_a_function_is_as_long_as_its_body_without_its_docstring(tmp_path: Path) -> None:
    body = "    x = 1\n" * 40
    docstring = '    """First.\n\n' + "    more\n" * 30 + '    """\n'
    assert findings(tmp_path, fine=f"def f():\n{docstring}{body}") == []
    assert findings(tmp_path, fine=f"def f():\n{body}    x = 1\n") == [("f has 41 lines; 60 are refused", False)]
    found = findings(tmp_path, fine="class A:\n    async def f(self):\n" + "        x = 1\n" * 61)
    assert found == [("f has 61 lines; 60 are refused", True)]


def test_a_full_folder_is_refused(tmp_path: Path) -> None:
    crowd = {f"many__m{number}": "" for number in range(16)}
    assert findings(tmp_path, **crowd) == [("16 modules in one folder; more than 15 are refused", True)]


def test_a_deep_folder_is_refused(tmp_path: Path) -> None:
    assert findings(tmp_path, a__b__c__d="") == [("3 folders below the package; 3 are refused", True)]
