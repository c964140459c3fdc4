"""The kinds of object the single machine knows, and how an object is named."""

from collections.abc import Mapping
from typing import Any

import msgspec

from aether.errors import AetherError

KubeObject = dict[str, Any]
"""An object as Kubernetes writes it in JSON. Objects that the store hands out are never changed by anybody."""

DEFAULT_NAMESPACE = "default"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    plural: str
    api_version: str
    is_namespaced: bool = True


_ALL = (
    Kind(name="Namespace", plural="namespaces", api_version="v1", is_namespaced=False),
    Kind(name="Node", plural="nodes", api_version="v1", is_namespaced=False),
    Kind(name="ServiceAccount", plural="serviceaccounts", api_version="v1"),
    Kind(name="ConfigMap", plural="configmaps", api_version="v1"),
    Kind(name="Service", plural="services", api_version="v1"),
    Kind(name="Deployment", plural="deployments", api_version="apps/v1"),
    Kind(name="Pod", plural="pods", api_version="v1"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
"""In the order in which they must be applied: what is named comes before what names it."""

APPLY_ORDER: Mapping[str, int] = {kind.name: position for position, kind in enumerate(_ALL)}


class UnknownKind(AetherError):
    code = "unknown-kind"

    def __init__(self, kind: object) -> None:
        super().__init__(f"kind {kind!r} is not known here; known are {', '.join(KINDS)}")


class ObjectKey(msgspec.Struct, frozen=True, order=True):
    """What tells objects apart. `namespace` is empty for kinds that have none."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def key_of(object_: Mapping[str, Any]) -> ObjectKey:
    """The key of an object; a missing namespace is `default`.

    Raises:
        UnknownKind: the kind is not in `KINDS`.
    """
    kind = KINDS.get(object_.get("kind", ""))
    if kind is None:
        raise UnknownKind(object_.get("kind"))
    metadata = object_["metadata"]
    namespace = (metadata.get("namespace") or DEFAULT_NAMESPACE) if kind.is_namespaced else ""
    return ObjectKey(kind.name, namespace, metadata["name"])


def labels_of(object_: Mapping[str, Any]) -> dict[str, str]:
    return dict(object_["metadata"].get("labels") or {})


def is_terminating(object_: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in object_["metadata"]


def has_labels(object_: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    labels = object_["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in wanted.items())
