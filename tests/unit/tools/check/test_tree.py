import subprocess
from pathlib import Path

from tools.check.tree import Finding, Tree


def test_a_repository_s_files_are_those_that_git_tracks_or_would(tmp_path: Path) -> None:
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("ignored\n")
    for name in ("ignored", "new.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert Tree.of_repository(tmp_path).paths == (".gitignore", "new.py")


def test_a_folder_s_files_are_found_by_place_and_ending(tmp_path: Path) -> None:
    (tmp_path / "src/aether/_proto").mkdir(parents=True)
    (tmp_path / "src/aether/a.py").write_text("x = 1\n")
    (tmp_path / "src/aether/_proto/b.py").write_text("")
    (tmp_path / "src/aether/blob").write_bytes(b"\xff\xfe")
    tree = Tree.of_folder(tmp_path)
    assert list(tree.source()) == ["src/aether/a.py"]
    assert list(tree.below("src", ".py")) == ["src/aether/_proto/b.py", "src/aether/a.py"]
    assert tree.has("src/aether/a.py")
    assert not tree.has("src/aether/c.py")
    assert tree.text("src/aether/blob") == tree.text("nowhere") == ""
    assert tree.module("src/aether/a.py") is tree.module("src/aether/a.py")


def test_a_finding_names_its_place() -> None:
    assert str(Finding("a.py", 3, "is long")) == "a.py:3: is long"
    assert str(Finding("a.py", 0, "is long")) == "a.py: is long"
