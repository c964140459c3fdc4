"""Objects about to be written: applied one after another over the store's, and not yet seen by anybody."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from aether.adapters.objects.kinds import KubeObject, ObjectKey, is_terminating, key_of
from aether.adapters.objects.merge import merge
from aether.adapters.objects.store import USER, Admission, Applied, Conflict, NotFound

_SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
"""Metadata that no writer sets. The first two are preconditions when they are given."""


class Draft:
    """`changes` are the new objects by key, `applied` what the managers of what it met will have applied last."""

    def __init__(
        self,
        *,
        objects: Mapping[ObjectKey, KubeObject],
        applied: Mapping[ObjectKey, Mapping[str, KubeObject]],
        admissions: Sequence[Admission],
        now: str,
        new_uid: Callable[[], str],
    ) -> None:
        self.changes: dict[ObjectKey, KubeObject] = {}
        self.applied: dict[ObjectKey, dict[str, KubeObject]] = {}
        self._objects = objects
        self._applied_before = applied
        self._admissions = admissions
        self._now = now
        self._new_uid = new_uid

    def apply(self, object_: Mapping[str, Any], manager: str) -> Applied:
        """Add one object. Errors as `ObjectStore.apply`; an object that is refused leaves the draft as it was."""
        key = key_of(object_)
        body = _body(object_, key)
        live = self._get(key)
        _check_preconditions(key, object_["metadata"], live)
        if live is None:
            self._check_namespace(key)
            wanted = self._new(body)
        else:
            if manager == USER and is_terminating(live):
                raise Conflict(key, "it is being deleted; apply it again once it is gone")
            wanted = merge(live, before=self._before(key, manager), after=body)
        for admission in self._admissions:
            wanted = admission(wanted, live)
        others = {} if self._is_taken_over(key, manager) else self._by_manager(key)
        self.applied[key] = {**others, manager: body}
        return self._put(key, wanted, live)

    def _get(self, key: ObjectKey) -> KubeObject | None:
        return self.changes.get(key) or self._objects.get(key)

    def _before(self, key: ObjectKey, manager: str) -> KubeObject:
        if not self._is_taken_over(key, manager):
            return self._by_manager(key).get(manager, {})
        before: KubeObject = {}
        for body in self._by_manager(key).values():
            before = merge(before, before={}, after=body)
        return before

    def _is_taken_over(self, key: ObjectKey, manager: str) -> bool:
        """What the user applies for the first time becomes the user's: what controllers applied to it is dropped."""
        return manager == USER and USER not in self._by_manager(key)

    def _by_manager(self, key: ObjectKey) -> Mapping[str, KubeObject]:
        return self.applied.get(key) or self._applied_before.get(key, {})

    def _put(self, key: ObjectKey, wanted: KubeObject, live: KubeObject | None) -> Applied:
        if live is None:
            self.changes[key] = wanted
            return Applied.CREATED
        if wanted == live:
            return Applied.UNCHANGED
        metadata = dict(wanted["metadata"])
        if _content(wanted) != _content(live):
            metadata["generation"] = live["metadata"]["generation"] + 1
        self.changes[key] = {**wanted, "metadata": metadata}
        return Applied.CONFIGURED

    def _new(self, body: KubeObject) -> KubeObject:
        cleaned = merge({}, before={}, after=body)
        server_owned = {"uid": self._new_uid(), "creationTimestamp": self._now, "generation": 1}
        return {**cleaned, "metadata": {**cleaned["metadata"], **server_owned}}

    def _check_namespace(self, key: ObjectKey) -> None:
        if not key.namespace:
            return
        namespace = ObjectKey("Namespace", "", key.namespace)
        found = self._get(namespace)
        if found is None:
            raise NotFound(namespace)
        if is_terminating(found):
            raise Conflict(key, f"namespace {key.namespace} is being deleted")


def stamped(object_: KubeObject, revision: int) -> KubeObject:
    """The object as it is at `revision`."""
    return {**object_, "metadata": {**object_["metadata"], "resourceVersion": str(revision)}}


def _body(object_: Mapping[str, Any], key: ObjectKey) -> KubeObject:
    copy: KubeObject = msgspec.json.decode(msgspec.json.encode(object_))
    copy.pop("status", None)
    metadata = {name: value for name, value in copy["metadata"].items() if name not in _SERVER_OWNED}
    if key.namespace:
        metadata["namespace"] = key.namespace
    return {**copy, "metadata": metadata}


def _check_preconditions(key: ObjectKey, metadata: Mapping[str, Any], live: KubeObject | None) -> None:
    for name in ("uid", "resourceVersion"):
        expected = metadata.get(name)
        if not expected:
            continue
        found = None if live is None else live["metadata"].get(name)
        if found != expected:
            raise Conflict(key, f"its {name} is {found or 'gone'}, not {expected}")


def _content(object_: KubeObject) -> KubeObject:
    return {name: value for name, value in object_.items() if name not in {"metadata", "status"}}
