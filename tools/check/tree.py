"""The files that belong to the repository, and what is found wrong with them."""

import ast
import subprocess
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import msgspec


class Finding(msgspec.Struct, frozen=True, order=True):
    """One thing that breaks a rule. `is_refused` false: a reviewer asks why, nothing fails."""

    path: str
    line: int
    message: str
    is_refused: bool = True

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}"


class Tree:
    """Some files below a root, by path relative to it."""

    def __init__(self, root: Path, paths: Iterable[str]) -> None:
        self.root = root
        self.paths = tuple(sorted(paths))
        self._modules: dict[str, ast.Module] = {}

    @classmethod
    def of_repository(cls, root: Path) -> "Tree":
        """What git tracks or would track."""
        command = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
        listed = subprocess.run(command, cwd=root, capture_output=True, check=True).stdout.decode().split("\0")
        return cls(root, (path for path in listed if path and (root / path).is_file()))

    @classmethod
    def of_folder(cls, root: Path) -> "Tree":
        """Everything below a folder."""
        return cls(root, (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()))

    def below(self, folder: str, suffix: str = "") -> Iterator[str]:
        return (path for path in self.paths if path.startswith(f"{folder}/") and path.endswith(suffix))

    def has(self, path: str) -> bool:
        return path in self._known

    def text(self, path: str) -> str:
        """The content; "" for a file that is not there or is no text."""
        try:
            return (self.root / path).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return ""

    def module(self, path: str) -> ast.Module:
        """A Python file's syntax tree."""
        if path not in self._modules:
            self._modules[path] = ast.parse(self.text(path), filename=path)
        return self._modules[path]

    def source(self) -> Iterator[str]:
        """The package's own modules: not the generated ones."""
        return (path for path in self.below("src/aether", ".py") if not path.startswith("src/aether/_proto/"))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.paths)
