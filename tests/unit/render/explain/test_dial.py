import msgspec
import pytest
from tests.support.facts import generated, local_pod, node_facts, row, user_service

from aether.model.facts import LocalPod
from aether.model.names import Domains
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT
from aether.plan.mesh.clusters import plan_context
from aether.render.explain.dial import Dialled, Nowhere, candidates, dial, dial_proxy
from aether.render.explain.target import parse_target

CART = local_pod("cart-2", "10.244.1.2")
PODS = {
    "cart": CART,
    "quiet": local_pod("quiet", "10.244.1.3", account="quiet", redirect_all="false"),
    "outside": local_pod("outside", "10.244.1.4", account="outside", managed="false"),
    "picky": msgspec.structs.replace(
        local_pod("picky", "10.244.1.5", account="picky"),
        annotations=(("capture.aether.io/exclude-outbound-ports", "25"),),
    ),
}
CONTEXT = plan_context(
    node_facts(
        rows=[row("shop/cart", "8080 9000=tcp"), row("shop/ring", "80", address="10.244.1.7")],
        services=[
            generated("shop/cart", "10.96.0.5", "fd96::5", ports="8080 9000=tcp"),
            generated("shop/late", ports="80"),
            user_service("shop/ring", ports="80:80"),
        ],
        pods=PODS.values(),
    )
)


def dialled(text: str, pod: LocalPod = CART) -> Dialled | Nowhere:
    return dial(pod, parse_target(text), CONTEXT)


def test_the_names_that_are_asked_for_follow_the_search_list() -> None:
    names = candidates("Cart", "shop", Domains())
    assert names == ("cart.shop.svc.cluster.local", "cart.svc.cluster.local", "cart.cluster.local", "cart")
    assert candidates("a.b.c.d.e.f", "shop", Domains())[0] == "a.b.c.d.e.f"
    assert candidates("cart.shop.", "shop", Domains()) == ("cart.shop",)


@pytest.mark.parametrize(
    ("text", "address", "listener"),
    [
        ("http://cart:8080/", "10.96.0.5", CAPTURE_PORT),
        ("http://cart.shop.aether.internal:7/", "10.96.0.5", CAPTURE_PORT),
        ("cart:9000", "10.96.0.5", CAPTURE_RAW_PORT),
        ("[fd96::5]:9000", "fd96::5", CAPTURE_RAW_PORT),
        ("http://ring/", "10.244.1.7", CAPTURE_PORT),
        ("192.0.2.1:22", "192.0.2.1", CAPTURE_RAW_PORT),
        ("10.96.0.10:53", "10.96.0.10", None),
        ("10.244.1.2:8080", "10.244.1.2", None),
        ("localhost:8080", "127.0.0.1", None),
        ("http://127.0.0.1:18081/", "127.0.0.1", PROXY_PORT),
    ],
)
def test_a_target_is_resolved_and_captured_as_in_the_pod(text: str, address: str, listener: int | None) -> None:
    found = dialled(text)
    assert isinstance(found, Dialled)
    assert (found.address, found.listener) == (address, listener)
    assert found.steps[-1].stage == "capture"


@pytest.mark.parametrize(
    ("pod", "text", "listener", "why"),
    [
        ("quiet", "http://cart:8080/", None, "redirect-all"),
        ("quiet", "http://cart:18081/", CAPTURE_PORT, "mesh address"),
        ("outside", "http://cart:8080/", None, "not in the mesh"),
        ("picky", "192.0.2.1:25", None, "exclude"),
    ],
)
def test_a_pod_s_own_annotations_count(pod: str, text: str, listener: int | None, why: str) -> None:
    found = dialled(text, PODS[pod])
    assert isinstance(found, Dialled)
    assert found.listener == listener
    assert why in found.steps[-1].says


@pytest.mark.parametrize(
    ("text", "is_outside", "says"),
    [
        ("http://example.org/", True, "host's resolver"),
        ("http://nobody/", False, "knows no nobody"),
        ("http://nobody.shop.aether.internal/", False, "knows no"),
        ("http://late/", False, "no address"),
    ],
)
def test_a_name_without_an_address_says_why(text: str, *, is_outside: bool, says: str) -> None:
    found = dialled(text)
    assert isinstance(found, Nowhere)
    assert found.is_outside is is_outside
    assert says in found.steps[-1].says


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("http://crat/", "; it knows cart.shop.svc.cluster.local"),
        ("http://cartt.shop.aether.internal/", "; it knows cart.shop.aether.internal"),
        ("http://crat.shop/", "; it knows cart.shop.svc.cluster.local"),
        ("http://example.org/", "the host's resolver"),
        ("http://nobody/", "knows no nobody"),
    ],
)
def test_a_name_that_is_nearly_one_of_the_mesh_is_told_which(text: str, known: str) -> None:
    found = dialled(text)
    assert isinstance(found, Nowhere)
    assert found.steps[-1].says.endswith(known)


def test_the_proxy_port_needs_no_name() -> None:
    assert dial_proxy(CART).listener == PROXY_PORT
