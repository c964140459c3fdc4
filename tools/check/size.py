"""How long modules and functions are, and how full folders (house style, "Size")."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from tools.check.tree import Finding, Tree

MODULE_ASKED, MODULE_REFUSED = 400, 600
FUNCTION_ASKED, FUNCTION_REFUSED = 40, 60
FOLDER_ASKED, FOLDER_REFUSED = 12, 15
DEPTH_REFUSED = 3
"""Folders below the package."""

DEEP = frozenset({"src/aether/render/envoy/evaluate"})
"""Reads what its parent writes, and is one thing with it."""


def check_size(tree: Tree) -> Iterator[Finding]:
    for path in [*tree.source(), *tree.below("tools", ".py")]:
        yield from _check_module(tree, path)
        yield from _check_functions(tree, path)
    yield from _check_folders(tree)


def _check_module(tree: Tree, path: str) -> Iterator[Finding]:
    lines = tree.text(path).count("\n")
    if lines > MODULE_ASKED:
        yield Finding(path, 0, f"{lines} lines; {MODULE_REFUSED} are refused", lines > MODULE_REFUSED)


def _check_functions(tree: Tree, path: str) -> Iterator[Finding]:
    for node in ast.walk(tree.module(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = _length(node)
            if lines > FUNCTION_ASKED:
                message = f"{node.name} has {lines} lines; {FUNCTION_REFUSED} are refused"
                yield Finding(path, node.lineno, message, lines > FUNCTION_REFUSED)


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body. Its docstring and the signature (a command's has a line an option) are not counted."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _check_folders(tree: Tree) -> Iterator[Finding]:
    modules = [PurePosixPath(path) for path in tree.source() if not path.endswith("/__init__.py")]
    for folder, count in sorted(Counter(module.parent for module in modules).items()):
        if count > FOLDER_ASKED:
            message = f"{count} modules in one folder; more than {FOLDER_REFUSED} are refused"
            yield Finding(str(folder), 0, message, count > FOLDER_REFUSED)
        depth = len(folder.parts) - len(PurePosixPath("src/aether").parts)
        if depth >= DEPTH_REFUSED and str(folder) not in DEEP:
            yield Finding(str(folder), 0, f"{depth} folders below the package; {DEPTH_REFUSED} are refused")
