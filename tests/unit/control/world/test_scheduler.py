import pytest
from tests.unit.control.world.bench import StoreBench

from aether.adapters.objects.kinds import ObjectKey
from aether.control.world.scheduler import Scheduler


def node_of(bench: StoreBench, name: str) -> str | None:
    node: str | None = bench.get("Pod", name)["spec"].get("nodeName")
    return node


def why(bench: StoreBench, name: str) -> str:
    (condition,) = bench.get("Pod", name)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    message: str = condition["message"]
    return message


@pytest.fixture
async def two(bench: StoreBench) -> StoreBench:
    await bench.node("n1")
    await bench.node("n2", {"disk": "fast"})
    return bench


async def test_pods_are_spread_over_the_nodes(two: StoreBench) -> None:
    for name in "abcd":
        await two.pod(name)
    await Scheduler(two.store, two.clock).step()
    assert [node_of(two, name) for name in "abcd"] == ["n1", "n2", "n1", "n2"]


async def test_pods_of_one_owner_are_spread_first(two: StoreBench) -> None:
    owner = {"ownerReferences": [{"uid": "o", "kind": "Deployment", "name": "o", "controller": True}]}
    for name in ("x1", "x2", "x3"):
        await two.pod(name, nodeName="n1")
    await two.pod("a", metadata=owner, nodeName="n2")
    await two.pod("b", metadata=owner)
    await Scheduler(two.store, two.clock).step()
    assert node_of(two, "b") == "n1"


async def test_pods_that_have_ended_take_no_room(two: StoreBench) -> None:
    await two.pod("a", nodeName="n1")
    await two.say("a", phase="Succeeded")
    await two.pod("b")
    await Scheduler(two.store, two.clock).step()
    assert node_of(two, "b") == "n1"


async def test_a_node_that_is_named_is_taken(two: StoreBench) -> None:
    await two.pod("a", nodeName="n2")
    await Scheduler(two.store, two.clock).step()
    assert node_of(two, "a") == "n2"


@pytest.mark.parametrize("selector", [{"kubernetes.io/hostname": "n2"}, {"disk": "fast"}])
async def test_a_selector_chooses(two: StoreBench, selector: dict[str, str]) -> None:
    await two.pod("a", nodeSelector=selector)
    await Scheduler(two.store, two.clock).step()
    assert node_of(two, "a") == "n2"


async def test_why_a_pod_has_no_node_is_said_once(two: StoreBench) -> None:
    await two.pod("a", nodeSelector={"disk": "slow"})
    await two.pod("b", nodeName="n9")
    scheduler = Scheduler(two.store, two.clock)
    await scheduler.step()
    assert node_of(two, "a") is None
    assert why(two, "a") == "no node has the labels {'disk': 'slow'}"
    assert why(two, "b") == "node 'n9' does not exist"
    revision = two.store.list("Pod")[1]
    await scheduler.step()
    assert two.store.list("Pod")[1] == revision


async def test_without_nodes_a_pod_waits_for_one(bench: StoreBench) -> None:
    await bench.pod("a")
    scheduler = Scheduler(bench.store, bench.clock)
    await scheduler.step()
    assert why(bench, "a") == "there are no nodes"
    await bench.node("n1")
    await scheduler.step()
    assert node_of(bench, "a") == "n1"


async def test_what_the_user_applied_of_a_placed_pod_can_be_applied_again(two: StoreBench) -> None:
    await two.pod("a")
    await Scheduler(two.store, two.clock).step()
    await two.pod("a")
    assert node_of(two, "a") == "n1"


async def test_a_pod_that_is_being_deleted_is_not_placed(two: StoreBench) -> None:
    await two.pod("a", metadata={"finalizers": ["x/y"]})
    await two.store.delete(ObjectKey("Pod", "default", "a"))
    await Scheduler(two.store, two.clock).step()
    assert node_of(two, "a") is None
