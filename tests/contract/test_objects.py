"""What every `ObjectStore` does. A new implementation joins `STORES`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import (
    USER,
    Admission,
    Applied,
    Conflict,
    EventType,
    Gone,
    NotFound,
    ObjectStore,
    WatchEvent,
)
from aether.errors import AetherError, Diagnostic, Rejected

KEPT_EVENTS = 50
NONE: Mapping[str, str] = {}


def _refuse_evil(new: KubeObject, old: KubeObject | None) -> KubeObject:
    if new["metadata"]["name"] == "evil":
        raise Rejected([Diagnostic(code="evil", message="no")])
    if new["kind"] == "Service":
        return {**new, "spec": {**new["spec"], "clusterIP": "10.96.0.7"}}
    return new


async def _memory(clock: ManualClock, admission: Admission) -> ObjectStore:
    store = MemoryStore(clock=clock, admissions=(admission,), kept_events=KEPT_EVENTS)
    await store.load()
    return store


STORES: Mapping[str, Callable[[ManualClock, Admission], Awaitable[ObjectStore]]] = {"memory": _memory}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, clock: ManualClock) -> ObjectStore:
    return await STORES[request.param](clock, _refuse_evil)


def thing(kind: str, name: str, *, namespace: str = "", labels: Mapping[str, str] = NONE, **fields: Any) -> KubeObject:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


def pod(name: str = "p", *, node: str = "", **spec: Any) -> KubeObject:
    return thing("Pod", name, spec={**({"nodeName": node} if node else {}), **spec})


POD = ObjectKey("Pod", "default", "p")
MAP = ObjectKey("ConfigMap", "default", "m")


def found(store: ObjectStore, key: ObjectKey) -> KubeObject:
    live = store.get(key)
    assert live is not None
    return live


async def events(store: ObjectStore, since: int, count: int, kind: str | None = None) -> list[WatchEvent]:
    result: list[WatchEvent] = []
    watching = store.watch(since, kind)
    async with asyncio.timeout(5):
        async for event in watching:
            result.append(event)
            if len(result) == count:
                break
    await _close(watching)
    return result


async def _close(watching: AsyncIterator[WatchEvent]) -> None:
    close = getattr(watching, "aclose", None)
    if close is not None:
        await close()


async def test_a_new_object_gets_what_only_the_server_gives(store: ObjectStore) -> None:
    assert await store.apply(pod(node="n"), USER) is Applied.CREATED

    metadata = found(store, POD)["metadata"]

    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert len(metadata["uid"]) == 36
    assert int(metadata["resourceVersion"]) > 0


async def test_applying_the_same_again_changes_nothing_and_wakes_nobody(store: ObjectStore) -> None:
    await store.apply(pod(node="n"), USER)
    before = found(store, POD)
    wakes: list[int] = []
    store.subscribe(lambda: wakes.append(1))

    assert await store.apply(pod(node="n"), USER) is Applied.UNCHANGED

    assert found(store, POD) is before
    assert not wakes


async def test_generation_counts_changes_of_content_and_not_of_labels(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    await store.apply(thing("Pod", "p", labels={"a": "b"}, spec={}), USER)
    assert found(store, POD)["metadata"]["generation"] == 1

    assert await store.apply(pod(restartPolicy="Never"), USER) is Applied.CONFIGURED
    assert found(store, POD)["metadata"]["generation"] == 2


async def test_a_manager_moves_its_own_fields_and_nobody_elses(store: ObjectStore) -> None:
    await store.apply(thing("ConfigMap", "m", data={"a": "1", "b": "2"}), USER)
    await store.apply(thing("ConfigMap", "m", data={"c": "3"}), "controller")

    await store.apply(thing("ConfigMap", "m", data={"a": "9"}), USER)

    assert found(store, MAP)["data"] == {"a": "9", "c": "3"}


async def test_a_manager_that_applies_again_sets_its_fields_back(store: ObjectStore) -> None:
    await store.apply(thing("ConfigMap", "m", data={"a": "1"}), "controller")
    await store.apply(thing("ConfigMap", "m", data={"a": "2"}), "somebody")

    assert await store.apply(thing("ConfigMap", "m", data={"a": "1"}), "controller") is Applied.CONFIGURED

    assert found(store, MAP)["data"] == {"a": "1"}


async def test_what_the_user_applies_over_a_controllers_object_is_the_users(store: ObjectStore) -> None:
    await store.apply(thing("ConfigMap", "m", labels={"made": "by-us"}, data={"a": "1"}), "controller")
    uid = found(store, MAP)["metadata"]["uid"]

    await store.apply(thing("ConfigMap", "m", data={"b": "2"}), USER)

    assert found(store, MAP)["data"] == {"b": "2"}
    assert "labels" not in found(store, MAP)["metadata"] or not found(store, MAP)["metadata"]["labels"]
    assert found(store, MAP)["metadata"]["uid"] == uid


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_a_precondition_that_does_not_hold_is_a_conflict(store: ObjectStore, field: str) -> None:
    await store.apply(pod(), USER)
    stale = pod(restartPolicy="Never")
    stale["metadata"][field] = "77"

    with pytest.raises(Conflict):
        await store.apply(stale, USER)

    assert "restartPolicy" not in found(store, POD)["spec"]


async def test_a_precondition_that_holds_is_taken(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    fresh = pod(restartPolicy="Never")
    fresh["metadata"]["resourceVersion"] = found(store, POD)["metadata"]["resourceVersion"]
    assert await store.apply(fresh, USER) is Applied.CONFIGURED


async def test_a_precondition_on_an_object_that_is_gone_is_a_conflict(store: ObjectStore) -> None:
    stale = pod()
    stale["metadata"]["uid"] = "77"
    with pytest.raises(Conflict):
        await store.apply(stale, USER)


async def test_apply_leaves_the_status_alone_and_update_status_the_rest(store: ObjectStore) -> None:
    await store.apply({**pod(), "status": {"phase": "Lies"}}, USER)
    assert "status" not in found(store, POD)

    assert await store.update_status(POD, {"phase": "Running"})
    assert not await store.update_status(POD, {"phase": "Running"})
    await store.apply(pod(restartPolicy="Never"), USER)

    assert found(store, POD)["status"] == {"phase": "Running"}
    assert found(store, POD)["metadata"]["generation"] == 2


async def test_the_status_of_another_object_of_that_name_is_not_written(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    with pytest.raises(Conflict):
        await store.update_status(POD, {"phase": "Running"}, uid="77")
    with pytest.raises(NotFound):
        await store.update_status(MAP, {})


async def test_an_object_needs_its_namespace(store: ObjectStore) -> None:
    with pytest.raises(NotFound, match="Namespace shop does not exist"):
        await store.apply(thing("Pod", "p", namespace="shop", spec={}), USER)


async def test_a_batch_takes_the_good_and_says_what_became_of_each(store: ObjectStore) -> None:
    outcomes = await store.apply_all(
        [
            thing("Namespace", "shop"),
            thing("Pod", "evil", spec={}),
            thing("Pod", "p", namespace="shop", spec={}),
            thing("Pod", "p", namespace="nowhere", spec={}),
        ],
        USER,
    )

    assert [out.code if isinstance(out, AetherError) else str(out) for out in outcomes] == [
        "created",
        "rejected",
        "created",
        "not-found",
    ]
    assert found(store, ObjectKey("Pod", "shop", "p"))
    assert store.get(ObjectKey("Pod", "default", "evil")) is None


async def test_an_admission_may_add_to_an_object(store: ObjectStore) -> None:
    service = thing("Service", "s", spec={"ports": []})
    await store.apply(service, USER)
    assert found(store, ObjectKey("Service", "default", "s"))["spec"]["clusterIP"] == "10.96.0.7"
    assert await store.apply(service, USER) is Applied.UNCHANGED


async def test_lists_are_sorted_and_chosen_by_namespace_and_labels(store: ObjectStore) -> None:
    await store.apply(thing("Namespace", "shop"), USER)
    for name, namespace in (("b", "shop"), ("a", "shop"), ("z", "default")):
        await store.apply(thing("Pod", name, namespace=namespace, labels={"app": name}, spec={}), USER)

    def names(**where: Any) -> list[str]:
        return [one["metadata"]["name"] for one in store.list("Pod", **where)[0]]

    assert names() == ["z", "a", "b"]
    assert names(namespace="shop") == ["a", "b"]
    assert names(labels={"app": "b"}) == ["b"]
    assert names(namespace="default", labels={"app": "b"}) == []


async def test_what_was_handed_out_never_changes(store: ObjectStore) -> None:
    body = thing("ConfigMap", "m", data={"a": "1"})
    await store.apply(body, USER)
    handed = found(store, MAP)
    body["data"]["a"] = "changed by the caller"

    await store.apply(thing("ConfigMap", "m", data={"a": "2"}), USER)

    assert handed["data"] == {"a": "1"}
    assert found(store, MAP)["data"] == {"a": "2"}


async def test_a_watch_tells_every_change_after_its_revision_in_order(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    _, revision = store.list("Pod")
    await store.update_status(POD, {"phase": "Running"})
    await store.apply(thing("ConfigMap", "m", data={}), USER)
    await store.delete(POD)

    told = await events(store, revision, 2, "Pod")

    assert [event.type for event in told] == [EventType.MODIFIED, EventType.DELETED]
    assert told[0].object is not None
    assert told[0].object["status"] == {"phase": "Running"}
    assert revision < told[0].revision < told[1].revision


async def test_a_watch_goes_on_with_what_comes(store: ObjectStore) -> None:
    _, revision = store.list("Pod")
    seen: list[str] = []

    async def look() -> None:
        async for event in store.watch(revision, "Pod"):
            seen.append(event.type)
            if event.type is EventType.DELETED:
                return

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(look())
        await store.apply(pod(), USER)
        await store.delete(POD)

    assert seen == [EventType.ADDED, EventType.DELETED]


async def test_a_bookmark_moves_a_watcher_past_changes_that_are_not_its_own(store: ObjectStore) -> None:
    _, revision = store.list("Pod")
    await store.apply(thing("ConfigMap", "m", data={}), USER)

    (event,) = await events(store, revision, 1, "Pod")

    assert (event.type, event.object) == (EventType.BOOKMARK, None)
    assert event.revision == store.list("Pod")[1]


async def test_a_watch_from_too_long_ago_must_list_again(store: ObjectStore) -> None:
    _, revision = store.list("ConfigMap")
    for number in range(KEPT_EVENTS + 1):
        await store.apply(thing("ConfigMap", "m", data={"n": str(number)}), USER)
    with pytest.raises(Gone):
        await events(store, revision, 1)


async def test_a_watch_from_another_life_must_list_again(store: ObjectStore) -> None:
    with pytest.raises(Gone):
        await events(store, store.list("Pod")[1] + 1, 1)


async def test_a_watcher_that_falls_too_far_behind_must_list_again(store: ObjectStore) -> None:
    watching = store.watch(store.list("ConfigMap")[1])
    await store.apply(thing("ConfigMap", "m", data={}), USER)
    assert (await anext(watching)).type is EventType.ADDED
    for number in range(KEPT_EVENTS + 1):
        await store.apply(thing("ConfigMap", "m", data={"n": str(number)}), USER)
    with pytest.raises(Gone):
        await anext(watching)


async def test_subscribers_are_woken_for_the_kinds_they_name(store: ObjectStore) -> None:
    woken: list[str] = []
    cancel = store.subscribe(lambda: woken.append("pods"), {"Pod"})
    store.subscribe(lambda: woken.append("all"))

    await store.apply(thing("ConfigMap", "m", data={}), USER)
    await store.apply(pod(), USER)
    cancel()
    await store.delete(POD)

    assert woken == ["all", "pods", "all", "all"]


async def test_a_pod_without_a_node_goes_at_once(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    await store.delete(POD)
    assert store.get(POD) is None


async def test_a_pod_with_a_node_stays_until_its_runner_lets_go(store: ObjectStore) -> None:
    await store.apply(pod(node="n", terminationGracePeriodSeconds=40), USER)

    await store.delete(POD)

    metadata = found(store, POD)["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 40
    assert metadata["deletionTimestamp"] == "2023-11-14T22:14:00Z"
    await store.delete(POD, grace_s=0, uid=metadata["uid"])
    assert store.get(POD) is None


async def test_a_pod_gets_thirty_seconds_unless_it_says_otherwise(store: ObjectStore) -> None:
    await store.apply(pod(node="n"), USER)
    await store.delete(POD)
    assert found(store, POD)["metadata"]["deletionGracePeriodSeconds"] == 30


async def test_the_time_a_pod_has_left_can_only_get_shorter(store: ObjectStore) -> None:
    await store.apply(pod(node="n"), USER)
    for asked_s, expected_s in ((20, 20), (25, 20), (5, 5), (None, 5)):
        await store.delete(POD, grace_s=asked_s)
        assert found(store, POD)["metadata"]["deletionGracePeriodSeconds"] == expected_s


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_goes_at_once(store: ObjectStore, phase: str) -> None:
    await store.apply(pod(node="n"), USER)
    await store.update_status(POD, {"phase": phase})
    await store.delete(POD)
    assert store.get(POD) is None


async def test_a_pod_that_is_being_deleted_is_not_applied_again(store: ObjectStore) -> None:
    await store.apply(pod(node="n"), USER)
    await store.delete(POD)
    with pytest.raises(Conflict, match="being deleted"):
        await store.apply(pod(node="n", restartPolicy="Never"), USER)


async def test_an_object_with_finalizers_waits_for_them(store: ObjectStore) -> None:
    held = thing("ConfigMap", "m", data={})
    held["metadata"]["finalizers"] = ["x/y"]
    await store.apply(held, "controller")

    await store.delete(MAP)
    assert "deletionTimestamp" in found(store, MAP)["metadata"]

    await store.apply(thing("ConfigMap", "m", data={}), "controller")
    assert store.get(MAP) is None


async def test_what_an_object_owned_goes_after_it(store: ObjectStore) -> None:
    await store.apply(thing("ConfigMap", "owner", data={}), USER)
    owner = found(store, ObjectKey("ConfigMap", "default", "owner"))["metadata"]["uid"]
    child = thing("ConfigMap", "m", data={})
    child["metadata"]["ownerReferences"] = [{"uid": owner, "kind": "ConfigMap", "name": "owner"}]
    runs = pod(node="n")
    runs["metadata"]["ownerReferences"] = [{"uid": owner, "kind": "ConfigMap", "name": "owner"}]
    await store.apply_all([child, runs], "controller")

    await store.delete(ObjectKey("ConfigMap", "default", "owner"))

    assert store.get(MAP) is None
    assert "deletionTimestamp" in found(store, POD)["metadata"]


async def test_a_namespace_goes_when_it_is_empty_and_takes_nothing_new(store: ObjectStore) -> None:
    key = ObjectKey("Namespace", "", "shop")
    runs = thing("Pod", "p", namespace="shop", spec={"nodeName": "n"})
    await store.apply_all([thing("Namespace", "shop"), runs, thing("ConfigMap", "m", namespace="shop")], USER)

    await store.delete(key)

    assert found(store, key)["status"] == {"phase": "Terminating"}
    assert store.get(ObjectKey("ConfigMap", "shop", "m")) is None
    with pytest.raises(Conflict, match="namespace shop is being deleted"):
        await store.apply(thing("ConfigMap", "n", namespace="shop"), USER)
    await store.delete(ObjectKey("Pod", "shop", "p"), grace_s=0)
    assert store.get(key) is None


async def test_an_empty_namespace_goes_at_once(store: ObjectStore) -> None:
    await store.apply(thing("Namespace", "shop"), USER)
    await store.delete(ObjectKey("Namespace", "", "shop"))
    assert store.get(ObjectKey("Namespace", "", "shop")) is None


async def test_the_default_namespace_stays(store: ObjectStore) -> None:
    with pytest.raises(Conflict):
        await store.delete(ObjectKey("Namespace", "", "default"))


async def test_deleting_what_is_not_there_or_is_another_is_an_error(store: ObjectStore) -> None:
    with pytest.raises(NotFound):
        await store.delete(POD)
    await store.apply(pod(), USER)
    with pytest.raises(Conflict):
        await store.delete(POD, uid="77")
    assert store.get(POD) is not None


async def test_the_same_name_again_is_another_object(store: ObjectStore) -> None:
    await store.apply(pod(), USER)
    first = found(store, POD)["metadata"]["uid"]
    await store.delete(POD)
    await store.apply(pod(), USER)
    assert found(store, POD)["metadata"]["uid"] != first
