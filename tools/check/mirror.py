"""Tests mirror the source, both ways: `tests/unit/plan/mesh/test_ports.py` for `plan/mesh/ports.py`.

A module whose behaviour needs the kernel, Envoy or a whole mesh may have its test of the same name in another folder of
tests instead; one that declares only values, and a composition root, needs none.
"""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.check.tree import Finding, Tree

NEEDS_A_MACHINE = ("netns", "contract", "conformance", "e2e", "properties", "golden")
"""Folders of tests that may hold a module's test, at any depth."""

ROOTS = ("src/aether/app/",)
"""Composition only: what they compose is tested, and the end-to-end tests run them."""


def check_mirror(tree: Tree) -> Iterator[Finding]:
    yield from _check_source(tree)
    yield from _check_tests(tree)


def _check_source(tree: Tree) -> Iterator[Finding]:
    elsewhere = {
        PurePosixPath(path).name for folder in NEEDS_A_MACHINE for path in tree.below(f"tests/{folder}", ".py")
    }
    for path in [*tree.source(), *tree.below("tools", ".py")]:
        module = PurePosixPath(path)
        if module.name.startswith("__") or path.startswith(ROOTS) or not _has_behaviour(tree.module(path)):
            continue
        test = _test_of(path)
        if not tree.has(test) and PurePosixPath(test).name not in elsewhere:
            yield Finding(path, 0, f"has no test: {test} (or one of that name that needs a machine)")


def _check_tests(tree: Tree) -> Iterator[Finding]:
    tested = {_test_of(path) for path in [*tree.source(), *tree.below("tools", ".py")]}
    for path in tree.below("tests/unit", ".py"):
        if PurePosixPath(path).name.startswith("test_") and path not in tested:
            yield Finding(path, 0, "tests no module of that name")


def _test_of(path: str) -> str:
    """``src/aether/plan/mesh/ports.py`` → ``tests/unit/plan/mesh/test_ports.py``; ``tools/…`` keeps its folder."""
    module = PurePosixPath(path.removeprefix("src/aether/"))
    return str(PurePosixPath("tests/unit") / module.parent / f"test_{module.name}")


def _has_behaviour(module: ast.Module) -> bool:
    """Whether a module does something: a function, or a method with more than one statement."""
    for node in module.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return True
            case ast.ClassDef() if any(map(_is_active, node.body)):
                return True
            case _:
                continue
    return False


def _is_active(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return len(body) > 1
