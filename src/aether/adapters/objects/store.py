"""The object store as everybody sees it: Kubernetes' list, watch, apply and delete, without the wire.

Owns: the interface and its errors. `memory.py` is the implementation of the single machine; an API server replaces it
behind the same interface.

Rules: an object handed out is never changed, by nobody; every write makes a new one. Reads never wait, writes may.
"""

import enum
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.errors import AetherError

USER = "user"
"""The manager whose objects are kept over a restart. Controllers have names of their own."""


class Applied(enum.StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"


class StoreError(AetherError):
    code = "store-error"


class NotFound(StoreError):
    code = "not-found"

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(f"{key} does not exist")


class Conflict(StoreError):
    """The object is not what the writer thought: read it again."""

    code = "conflict"

    def __init__(self, key: ObjectKey, why: str) -> None:
        super().__init__(f"{key}: {why}")


class Gone(StoreError):
    """A watch from a revision that is too old: list again."""

    code = "gone"

    def __init__(self, since: int, oldest: int) -> None:
        super().__init__(f"revision {since} is too old; events are kept from {oldest} on")


class EventType(enum.StrEnum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class WatchEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `object` is the object after it (before it, for DELETED); a bookmark has none."""

    type: EventType
    revision: int
    object: KubeObject | None = None


Admission = Callable[[KubeObject, KubeObject | None], KubeObject]
"""(object about to be written, object as it was) → the object to write. Raises `Rejected` to refuse it."""


class ObjectStore(Protocol):
    def get(self, key: ObjectKey) -> KubeObject | None: ...

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Sequence[KubeObject], int]:
        """The objects of `kind`, sorted by namespace and name, and the revision to watch from."""

    def watch(self, since: int, kind: str | None = None) -> AsyncIterator[WatchEvent]:
        """Every change after revision `since`, in order, for ever; a bookmark whenever the watcher has caught up.

        Raises:
            Gone: `since` is older than the events that are kept, at once or when the watcher falls that far behind.
        """

    def subscribe(self, wake: Callable[[], None], kinds: Collection[str] = ()) -> Callable[[], None]:
        """Call `wake` after every change of those kinds (all, if none are given), until the result is called."""

    async def apply(self, object_: Mapping[str, Any], manager: str) -> Applied:
        """Make the fields that `object_` names what it says; drop those that `manager` named before and not now.

        `status` is ignored. A `metadata.resourceVersion` or `metadata.uid` in it is a precondition.

        Raises:
            Conflict: a precondition does not hold, or the object (or its namespace) is being deleted.
            NotFound: its namespace does not exist.
            Rejected: an admission refused it.
            StorageFailed: the disk did; nothing was changed.
        """

    async def apply_all(self, objects: Iterable[Mapping[str, Any]], manager: str) -> tuple[Applied | AetherError, ...]:
        """`apply` for each, in order, saved once; what became of each. One that is refused does not hold up the others.

        Raises:
            StorageFailed: nothing was changed.
        """

    async def update_status(self, key: ObjectKey, status: Mapping[str, Any], *, uid: str = "") -> bool:
        """Replace the status; False if it is that already.

        Raises:
            NotFound: there is no such object.
            Conflict: `uid` is given and is not the object's.
        """

    async def delete(self, key: ObjectKey, *, grace_s: int | None = None, uid: str = "") -> None:
        """Ask for the object's end.

        A pod that was assigned to a node stays, marked with deletionTimestamp, until the runner of that node deletes it
        with `grace_s` 0; a namespace until it is empty; an object with finalizers until they are gone. Everything else
        goes at once. What an object that is gone owned is deleted in turn.

        Raises:
            NotFound: there is no such object.
            Conflict: `uid` is given and is not the object's.
        """
