import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.objects import documents
from aether.adapters.objects.documents import parse_documents

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

UNREADABLE = [
    ("a list that does not end", "a: 1\n---\nb: [\n", "f.yaml:4: not YAML: expected the node content"),
    ("a tab", "a: b\n\tc: d\n", "f.yaml:2: not YAML: found character '\\t'"),
    ("a key twice", "a: 1\nb: 2\na: 3\n", "f.yaml:3: not YAML: key 'a' stands twice"),
    ("a key that is no text", "1: 2\n", "f.yaml:1: not YAML: a key must be text"),
    ("a key that is a list", "? [a]\n: b\n", "f.yaml:1: not YAML: found unhashable key"),
    ("a tag of Python's", "a: !!python/object:os.system x\n", "f.yaml:1: not YAML: could not determine a constructor"),
    ("a character that is none", "a: 1\n\x00\n", "f.yaml:2: not YAML: character"),
    ("an alias in itself", "a: &a [*a]\n", "f.yaml:1: an alias that contains itself"),
    ("aliases that stand for millions", BOMB, "f.yaml:1: aliases make the document larger than 500000 values"),
    ("lists in lists", "[" * 5000, "f.yaml:1: nested deeper than 64 levels"),
    ("JSON that does not end", '{"a": 1', "f.yaml:1: not JSON: Expecting ',' delimiter"),
    ("JSON with a key twice", '{"a": 1, "a": 2}', "f.yaml:1: not JSON: key 'a' stands twice"),
    ("JSON with NaN", '{"a": NaN}', "f.yaml:1: not JSON: NaN"),
    ("deep JSON", '{"a":' * 80 + "1" + "}" * 80, "f.yaml:1: nested deeper than 64 levels"),
    ("JSON too deep to parse", '{"a":' * 9000 + "1" + "}" * 9000, "f.yaml:1: nested deeper than 64 levels"),
]


@pytest.mark.parametrize(("what", "text", "expected"), UNREADABLE, ids=[row[0] for row in UNREADABLE])
def test_what_cannot_be_read_is_said_with_its_line(what: str, text: str, expected: str) -> None:
    (problem,) = parse_documents("f.yaml", text).problems
    assert str(problem).startswith(expected), what


def test_documents_know_their_lines() -> None:
    text = "# a comment\n---\na: 1\n--- # another\n\nb: 2\n---\n# nothing\n---\n{c: 3}\n"
    parsed = parse_documents("f.yaml", text)
    assert [(one.line, one.value) for one in parsed.documents] == [(3, {"a": 1}), (6, {"b": 2}), (10, {"c": 3})]
    assert not parsed.problems


def test_one_bad_document_hides_no_other() -> None:
    parsed = parse_documents("f.yaml", "a: 1\n---\nb: [\n---\nc: 3\n")
    assert [one.value for one in parsed.documents] == [{"a": 1}, {"c": 3}]
    assert len(parsed.problems) == 1


def test_json_is_read_as_json() -> None:
    text = '\n{\n\t"a": "b",\n\t"n": 1e3\n}\n'
    (document,) = parse_documents("f.json", text).documents
    assert (document.line, document.value) == (2, {"a": "b", "n": 1000.0})


def test_flow_yaml_that_looks_like_json_is_read_as_yaml() -> None:
    (document,) = parse_documents("f.yaml", "{apiVersion: v1, kind: Namespace}").documents
    assert document.value == {"apiVersion": "v1", "kind": "Namespace"}


def test_a_date_stays_text() -> None:
    (document,) = parse_documents("f.yaml", "a: 2026-11-29").documents
    assert document.value == {"a": "2026-11-29"}


def test_aliases_and_merge_keys_work() -> None:
    (document,) = parse_documents("f.yaml", "a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}").documents
    assert document.value == {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "y": 2}}


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# only words\n", "%YAML 1.1\n---\n"])
def test_what_is_empty_is_nothing(text: str) -> None:
    parsed = parse_documents("f.yaml", text)
    assert (parsed.documents, parsed.problems) == ((), ())


def test_a_file_has_a_size_and_a_number_of_documents() -> None:
    large = parse_documents("f.yaml", "#" * (documents.FILE_LIMIT_BYTES + 1))
    assert [problem.code for problem in large.problems] == ["too-large"]
    many = parse_documents("f.yaml", "a: 1\n---\n" * (documents.DOCUMENTS_LIMIT + 5))
    assert len(many.documents) == documents.DOCUMENTS_LIMIT
    assert [problem.code for problem in many.problems] == ["too-large"]


@given(st.text() | st.text(alphabet="-:[]{}&*\n a'\"|#%!", max_size=60))
def test_any_text_gives_documents_or_problems(text: str) -> None:
    parse_documents("f.yaml", text)


@given(st.recursive(st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=10))
def test_json_comes_back_as_it_was(value: object) -> None:
    document = {"value": value}
    (parsed,) = parse_documents("f.json", json.dumps(document)).documents
    assert parsed.value == document
