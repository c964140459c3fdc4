from typing import Any

import pytest
from tests.support.memoryworld import deployment, namespace, pod, pod_status

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KINDS, UnknownKind, key_of
from aether.adapters.objects.memory import MemoryStore
from aether.api.lookup import SHORT_NAMES, PodQuery, find_container, find_kind, find_pod, is_ready
from aether.api.problem import NoSuchContainer, NoSuchPod, SeveralPods

CART = {"app": "cart"}


async def store(*objects: dict[str, Any]) -> MemoryStore:
    """With the namespaces shop and payments, and the status of every pod as it is given."""
    memory = MemoryStore(clock=ManualClock())
    await memory.load()
    for object_ in (namespace("shop"), namespace("payments"), *objects):
        await memory.apply(object_, "test")
        if "status" in object_:
            await memory.update_status(key_of(object_), object_["status"])
    return memory


def query(text: str, kind: str = "") -> PodQuery:
    where, _, name = text.rpartition("/")
    return PodQuery(namespace=where, kind=kind, name=name)


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_a_kind_is_found_by_its_name_its_plural_and_its_short_name_in_any_case(kind: Any) -> None:
    short = {name: short for short, name in SHORT_NAMES.items()}[kind.name]
    for text in (kind.name, kind.plural, short, kind.plural.upper()):
        assert find_kind(text) is kind


def test_an_unknown_kind_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UnknownKind, match="Deployment"):
        find_kind("gizmo")


async def test_a_pod_is_found_by_its_own_name_in_whichever_namespace_has_it() -> None:
    objects = await store(pod("shop/cart-1"), pod("payments/web-1"))
    assert find_pod(objects, query("cart-1"))["metadata"]["namespace"] == "shop"
    assert find_pod(objects, query("payments/web-1", "pod"))["metadata"]["name"] == "web-1"


async def test_a_name_that_two_namespaces_have_must_say_which() -> None:
    objects = await store(pod("shop/web-1"), pod("payments/web-1"))
    with pytest.raises(SeveralPods, match="payments, shop"):
        find_pod(objects, query("web-1"))
    assert find_pod(objects, query("shop/web-1"))["metadata"]["namespace"] == "shop"


@pytest.mark.parametrize("kind", ["", "deployment"])
async def test_a_deployment_s_name_means_its_best_pod(kind: str) -> None:
    objects = await store(
        deployment("shop/cart"),
        pod("shop/cart-1", labels=CART, is_ready=False),
        pod("shop/cart-2", labels=CART),
        pod("payments/cart-3", labels=CART),
    )
    assert find_pod(objects, query("shop/cart", kind))["metadata"]["name"] == "cart-2"


async def test_a_service_s_name_means_a_pod_that_its_selector_picks() -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "basket", "namespace": "shop"},
        "spec": {"selector": CART, "ports": [{"port": 80}]},
    }
    objects = await store(service, pod("shop/cart-1", labels=CART))
    assert find_pod(objects, query("shop/basket", "service"))["metadata"]["name"] == "cart-1"
    with pytest.raises(NoSuchPod):
        find_pod(objects, query("shop/basket"))


async def test_a_terminating_pod_is_the_last_choice() -> None:
    objects = await store(
        deployment("shop/cart"), pod("shop/cart-1", labels=CART), pod("shop/cart-2", labels=CART, is_ready=False)
    )
    await objects.delete(key_of(pod("shop/cart-1")))
    assert find_pod(objects, query("shop/cart"))["metadata"]["name"] == "cart-2"


async def test_a_missing_pod_is_answered_with_names_that_are_alike() -> None:
    objects = await store(pod("shop/cart-1"), pod("shop/web-1"))
    with pytest.raises(NoSuchPod, match=r"there are shop/cart-1$"):
        find_pod(objects, query("cart"))
    with pytest.raises(NoSuchPod, match="no pods at all"):
        find_pod(await store(), query("cart"))


def test_a_container_is_the_first_unless_it_is_named() -> None:
    assert find_container(pod("shop/cart-1"), "") == "main"
    assert find_container(pod("shop/cart-1"), "main") == "main"
    with pytest.raises(NoSuchContainer, match="it has main"):
        find_container(pod("shop/cart-1"), "side")


def test_a_pod_without_status_is_not_ready() -> None:
    assert not is_ready({"metadata": {}})
    assert is_ready({"status": pod_status()})
