import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.objects.memory import MemoryStore
from aether.control.world.pod_addresses import FIRST_NUMBER, LAST_NUMBER, NoPodAddress, PodAddresses


@pytest.fixture
async def pool() -> PodAddresses:
    store = MemoryStore(clock=ManualClock())
    await store.load()
    for number in (1, 2):
        spec = {"podCIDRs": [f"10.244.{number}.0/24", f"fd00:244:{number}::/64"]}
        await store.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}, "spec": spec}, "test"
        )
    return PodAddresses(store)


def test_a_pod_has_the_same_number_in_each_range_of_its_node(pool: PodAddresses) -> None:
    assert pool.take("n1", "a") == ("10.244.1.2", "fd00:244:1::2")
    assert pool.take("n1", "b") == ("10.244.1.3", "fd00:244:1::3")
    assert pool.take("n2", "c") == ("10.244.2.2", "fd00:244:2::2")


def test_asked_again_it_is_the_same(pool: PodAddresses) -> None:
    assert pool.take("n1", "a") == pool.take("n1", "a")


def test_an_address_given_back_is_the_last_to_be_given_again(pool: PodAddresses) -> None:
    pool.take("n1", "a")
    pool.give_back("a")
    pool.give_back("a")
    others = [pool.take("n1", f"u{number}")[0] for number in range(LAST_NUMBER - FIRST_NUMBER)]
    assert "10.244.1.2" not in others
    assert pool.take("n1", "last")[0] == "10.244.1.2"


def test_a_full_node_says_so(pool: PodAddresses) -> None:
    for number in range(LAST_NUMBER - FIRST_NUMBER + 1):
        pool.take("n1", f"u{number}")
    with pytest.raises(NoPodAddress, match="node n1: all of its 253 pod addresses are in use"):
        pool.take("n1", "one-more")


def test_an_unknown_node_says_so(pool: PodAddresses) -> None:
    with pytest.raises(NoPodAddress, match="node n9: it does not exist"):
        pool.take("n9", "a")
