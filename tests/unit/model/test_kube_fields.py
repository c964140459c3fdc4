import pytest

from aether.errors import Diagnostic
from aether.model.kube_fields import WARNING_CODES, Fields, is_subdomain, refuse_repeats
from aether.model.names import is_label


def read(value: object, path: str = "spec") -> tuple[Fields, list[Diagnostic]]:
    problems: list[Diagnostic] = []
    return Fields(value, path, problems), problems


def said(problems: list[Diagnostic]) -> list[str]:
    return [f"{problem.field}: {problem.message}" for problem in problems]


def test_absent_and_null_are_the_same() -> None:
    fields, problems = read({"a": None})
    assert not fields.has("a")
    assert (fields.text("a", "x"), fields.number("a", default=3), fields.flag("a", default=True)) == ("x", 3, True)
    assert (fields.texts("a"), fields.text_map("a"), fields.children("a")) == ((), (), ())
    assert not problems


WRONG = [
    (lambda fields: fields.text("a"), 7, "spec.a: must be text; write it in quotes"),
    (lambda fields: fields.text("a"), ["x"], "spec.a: must be text"),
    (lambda fields: fields.number("a"), "7", "spec.a: must be a whole number"),
    (lambda fields: fields.number("a"), True, "spec.a: must be a whole number"),
    (lambda fields: fields.number("a", low=1), 0, "spec.a: 0 must be from 1 to 2147483647"),
    (lambda fields: fields.flag("a"), "yes", "spec.a: must be true or false"),
    (lambda fields: fields.choice("a", ("x", "y"), "x"), "z", "spec.a: 'z' must be one of x, y"),
    (lambda fields: fields.texts("a"), "x", "spec.a: must be a list"),
    (lambda fields: fields.texts("a"), ["x", 7], "spec.a[1]: must be text; write it in quotes"),
    (lambda fields: fields.text_map("a"), {"k": 7}, "spec.a.k: must be text; write it in quotes"),
    (lambda fields: fields.child("a"), 7, "spec.a: must be an object"),
    (lambda fields: fields.children("a"), [{}, 7], "spec.a[1]: must be an object"),
    (lambda fields: fields.port_number("a"), None, "spec.a: is missing"),
    (lambda fields: fields.port_number("a"), "80", "spec.a: must be a port number (not in quotes)"),
    (lambda fields: fields.port_number("a"), 65536, "spec.a: port 65536 must be from 1 to 65535"),
    (lambda fields: fields.port("a"), "Not A Name", "spec.a: 'Not A Name' is no port name"),
    (lambda fields: fields.port("a"), "80", "spec.a: must be a port number (not in quotes)"),
    (lambda fields: fields.named("a", is_label, "a label"), None, "spec.a: is missing"),
    (lambda fields: fields.named("a", is_label, "a label"), "", "spec.a: is empty"),
    (lambda fields: fields.named("a", is_label, "a label"), "A_", "spec.a: 'A_' must be a label"),
    (lambda fields: fields.close(), 7, "spec.a: field 'a' is not supported here and is ignored"),
]


@pytest.mark.parametrize(("ask", "value", "expected"), WRONG, ids=[row[2] for row in WRONG])
def test_what_is_wrong_is_placed(ask: object, value: object, expected: str) -> None:
    fields, problems = read({"a": value})
    assert callable(ask)
    ask(fields)
    assert said(problems) == [expected]


def test_a_port_is_a_number_or_a_name() -> None:
    fields, problems = read({"a": 80, "b": "http-main"})
    assert (fields.port("a"), fields.port("b")) == (80, "http-main")
    assert not problems


def test_only_what_nobody_asked_for_is_ignored_and_that_is_a_warning() -> None:
    fields, problems = read({"a": "x", "b": "y", "c": 1, "d": 2})
    fields.text("a")
    fields.ignore("b")
    fields.close()
    assert said(problems) == [
        "spec.c: field 'c' is not supported here and is ignored",
        "spec.d: field 'd' is not supported here and is ignored",
    ]
    assert {problem.code for problem in problems} <= WARNING_CODES


def test_repeats_are_refused_where_they_stand() -> None:
    fields, problems = read({"list": [{"name": "a"}, {"name": "b"}, {"name": "a"}]})
    children = fields.children("list")
    refuse_repeats([(child, child.text("name")) for child in children], "name", "volume")
    assert said(problems) == ["spec.list[2].name: volume a is there twice"]


def test_long_texts_are_cut_in_messages() -> None:
    fields, problems = read({"a": "x" * 500})
    fields.choice("a", ("y",), "y")
    assert len(problems[0].message) < 120
    assert len(problems[0].item) == 300


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", True), ("a.b-c.d0", True), ("0", True), ("a" * 253, True), ("a" * 254, False), ("a..b", False)]
    + [(text, False) for text in ("", "A", "-a", "a-", "a.", ".a", "a_b", "a\n", "ä")],
)
def test_subdomains(text: str, expected: bool) -> None:
    assert is_subdomain(text) is expected
