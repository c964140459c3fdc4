"""The certificates of one node: which names, from which leaves, and when they are looked at again."""

from pathlib import Path

import pytest
from tests.support.agent import Signing
from tests.support.facts import local_pod, node_facts

from aether.adapters.ca import CertificateAuthority, IdentityCache
from aether.adapters.clock import ManualClock
from aether.control.agent.identity import RENEW_AGAIN_S, Identities
from aether.model.facts import LocalPod
from aether.plan.mesh.node import NodePlan, plan_node
from aether.render.envoy.names import CA_SECRET, NODE_SECRET

CART = local_pod("cart-1", "10.244.1.2")
CART_AGAIN = local_pod("cart-2", "10.244.1.3")
WEB = local_pod("web-1", "10.244.1.4", account="web")
PLAIN = local_pod("plain-1", "10.244.1.5", account="plain", managed="false")
AGENT = "spiffe://aether.internal/ns/aether-system/sa/agent"


def plan(*pods: LocalPod) -> NodePlan:
    return plan_node(node_facts(pods=pods), observed=frozenset())


class Book:
    """A node's identities, and the authority that signs for it."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.authority = CertificateAuthority.open(folder / "ca", "aether.internal", clock=self.clock)
        self.signing = Signing(self.authority)
        self.folder = folder / "identities"
        self.identities = Identities(IdentityCache(self.folder, self.signing, clock=self.clock), clock=self.clock)

    def signed(self) -> list[str]:
        return sorted(str(identity) for identity in self.signing.signed)


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


async def test_each_pod_has_two_names_and_the_node_its_own(book: Book) -> None:
    secrets = await book.identities.secrets(plan(CART, WEB))
    assert secrets.keys() == {
        CA_SECRET,
        NODE_SECRET,
        "in/shop/cart-1",
        "in/shop/web-1",
        "out/shop/cart",
        "out/shop/web",
    }
    assert all(secret.name == name for name, secret in secrets.items())


async def test_pods_of_one_service_share_one_leaf_under_all_their_names(book: Book) -> None:
    await book.identities.secrets(plan(CART, CART_AGAIN))
    assert book.signed() == [AGENT, "spiffe://aether.internal/ns/shop/sa/cart"]


async def test_it_asks_for_the_pods_of_this_node_and_nobody_else(book: Book) -> None:
    await book.identities.secrets(plan(CART, PLAIN))
    assert book.signed() == [AGENT, "spiffe://aether.internal/ns/shop/sa/cart"]


async def test_the_same_plan_gives_the_same_secrets_and_signs_nothing_again(book: Book) -> None:
    first = await book.identities.secrets(plan(CART))
    signed = book.signed()
    assert await book.identities.secrets(plan(CART)) == first
    assert book.signed() == signed


async def test_a_leaf_is_renewed_when_it_says_and_not_before(book: Book) -> None:
    first = await book.identities.secrets(plan(CART))
    again_s = book.identities.look_again_s()
    assert again_s is not None
    book.clock.advance(again_s - 1)
    assert await book.identities.secrets(plan(CART)) == first
    book.clock.advance(1)
    second = await book.identities.secrets(plan(CART))
    assert second["out/shop/cart"] != first["out/shop/cart"]
    assert second[CA_SECRET] == first[CA_SECRET]


async def test_a_pod_whose_certificate_cannot_be_had_has_none_and_the_others_do(book: Book) -> None:
    await book.identities.secrets(plan(CART))
    book.signing.is_away = True
    secrets = await book.identities.secrets(plan(CART, WEB))
    assert "out/shop/cart" in secrets
    assert not {"in/shop/web-1", "out/shop/web"} & secrets.keys()
    [problem] = book.identities.problems
    assert (problem.code, problem.subject) == ("signing-refused", "spiffe://aether.internal/ns/shop/sa/web")
    assert book.identities.look_again_s() == RENEW_AGAIN_S


async def test_a_leaf_that_cannot_be_renewed_stays_in_use_and_is_asked_for_again_and_again(book: Book) -> None:
    first = await book.identities.secrets(plan(CART))
    again_s = book.identities.look_again_s()
    assert again_s is not None
    book.clock.advance(again_s)
    book.signing.is_away = True
    assert await book.identities.secrets(plan(CART)) == first
    assert book.identities.problems == ()
    assert book.identities.look_again_s() == RENEW_AGAIN_S


async def test_a_problem_ends_when_the_certificate_is_there(book: Book) -> None:
    book.identities.problems = ()
    await book.identities.secrets(plan(CART))
    book.signing.is_away = True
    await book.identities.secrets(plan(CART, WEB))
    book.signing.is_away = False
    assert "out/shop/web" in await book.identities.secrets(plan(CART, WEB))
    assert book.identities.problems == ()


async def test_the_leaf_of_a_pod_that_is_gone_is_forgotten_on_disk_too(book: Book) -> None:
    await book.identities.secrets(plan(CART, WEB))
    kept = len(list(book.folder.glob("*.leaf")))
    secrets = await book.identities.secrets(plan(CART))
    assert "out/shop/web" not in secrets
    assert len(list(book.folder.glob("*.leaf"))) == kept - 1


async def test_a_new_root_is_trusted_as_soon_as_the_control_plane_says_so_and_leaves_follow(book: Book) -> None:
    first = await book.identities.secrets(plan(CART), ca_pem=book.authority.bundle_pem())
    book.authority.begin_root_rotation()
    second = await book.identities.secrets(plan(CART), ca_pem=book.authority.bundle_pem())
    assert second[CA_SECRET] != first[CA_SECRET]
    assert second["out/shop/cart"] != first["out/shop/cart"]


def test_before_anything_is_held_there_is_no_reason_to_look_again(book: Book) -> None:
    assert book.identities.look_again_s() is None
