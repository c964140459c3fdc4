"""Texts of YAML and JSON to documents, each with the line it begins at. No text makes this slow or large."""

import json
import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import msgspec
import yaml

from aether.errors import Diagnostic

FILE_LIMIT_BYTES = 4 * 1024 * 1024
"""One file: four of the largest ConfigMaps."""
DOCUMENTS_LIMIT = 5000
"""Documents of one file."""
DEPTH_LIMIT = 64
"""Levels of nesting; Kubernetes' own objects have about 15."""
NODES_LIMIT = 500_000
"""Values of one document once its aliases are followed: what refuses a few lines that stand for millions."""


_TOO_DEEP = f"nested deeper than {DEPTH_LIMIT} levels"
_SEPARATOR = re.compile(r"---(\s|$)")
_NOTHING = re.compile(r"(---)?\s*(#.*)?\n?|%.*\n?")
"""A line without content: blank, a comment, a directive."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One document of a file. `line` is where it begins, from 1."""

    where: str
    line: int
    value: object


class Documents(msgspec.Struct, frozen=True, kw_only=True):
    documents: tuple[Document, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


class _BadDocument(Exception):
    def __init__(self, code: str, message: str, line: int) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


def parse_documents(where: str, text: str) -> Documents:
    """Every document of a text; what is empty is left out. One that cannot be read does not hide the others.

    Documents of YAML are told apart by their `---` lines before anything is parsed, as kubectl does it.
    """
    if len(text.encode(errors="surrogatepass")) > FILE_LIMIT_BYTES:
        message = f"the file is larger than {FILE_LIMIT_BYTES} bytes"
        return Documents(problems=(Diagnostic(code="too-large", message=message, where=where),))
    documents: list[Document] = []
    problems: list[Diagnostic] = []
    for offset, part in _split(text):
        try:
            for line, value in _read(part):
                if len(documents) == DOCUMENTS_LIMIT:
                    raise _BadDocument("too-large", f"the file has more than {DOCUMENTS_LIMIT} documents", line)
                documents.append(Document(where=where, line=offset + line, value=value))
        except _BadDocument as bad:
            problems.append(Diagnostic(code=bad.code, message=str(bad), where=f"{where}:{offset + bad.line}"))
        if len(documents) >= DOCUMENTS_LIMIT and problems:
            break
    return Documents(documents=tuple(documents), problems=tuple(problems))


def _split(text: str) -> Iterator[tuple[int, str]]:
    """(lines before it, text) of each document."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if _SEPARATOR.match(line) and number > 0]
    for start, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        part = lines[start:end]
        if any(not _NOTHING.fullmatch(line) for line in part):
            yield start, "".join(part)


def _read(text: str) -> Iterator[tuple[int, object]]:
    """(line from 1, value) of each document. What begins like JSON and is none may be YAML."""
    if not text.lstrip().startswith("{"):
        yield from _read_yaml(text)
        return
    try:
        yield _read_json(text)
    except json.JSONDecodeError as error:
        try:
            yield from tuple(_read_yaml(text))
        except _BadDocument:
            raise _BadDocument("parse-error", f"not JSON: {error.msg}", error.lineno) from error


def _read_json(text: str) -> tuple[int, object]:
    line = text[: len(text) - len(text.lstrip())].count("\n") + 1
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_repeats)
    except RecursionError:
        value = None
    if value is None or not _is_shallow(value):
        raise _BadDocument("too-deep", _TOO_DEEP, line)
    return line, value


def _refuse_constant(name: str) -> object:
    raise _BadDocument("parse-error", f"not JSON: {name}", 1)


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _BadDocument("parse-error", f"not JSON: key {repeated[:80]!r} stands twice", 1)
    return value


def _is_shallow(value: object) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [child for parent in level for child in _values(parent)]
        if not level:
            return True
    return False


def _values(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _read_yaml(text: str) -> Iterator[tuple[int, object]]:
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is None:
                break
            _check_size(node)
            value = loader.construct_document(node)
            if value is not None:
                yield node.start_mark.line + 1, value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise _BadDocument("parse-error", f"not YAML: {error.problem or error.context}", line) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _BadDocument("parse-error", f"not YAML: character {error.character!r}", line) from error
    except RecursionError:
        raise _BadDocument("too-deep", _TOO_DEEP, 1) from None
    except ValueError as error:
        raise _BadDocument("parse-error", f"not YAML: {error}", 1) from error


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: no timestamps, no repeated keys, text keys only."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        mapping = super().construct_mapping(node, deep=deep)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or not isinstance(self.construct_object(key), str):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key.value!r} stands twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return mapping


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _check_size(root: yaml.Node) -> None:
    """Count what the document will be with every alias followed, without following any twice."""
    line = root.start_mark.line + 1
    sizes: dict[int, int] = {}
    if _size(root, sizes, 0, line) > NODES_LIMIT:
        raise _BadDocument("too-large", f"aliases make the document larger than {NODES_LIMIT} values", line)


def _size(node: yaml.Node, sizes: dict[int, int], depth: int, line: int) -> int:
    if depth > DEPTH_LIMIT:
        raise _BadDocument("too-deep", _TOO_DEEP, line)
    known = sizes.get(id(node))
    if known is not None:
        if known == 0:
            raise _BadDocument("parse-error", "an alias that contains itself", node.start_mark.line + 1)
        return known
    sizes[id(node)] = 0
    total = 1
    for child in _children(node):
        total += _size(child, sizes, depth + 1, line)
    sizes[id(node)] = total
    return total


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
