"""Object metadata, parsed."""

import re
from collections.abc import Callable

from aether.model.kube import Meta
from aether.model.kube_fields import Fields, is_subdomain
from aether.model.names import is_label

_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_INERT = ("resourceVersion", "managedFields", "ownerReferences", "selfLink", "finalizers", "creationTimestamp")


def parse_meta(fields: Fields, is_valid: Callable[[str], bool], what: str) -> Meta:
    """The metadata of an object, whose name must be valid; `what` describes valid names."""
    fields.ignore("apiVersion", "kind")
    if not fields.has("metadata"):
        fields.refuse("metadata", "is missing", code="missing-field")
        return Meta(name="")
    metadata = fields.child("metadata")
    name = metadata.named("name", is_valid, what)
    namespace = metadata.named("namespace", is_label, "an RFC 1123 label") if metadata.has("namespace") else ""
    meta = Meta(
        name=name,
        namespace=namespace,
        uid=metadata.text("uid"),
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        generation=metadata.number("generation"),
        is_terminating=metadata.has("deletionTimestamp"),
        deletion_grace_s=metadata.number("deletionGracePeriodSeconds"),
    )
    check_labels(metadata, "labels", meta.labels)
    for key, _ in meta.annotations:
        if not is_qualified_name(key.lower()):
            metadata.refuse("annotations", f"{key[:80]!r} is no annotation name", code="bad-name", item=key)
    metadata.ignore(*_INERT)
    metadata.close()
    return meta


def check_labels(fields: Fields, name: str, labels: tuple[tuple[str, str], ...]) -> None:
    for key, value in labels:
        if not is_qualified_name(key):
            fields.refuse(name, f"{key[:80]!r} is no label name", code="bad-name", item=key)
        if _VALUE.fullmatch(value) is None:
            fields.refuse(f"{name}[{key}]", f"{value[:80]!r} is no label value", code="bad-name", item=value)


def is_qualified_name(text: str) -> bool:
    """``name`` or ``domain/name``, as labels and annotations are named."""
    prefix, separator, name = text.rpartition("/")
    return _NAME.fullmatch(name) is not None and (not separator or is_subdomain(prefix))
