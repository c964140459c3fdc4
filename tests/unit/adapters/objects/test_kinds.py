import pytest

from aether.adapters.objects.kinds import KINDS, ObjectKey, UnknownKind, has_labels, is_terminating, key_of, labels_of


@pytest.mark.parametrize(
    ("kind", "namespace", "key"),
    [
        ("Pod", "shop", "Pod shop/x"),
        ("Pod", None, "Pod default/x"),
        ("Pod", "", "Pod default/x"),
        ("Namespace", None, "Namespace x"),
        ("Namespace", "ignored", "Namespace x"),
    ],
)
def test_keys_say_where_an_object_is(kind: str, namespace: str | None, key: str) -> None:
    metadata = {"name": "x"} if namespace is None else {"name": "x", "namespace": namespace}
    assert str(key_of({"kind": kind, "metadata": metadata})) == key


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownKind, match="kind 'Gizmo' is not known here; known are Namespace, "):
        key_of({"kind": "Gizmo", "metadata": {"name": "x"}})


def test_every_kind_has_its_place() -> None:
    assert [kind.plural for kind in KINDS.values()] == [
        "namespaces",
        "nodes",
        "serviceaccounts",
        "configmaps",
        "services",
        "deployments",
        "pods",
    ]
    assert ObjectKey("Pod", "a", "z") < ObjectKey("Pod", "b", "a")


def test_labels_may_be_missing() -> None:
    bare = {"metadata": {"labels": None}}
    assert labels_of(bare) == {}
    assert has_labels(bare, {})
    assert not has_labels(bare, {"a": "b"})


def test_a_terminating_object_has_a_time_to_go() -> None:
    assert is_terminating({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert not is_terminating({"metadata": {}})
