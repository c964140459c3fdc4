import msgspec
import pytest
import yaml
from tests.support.memoryworld import ServedWorld, deployment, namespace, pod
from tests.unit.cli.conftest import Aether

from aether.adapters.objects.kinds import key_of
from aether.cli.failure import WrongUsage
from aether.cli.objects.get import Selection


@pytest.fixture
def shop(served: ServedWorld) -> ServedWorld:
    served.apply(namespace("payments"))
    for one in (pod("shop/cart-1"), pod("payments/web-1", is_ready=False)):
        served.apply(one)
        served.set_status(key_of(one), one["status"])
    served.apply(deployment("shop/cart"))
    return served


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_pods_are_listed_with_readiness_and_restarts(aether: Aether, shop: ServedWorld) -> None:
    rows = words(aether("get", "pods", "-n", "shop").out)
    assert rows[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows[1][:4] == ["cart-1", "1/1", "Running", "2"]


def test_all_namespaces_have_a_column(aether: Aether, shop: ServedWorld) -> None:
    rows = words(aether("get", "po", "-A", "-o", "wide").out)
    assert [row[:3] for row in rows[1:]] == [["payments", "web-1", "0/1"], ["shop", "cart-1", "1/1"]]
    assert rows[1][-2:] == ["10.244.1.2", "node-1"]


def test_an_empty_list_says_where_there_are_some(aether: Aether, shop: ServedWorld) -> None:
    said = aether("get", "pods")
    assert (said.code, said.out) == (0, "")
    assert "no pods in namespace default; 2 in other namespaces" in said.err


def test_one_object_is_got_by_namespace_and_name(aether: Aether, shop: ServedWorld) -> None:
    one = yaml.safe_load(aether("get", "pod", "shop/cart-1", "-o", "yaml").out)
    assert one["metadata"]["name"] == "cart-1"
    items = msgspec.json.decode(aether("get", "pods", "-A", "-o", "json").out)["items"]
    assert len(items) == 2


def test_a_kind_without_namespaces_needs_none(aether: Aether, shop: ServedWorld) -> None:
    assert ["payments", "Active"] in [row[:2] for row in words(aether("get", "ns").out)]
    assert aether("get", "namespace", "shop").code == 0


def test_all_is_every_kind_of_workload(aether: Aether, shop: ServedWorld) -> None:
    said = aether("get", "all", "-A")
    assert "cart-1" in said.out
    assert "UP-TO-DATE" in said.out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("gizmos",), 2, "there are namespaces"),
        (("pod", "nobody"), 1, "does not exist"),
        (("pod", "shop/cart-1", "-n", "payments"), 2, "two namespaces"),
        (("pod", "cart-1", "-A"), 2, "exclude"),
    ],
)
def test_what_cannot_be_got_is_said(
    aether: Aether, shop: ServedWorld, arguments: tuple[str, ...], code: int, text: str
) -> None:
    said = aether("get", *arguments)
    assert said.code == code
    assert text in said.err


def test_a_selection_without_words_is_the_default_namespace() -> None:
    assert Selection.of("pods", None, None) == Selection(kind="pods", namespace="default", name="")
    assert Selection.of("pods", "shop/cart", None).namespace == "shop"
    with pytest.raises(WrongUsage):
        Selection.of("pods", "shop/cart", "other")
