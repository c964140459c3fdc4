import pytest

from aether.model.identity import (
    BadIdentity,
    WorkloadIdentity,
    agent_identity,
    identity_of,
    inbound_secret,
    outbound_secret,
    parse_spiffe,
)
from aether.model.names import ServiceId

CART = ServiceId("shop", "cart")


def test_a_workload_is_named_by_namespace_and_account() -> None:
    assert str(identity_of(CART, "aether.internal")) == "spiffe://aether.internal/ns/shop/sa/cart"


def test_the_agent_has_an_identity_of_its_own() -> None:
    assert str(agent_identity("a.b")) == "spiffe://a.b/ns/aether-system/sa/agent"


def test_a_printed_identity_parses() -> None:
    identity = WorkloadIdentity("aether.internal", "shop", "cart")
    assert parse_spiffe(str(identity)) == identity


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spiffe://aether.internal",
        "spiffe:///ns/shop/sa/cart",
        "spiffe://aether.internal/ns/shop/sa/",
        "spiffe://aether.internal/ns/shop/sa/cart/",
        "spiffe://aether.internal/ns/shop/sa/cart/x",
        "spiffe://aether.internal:80/ns/shop/sa/cart",
        "SPIFFE://aether.internal/ns/shop/sa/cart",
        "https://aether.internal/ns/shop/sa/cart",
        "spiffe://aether.internal/ns/shop/sa/cart?x",
        "spiffe://aether.internal/ns/shop/sa/cart\n",
    ],
)
def test_other_text_is_no_identity(text: str) -> None:
    with pytest.raises(BadIdentity) as caught:
        parse_spiffe(text)
    assert caught.value.code == "bad-identity"
    assert caught.value.text == text


def test_inbound_and_outbound_certificates_never_share_a_name() -> None:
    assert outbound_secret(CART) == "out/shop/cart"
    assert inbound_secret("shop", "cart") == "in/shop/cart"
