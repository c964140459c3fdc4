import pytest

from aether.adapters.objects.draft import Draft, stamped
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.store import USER, Applied
from aether.errors import Diagnostic, Rejected

NAMESPACE: KubeObject = {"kind": "Namespace", "metadata": {"name": "default", "uid": "n"}}
MAP = ObjectKey("ConfigMap", "default", "m")


def config_map(value: str) -> KubeObject:
    return {"kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": value}}


def refuse_bad(new: KubeObject, old: KubeObject | None) -> KubeObject:
    if new["data"] == {"a": "bad"}:
        raise Rejected([Diagnostic(code="bad", message="bad")])
    return new


def draft() -> Draft:
    objects = {ObjectKey("Namespace", "", "default"): NAMESPACE}
    return Draft(objects=objects, applied={}, admissions=(refuse_bad,), now="now", new_uid=lambda: "u")


def test_an_object_sees_those_applied_before_it_in_the_same_draft() -> None:
    one = draft()
    assert one.apply(config_map("1"), USER) is Applied.CREATED
    assert one.apply(config_map("2"), USER) is Applied.CONFIGURED
    assert one.apply(config_map("2"), USER) is Applied.UNCHANGED
    assert one.changes[MAP]["data"] == {"a": "2"}


def test_an_object_that_is_refused_leaves_the_draft_as_it_was() -> None:
    one = draft()
    one.apply(config_map("1"), USER)
    changes, applied = dict(one.changes), dict(one.applied)
    with pytest.raises(Rejected):
        one.apply(config_map("bad"), USER)
    assert (one.changes, one.applied) == (changes, applied)


def test_a_stamp_is_a_new_object() -> None:
    assert stamped(NAMESPACE, 7)["metadata"]["resourceVersion"] == "7"
    assert "resourceVersion" not in NAMESPACE["metadata"]
