"""The object store of the single machine: objects in memory, what the user applied in a file.

Owns: revisions, merging, deletion and what follows from it, the ring of events that watches read.
Leaves to others: what an object means (admissions and controllers), when pods are really gone (the pod runner).
"""

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.objects.draft import Draft, stamped
from aether.adapters.objects.kinds import (
    DEFAULT_NAMESPACE,
    KubeObject,
    ObjectKey,
    has_labels,
    is_terminating,
)
from aether.adapters.objects.state import StateFile
from aether.adapters.objects.store import (
    USER,
    Admission,
    Applied,
    Conflict,
    EventType,
    Gone,
    NotFound,
    WatchEvent,
)
from aether.adapters.objects.timestamps import format_time
from aether.adapters.objects.user_state import read_state, write_state
from aether.errors import AetherError, Diagnostic

KEPT_EVENTS = 10_000
"""How far behind a watch may fall before it must list again."""

DEFAULT_GRACE_S = 30
"""Seconds a pod that names no terminationGracePeriodSeconds gets (Kubernetes' own default)."""

SEED = "seed"
"""The manager of objects that exist in every world."""

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


class MemoryStore:
    """An `ObjectStore` in this process. Call `load` before anything else."""

    def __init__(
        self,
        *,
        clock: Clock,
        state: StateFile | None = None,
        admissions: Sequence[Admission] = (),
        kept_events: int = KEPT_EVENTS,
    ) -> None:
        self._clock = clock
        self._state = state
        self._admissions = tuple(admissions)
        self._objects: dict[ObjectKey, KubeObject] = {}
        self._owned: dict[str, set[ObjectKey]] = {}
        self._applied: dict[ObjectKey, dict[str, KubeObject]] = {}
        self._stranded: list[KubeObject] = []
        self._saved: list[KubeObject] | None = None
        self._revision = 0
        self._ring: deque[WatchEvent] = deque(maxlen=kept_events)
        self._changed = asyncio.Event()
        self._wakes: dict[int, tuple[Callable[[], None], frozenset[str]]] = {}
        self._serial = itertools.count()
        self._lock = asyncio.Lock()

    async def load(self) -> tuple[Diagnostic, ...]:
        """Bring back what the user applied; what could not be brought back stays in the file and is reported.

        Raises:
            StateUnreadable: the file is there and cannot be read.
        """
        await self.apply(_namespace(DEFAULT_NAMESPACE), SEED)
        if self._state is None or (data := self._state.load()) is None:
            return ()
        saved = read_state(data, self._state.path)
        self._revision = max(saved.revision, int(self._clock.wall() * 1000))
        problems: list[Diagnostic] = []
        draft = self._draft()
        for object_ in saved.objects:
            try:
                draft.apply(object_, USER)
            except AetherError as error:
                self._stranded.append(object_)
                subject = f"{object_.get('kind')} {object_.get('metadata', {}).get('name')}"
                where = str(self._state.path)
                problems.append(Diagnostic(code=error.code, message=str(error), where=where, subject=subject))
        self._commit(draft)
        return tuple(problems)

    def get(self, key: ObjectKey) -> KubeObject | None:
        return self._objects.get(key)

    def list(
        self, kind: str, namespace: str | None = None, labels: Mapping[str, str] | None = None
    ) -> tuple[Sequence[KubeObject], int]:
        keys = sorted(
            key
            for key, object_ in self._objects.items()
            if key.kind == kind and namespace in (None, key.namespace) and has_labels(object_, labels or {})
        )
        return [self._objects[key] for key in keys], self._revision

    async def watch(self, since: int, kind: str | None = None) -> AsyncIterator[WatchEvent]:
        seen = since
        while True:
            changed = self._changed
            told = seen
            for event in self._events_after(seen):
                seen = event.revision
                if kind is None or (event.object is not None and event.object["kind"] == kind):
                    yield event
                    told = seen
            if seen > told:
                yield WatchEvent(type=EventType.BOOKMARK, revision=seen)
            await changed.wait()

    def subscribe(self, wake: Callable[[], None], kinds: Collection[str] = ()) -> Callable[[], None]:
        number = next(self._serial)
        self._wakes[number] = (wake, frozenset(kinds))
        return lambda: self._wakes.pop(number, None) and None

    async def apply(self, object_: Mapping[str, Any], manager: str) -> Applied:
        (outcome,) = await self.apply_all([object_], manager)
        if isinstance(outcome, AetherError):
            raise outcome
        return outcome

    async def apply_all(self, objects: Iterable[Mapping[str, Any]], manager: str) -> tuple[Applied | AetherError, ...]:
        async with self._lock:
            draft = self._draft()
            outcomes: list[Applied | AetherError] = []
            for object_ in objects:
                try:
                    outcomes.append(draft.apply(object_, manager))
                except AetherError as error:
                    outcomes.append(error)
            if manager == USER:
                await self._save({**self._applied, **draft.applied})
            self._commit(draft)
            return tuple(outcomes)

    async def update_status(self, key: ObjectKey, status: Mapping[str, Any], *, uid: str = "") -> bool:
        async with self._lock:
            live = self._expect(key, uid)
            copy = msgspec.json.decode(msgspec.json.encode(status))
            if live.get("status") == copy:
                return False
            self._put(key, {**live, "status": copy})
            return True

    async def delete(self, key: ObjectKey, *, grace_s: int | None = None, uid: str = "") -> None:
        async with self._lock:
            self._expect(key, uid)
            if key == ObjectKey("Namespace", "", DEFAULT_NAMESPACE):
                raise Conflict(key, "this namespace cannot be deleted")
            doomed = self._what_goes_with(key)
            kept = {other: bodies for other, bodies in self._applied.items() if other not in doomed}
            if any(USER in self._applied.get(other, ()) for other in doomed):
                await self._save(kept)
            for other in doomed:
                self._applied.get(other, {}).pop(USER, None)
            self._end(key, grace_s)

    def _draft(self) -> Draft:
        return Draft(
            objects=self._objects,
            applied=self._applied,
            admissions=self._admissions,
            now=format_time(self._clock.wall()),
            new_uid=lambda: str(uuid.uuid4()),
        )

    def _expect(self, key: ObjectKey, uid: str) -> KubeObject:
        live = self._objects.get(key)
        if live is None:
            raise NotFound(key)
        if uid and live["metadata"]["uid"] != uid:
            raise Conflict(key, f"it is another object now (uid {live['metadata']['uid']}, not {uid})")
        return live

    async def _save(self, applied: Mapping[ObjectKey, Mapping[str, KubeObject]]) -> None:
        if self._state is None:
            return
        bodies = [by_manager[USER] for _, by_manager in sorted(applied.items()) if USER in by_manager] + self._stranded
        if bodies != self._saved:
            await self._state.save(write_state(self._revision, bodies))
            self._saved = bodies

    def _commit(self, draft: Draft) -> None:
        self._applied |= draft.applied
        for key, object_ in draft.changes.items():
            self._put(key, object_)
            if is_terminating(object_) and not object_["metadata"].get("finalizers"):
                self._end(key, None)

    def _put(self, key: ObjectKey, object_: KubeObject) -> None:
        known = key in self._objects
        self._revision += 1
        for owner in _owners(object_):
            self._owned.setdefault(owner, set()).add(key)
        self._objects[key] = stamped(object_, self._revision)
        self._tell(EventType.MODIFIED if known else EventType.ADDED, key, self._objects[key])

    def _tell(self, type_: EventType, key: ObjectKey, object_: KubeObject) -> None:
        self._ring.append(WatchEvent(type=type_, revision=self._revision, object=object_))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for wake, kinds in tuple(self._wakes.values()):
            if not kinds or key.kind in kinds:
                wake()

    def _events_after(self, since: int) -> Sequence[WatchEvent]:
        oldest = self._ring[0].revision if self._ring else self._revision + 1
        if not oldest - 1 <= since <= self._revision:
            raise Gone(since, oldest)
        return tuple(itertools.islice(self._ring, since + 1 - oldest, None))

    def _end(self, key: ObjectKey, grace_s: int | None) -> None:
        """Remove the object, or mark it if something still holds it."""
        live = self._objects[key]
        grace_s = self._grace(live, grace_s)
        if self._is_held(key, live, grace_s):
            self._mark(key, live, grace_s)
            if key.kind == "Namespace":
                self._end_contents(key.name)
                self._finish_namespace(key.name)
            return
        del self._objects[key]
        self._applied.pop(key, None)
        self._revision += 1
        self._tell(EventType.DELETED, key, stamped(live, self._revision))
        for owned in self._owned_by(live["metadata"]["uid"]):
            self._end(owned, None)
        self._owned.pop(live["metadata"]["uid"], None)
        self._finish_namespace(key.namespace)

    def _grace(self, live: KubeObject, asked_s: int | None) -> int:
        if live["kind"] != "Pod":
            return 0
        has_runner = bool(live.get("spec", {}).get("nodeName"))
        if not has_runner or live.get("status", {}).get("phase") in _TERMINAL_PHASES:
            return 0
        if asked_s is not None:
            return asked_s
        if is_terminating(live):
            return int(live["metadata"]["deletionGracePeriodSeconds"])
        return int(live["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S))

    def _is_held(self, key: ObjectKey, live: KubeObject, grace_s: int) -> bool:
        if live["metadata"].get("finalizers"):
            return True
        if key.kind == "Namespace":
            return any(other.namespace == key.name for other in self._objects)
        return key.kind == "Pod" and grace_s > 0

    def _mark(self, key: ObjectKey, live: KubeObject, grace_s: int) -> None:
        deadline = format_time(self._clock.wall() + grace_s)
        metadata = dict(live["metadata"])
        if not is_terminating(live) or deadline < metadata["deletionTimestamp"]:
            metadata |= {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": grace_s}
        marked = {**live, "metadata": metadata}
        if key.kind == "Namespace":
            marked["status"] = {"phase": "Terminating"}
        if marked != live:
            self._put(key, marked)

    def _end_contents(self, namespace: str) -> None:
        for other in sorted(key for key in self._objects if key.namespace == namespace):
            if other in self._objects:  # what another one owned is gone already
                self._end(other, None)

    def _finish_namespace(self, namespace: str) -> None:
        key = ObjectKey("Namespace", "", namespace)
        live = self._objects.get(key)
        if live is not None and is_terminating(live) and not self._is_held(key, live, 0):
            self._end(key, None)

    def _owned_by(self, uid: str) -> Sequence[ObjectKey]:
        """What it owns now; the index may name objects that are gone, or others of their name."""
        return sorted(
            key for key in self._owned.get(uid, ()) if key in self._objects and uid in _owners(self._objects[key])
        )

    def _what_goes_with(self, key: ObjectKey) -> frozenset[ObjectKey]:
        """The object and all that its end brings with it."""
        found: set[ObjectKey] = set()
        waiting = [key]
        while waiting:
            current = waiting.pop()
            if current in found:
                continue
            found.add(current)
            waiting += self._owned_by(self._objects[current]["metadata"]["uid"])
            if current.kind == "Namespace":
                waiting += [other for other in self._objects if other.namespace == current.name]
        return frozenset(found)


def _owners(object_: KubeObject) -> Sequence[str]:
    return [owner.get("uid", "") for owner in object_["metadata"].get("ownerReferences") or ()]


def _namespace(name: str) -> KubeObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
