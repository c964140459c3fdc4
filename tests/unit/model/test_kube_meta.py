import pytest

from aether.errors import Diagnostic
from aether.model.kube import Meta
from aether.model.kube_fields import Fields, is_subdomain
from aether.model.kube_meta import is_qualified_name, parse_meta


def parsed(metadata: object) -> tuple[Meta, list[str]]:
    problems: list[Diagnostic] = []
    meta = parse_meta(Fields({"metadata": metadata}, "", problems), is_subdomain, "a subdomain")
    return meta, [f"{problem.field}: {problem.message}" for problem in problems]


def test_everything_that_is_read() -> None:
    meta, problems = parsed(
        {
            "name": "cart",
            "namespace": "shop",
            "uid": "u",
            "labels": {"b": "2", "a": "1"},
            "annotations": {"x.io/Y": "text"},
            "generation": 3,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 30,
            "resourceVersion": "7",
            "ownerReferences": [],
        }
    )
    assert meta == Meta(
        name="cart",
        namespace="shop",
        uid="u",
        labels=(("a", "1"), ("b", "2")),
        annotations=(("x.io/Y", "text"),),
        generation=3,
        is_terminating=True,
        deletion_grace_s=30,
    )
    assert not problems


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, "metadata: is missing"),
        ({}, "metadata.name: is missing"),
        ({"generateName": "x-", "name": "a"}, "metadata.generateName: field 'generateName' is not supported here"),
        ({"name": "a", "namespace": "A"}, "metadata.namespace: 'A' must be an RFC 1123 label"),
        ({"name": "a", "labels": {"a b": "c"}}, "metadata.labels: 'a b' is no label name"),
        ({"name": "a", "labels": {"a": "b c"}}, "metadata.labels[a]: 'b c' is no label value"),
        ({"name": "a", "labels": {"a": "x" * 64}}, "metadata.labels[a]: 'xxx"),
        ({"name": "a", "annotations": {"a b": "c"}}, "metadata.annotations: 'a b' is no annotation name"),
    ],
)
def test_what_is_wrong(metadata: object, expected: str) -> None:
    _, (problem,) = parsed(metadata)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("app", True),
        ("x.io/app", True),
        ("A_b.c-d", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("x.io/", False),
        ("/app", False),
        ("X.io/app", False),
        ("a/b/c", False),
    ],
)
def test_qualified_names(text: str, expected: bool) -> None:
    assert is_qualified_name(text) is expected
