"""Reference pages are complete and true: every error code, fixed port, setting and metric, and no other."""

import ast
import re
from collections.abc import Iterable, Iterator

from tools.check.tree import Finding, Tree

ERRORS_PAGE = "docs/reference/errors.md"
PORTS_PAGE = "docs/reference/ports.md"
SETTINGS_PAGE = "docs/reference/settings.md"
METRICS_PAGE = "docs/reference/metrics.md"

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_FIRST_ARGUMENT_IS_CODE = re.compile(r"_?(flaw|problem|rejected|diagnostic)", re.IGNORECASE)
_CODE_KEYWORD = {"Failure": "word"}
"""Calls that spell their code by another word than `code`."""

_METRIC = re.compile(r"aether_(agent|registrar|controller|api)_[a-z_]+")
_CODE_ROW = re.compile(r"^\| `([a-z0-9-]+)` \|", re.MULTILINE)


def check_reference(tree: Tree) -> Iterator[Finding]:
    yield from _check_codes(tree)
    yield from _check_named(tree, PORTS_PAGE, "fixed port", _ports(tree))
    yield from _check_named(tree, SETTINGS_PAGE, "setting", _settings(tree))
    yield from _check_named(tree, METRICS_PAGE, "metric", _metrics(tree))


def codes_in(module: ast.Module) -> Iterator[tuple[str, int]]:
    """The error and diagnostic codes that a module spells, each with its line."""
    for node in ast.walk(module):
        match node:
            case ast.ClassDef():
                yield from (found for statement in node.body for found in _class_code(statement))
            case ast.Call(func=function, args=args, keywords=keywords):
                spelled = [
                    keyword.value
                    for keyword in keywords
                    if keyword.arg == _CODE_KEYWORD.get(_name_of(function), "code")
                ]
                if args and _FIRST_ARGUMENT_IS_CODE.fullmatch(_name_of(function)):
                    spelled.append(args[0])
                yield from (found for value in spelled for found in _literal(value))
            case ast.arguments(kwonlyargs=names, kw_defaults=defaults):
                pairs = zip(names, defaults, strict=True)
                spelled = [default for name, default in pairs if name.arg == "code" and default is not None]
                yield from (found for value in spelled for found in _literal(value))
            case _:
                pass


def reasons_in(module: ast.Module) -> Iterator[tuple[str, int]]:
    """The members of the enum `Reason`: what `x-aether-error` can say of a refusal."""
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and node.name == "Reason":
            for statement in node.body:
                if isinstance(statement, ast.Assign):
                    yield from _literal(statement.value)


def _check_codes(tree: Tree) -> Iterator[Finding]:
    page = tree.text(ERRORS_PAGE)
    documented = set(_CODE_ROW.findall(page))
    spelled: dict[str, tuple[str, int]] = {}
    for path in tree.source():
        module = tree.module(path)
        for code, line in [*codes_in(module), *reasons_in(module)]:
            spelled.setdefault(code, (path, line))
    for code, (path, line) in sorted(spelled.items()):
        if code not in documented:
            yield Finding(path, line, f"code {code!r} is missing from {ERRORS_PAGE}")
    literals = "\n".join(tree.text(path) for path in tree.source())
    for code in sorted(documented - spelled.keys()):
        if f'"{code}"' not in literals and f'"{code.removeprefix("world-")}"' not in literals:
            yield Finding(ERRORS_PAGE, 0, f"code {code!r} is nowhere in the source")


def _check_named(tree: Tree, page: str, what: str, names: Iterable[tuple[str, str, int]]) -> Iterator[Finding]:
    text = tree.text(page)
    for name, path, line in names:
        if f"`{name}`" not in text:
            yield Finding(path, line, f"{what} {name} is missing from {page}")


def _ports(tree: Tree) -> Iterator[tuple[str, str, int]]:
    path = "src/aether/model/ports.py"
    for statement in tree.module(path).body if tree.has(path) else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(number))) if name.endswith(
                "_PORT"
            ):
                yield str(number), path, statement.lineno
            case _:
                pass


def _settings(tree: Tree) -> Iterator[tuple[str, str, int]]:
    path = "src/aether/model/settings.py"
    for node in tree.module(path).body if tree.has(path) else ():
        match node:
            case ast.ClassDef(name=owner):
                for statement in node.body:
                    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                        yield f"{owner}.{statement.target.id}", path, statement.lineno
            case ast.Assign(targets=[ast.Name(id=name)]) if name.isupper():
                yield name, path, node.lineno
            case _:
                pass


def _metrics(tree: Tree) -> Iterator[tuple[str, str, int]]:
    for path in tree.source():
        for node in ast.walk(tree.module(path)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _METRIC.fullmatch(node.value):
                yield node.value, path, node.lineno


def _class_code(statement: ast.stmt) -> Iterator[tuple[str, int]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id="code")], value=value):
            yield from _literal(value)
        case ast.AnnAssign(target=ast.Name(id="code"), value=ast.expr() as value):
            yield from _literal(value)
        case _:
            pass


def _literal(value: ast.expr) -> Iterator[tuple[str, int]]:
    match value:
        case ast.Constant(value=str(text)) if _CODE.fullmatch(text):
            yield text, value.lineno
        case _:
            pass


def _name_of(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""
