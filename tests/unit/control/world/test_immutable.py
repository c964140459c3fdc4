from typing import Any

import pytest

from aether.adapters.objects.kinds import KubeObject
from aether.control.world.immutable import check_immutable
from aether.errors import Rejected


def thing(kind: str = "Pod", **spec: Any) -> KubeObject:
    return {"kind": kind, "metadata": {"name": "p", "namespace": "shop"}, "spec": spec}


ALLOWED = [
    ("a new pod", thing(containers=[]), None),
    ("the same pod", thing(a=1), thing(a=1)),
    ("a pod that gets its node", thing(a=1, nodeName="n"), thing(a=1)),
    ("a pod that keeps its node", thing(a=1, nodeName="n"), thing(a=1, nodeName="n")),
    ("a Deployment of another size", thing("Deployment", selector=1, replicas=2), thing("Deployment", selector=1)),
    ("another Service", thing("Service", ports=[1]), thing("Service", ports=[2])),
]

REFUSED = [
    (thing(a=1), thing(a=2), "spec.a", "the spec of a pod cannot change: delete the pod first"),
    (thing(), thing(a=2), "spec.a", "the spec of a pod cannot change: delete the pod first"),
    (
        thing(nodeName="m"),
        thing(nodeName="n"),
        "spec.nodeName",
        "the spec of a pod cannot change: delete the pod first",
    ),
    (
        thing("Deployment", selector=1),
        thing("Deployment", selector=2),
        "spec.selector",
        "the selector of a Deployment cannot change: delete the Deployment first",
    ),
]


@pytest.mark.parametrize(("what", "new", "old"), ALLOWED, ids=[row[0] for row in ALLOWED])
def test_what_may_be_written(what: str, new: KubeObject, old: KubeObject | None) -> None:
    assert check_immutable(new, old) is new, what


@pytest.mark.parametrize(("new", "old", "field", "message"), REFUSED)
def test_what_cannot_change_is_named(new: KubeObject, old: KubeObject, field: str, message: str) -> None:
    with pytest.raises(Rejected) as caught:
        check_immutable(new, old)
    (problem,) = caught.value.diagnostics
    assert (problem.field, problem.message) == (field, message)
    assert problem.subject.endswith("shop/p")
