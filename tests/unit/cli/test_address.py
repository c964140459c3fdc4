import pytest

from aether.cli.address import PodReference, parse_pod
from aether.cli.failure import WrongUsage


@pytest.mark.parametrize(
    ("text", "namespace", "expected"),
    [
        ("cart-1", None, ("", "", "cart-1")),
        ("cart-1", "shop", ("shop", "", "cart-1")),
        ("shop/cart-1", None, ("shop", "", "cart-1")),
        ("shop/cart-1", "shop", ("shop", "", "cart-1")),
        ("deploy/cart", "shop", ("shop", "deployment", "cart")),
        ("deployment/cart", None, ("", "deployment", "cart")),
        ("po/cart-1", None, ("", "pod", "cart-1")),
        ("shop/svc/cart", None, ("shop", "service", "cart")),
    ],
)
def test_a_pod_is_named_in_any_of_these_ways(text: str, namespace: str | None, expected: tuple[str, str, str]) -> None:
    place, kind, name = expected
    assert parse_pod(text, namespace) == PodReference(namespace=place, kind=kind, name=name)


@pytest.mark.parametrize("text", ["", "/", "shop/", "/cart", "a/b/c", "a/b/c/d", "deploy/shop/cart"])
def test_other_words_name_no_pod(text: str) -> None:
    with pytest.raises(WrongUsage):
        parse_pod(text)


def test_two_namespaces_contradict_each_other() -> None:
    with pytest.raises(WrongUsage, match="two namespaces"):
        parse_pod("shop/cart", "payments")
