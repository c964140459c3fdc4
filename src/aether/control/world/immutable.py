"""What of an object cannot change once it is written: an admission of the store, as Kubernetes has it."""

from collections.abc import Mapping
from typing import Any

from aether.adapters.objects.kinds import KubeObject, key_of
from aether.errors import Diagnostic, Rejected


def check_immutable(new: KubeObject, old: KubeObject | None) -> KubeObject:
    """The object as it is.

    Raises:
        Rejected: a pod's spec, or a Deployment's selector, would change.
    """
    if old is None:
        return new
    if new["kind"] == "Pod":
        before, after = _without_node(old), _without_node(new)
        changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        node = old["spec"].get("nodeName")
        if node and new["spec"].get("nodeName") != node:
            changed.append("nodeName")
        if changed:
            raise _refusal(new, f"spec.{changed[0]}", "the spec of a pod cannot change: delete the pod first")
    if new["kind"] == "Deployment" and new["spec"].get("selector") != old["spec"].get("selector"):
        raise _refusal(new, "spec.selector", "the selector of a Deployment cannot change: delete the Deployment first")
    return new


def _without_node(pod: KubeObject) -> Mapping[str, Any]:
    return {name: value for name, value in pod["spec"].items() if name != "nodeName"}


def _refusal(object_: KubeObject, field: str, message: str) -> Rejected:
    return Rejected([Diagnostic(code="immutable", message=message, subject=str(key_of(object_)), field=field)])
