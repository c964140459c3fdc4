import msgspec
import pytest
from tests.support.facts import generated, node_facts, row, user_service

from aether.model.endpoint import Health
from aether.model.facts import MeshConfig, NodeFacts, ServiceEndpoint
from aether.model.names import Domains
from aether.plan.mesh.dns import ZoneName, plan_zone


def find(name: str, facts: NodeFacts) -> ZoneName | None:
    return next((found for found in plan_zone(facts).names if found.name == name), None)


def addresses(name: str, facts: NodeFacts) -> tuple[str, ...]:
    found = find(name, facts)
    assert found is not None, name
    return found.ipv4 + found.ipv6


CART = node_facts(rows=[row("shop/cart")], services=[generated("shop/cart", "fd96::5", "10.96.0.5")])
FAMILIES = ("cart.shop.aether.internal", "cart.shop.svc.cluster.local", "cart.shop.svc", "cart.shop")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_full_name_of_a_service_has_its_addresses_by_family(name: str) -> None:
    assert find(name, CART) == ZoneName(name=name, ipv4=("10.96.0.5",), ipv6=("fd96::5",))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_service_without_an_address_yet_is_a_name_without_data(name: str) -> None:
    assert find(name, node_facts(rows=[row("shop/cart")])) == ZoneName(name=name)


def test_a_service_of_one_family_has_no_data_for_the_other() -> None:
    facts = node_facts(services=[generated("shop/cart", "10.96.0.5", ports="80")])
    assert find(FAMILIES[0], facts) == ZoneName(name=FAMILIES[0], ipv4=("10.96.0.5",))


@pytest.mark.parametrize(
    "name", ["aether.internal", "cluster.local", "svc.cluster.local", "shop.aether.internal", "shop.svc.cluster.local"]
)
def test_a_name_above_others_exists(name: str) -> None:
    assert find(name, CART) == ZoneName(name=name)


def test_an_empty_namespace_exists() -> None:
    assert find("blue.aether.internal", node_facts()) == ZoneName(name="blue.aether.internal")


@pytest.mark.parametrize(
    "name", ["pay.shop.aether.internal", "cart.blue.svc.cluster.local", "cart", "green.aether.internal"]
)
def test_other_names_do_not_exist(name: str) -> None:
    assert find(name, CART) is None


RING = (
    row("shop/ring", "8000", address="10.244.1.2"),
    row("shop/ring", "8000", address="10.244.1.3", health=Health.UNHEALTHY),
    row("shop/ring", "8000", address="fd00:244:1::4", health=Health.DRAINING),
)


@pytest.mark.parametrize("name", ["ring.shop.aether.internal", "ring.shop.svc.cluster.local"])
def test_a_headless_name_has_its_healthy_pods(name: str) -> None:
    facts = node_facts(rows=RING, services=[user_service("shop/ring", ports="8000:8000")])
    assert addresses(name, facts) == ("10.244.1.2",)


def test_a_headless_name_without_healthy_pods_has_all() -> None:
    facts = node_facts(rows=RING[1:], services=[user_service("shop/ring")])
    assert addresses("ring.shop.svc.cluster.local", facts) == ("10.244.1.3", "fd00:244:1::4")


@pytest.mark.parametrize("suffix", ["ring.shop.aether.internal", "ring.shop.svc.cluster.local", "ring.shop"])
def test_each_pod_of_a_headless_service_has_a_name_whatever_its_health(suffix: str) -> None:
    facts = node_facts(rows=RING, services=[user_service("shop/ring")])
    assert addresses(f"ring-2.{suffix}", facts) == ("10.244.1.2",)
    assert addresses(f"ring-4.{suffix}", facts) == ("fd00:244:1::4",)


def test_a_pod_of_a_service_that_is_not_headless_has_no_name() -> None:
    assert find("cart-2.cart.shop.aether.internal", CART) is None


def test_a_users_service_that_owns_a_mesh_services_name_answers_to_all_of_them() -> None:
    facts = node_facts(rows=[row("shop/cart")], services=[user_service("shop/cart", "10.96.0.7", ports="80:8080")])
    assert {addresses(name, facts) for name in FAMILIES} == {("10.96.0.7",)}


def test_another_users_service_has_its_kubernetes_names_only() -> None:
    facts = node_facts(services=[user_service("shop/db", "10.96.0.8", ports="5432:5432")])
    assert addresses("db.shop.svc.cluster.local", facts) == addresses("db.shop", facts) == ("10.96.0.8",)
    assert find("db.shop.aether.internal", facts) is None
    assert find("shop.aether.internal", facts) == ZoneName(name="shop.aether.internal")


def test_another_users_headless_service_has_its_ready_pods() -> None:
    endpoints = (
        ServiceEndpoint(addresses=("10.244.1.8", "fd00:244:1::8"), is_ready=True, ports=()),
        ServiceEndpoint(addresses=("10.244.1.9",), is_ready=False, ports=()),
    )
    record = msgspec.structs.replace(user_service("shop/db"), endpoints=endpoints)
    assert addresses("db.shop.svc.cluster.local", node_facts(services=[record])) == ("10.244.1.8", "fd00:244:1::8")


def test_a_service_of_an_ignored_namespace_keeps_its_kubernetes_names() -> None:
    facts = node_facts(
        rows=[row("kube-system/dns")],
        services=[user_service("kube-system/dns", "10.96.0.10", ports="53:53/udp")],
        config=MeshConfig(ignored_namespaces=("kube-system",)),
    )
    assert addresses("dns.kube-system.svc.cluster.local", facts) == ("10.96.0.10",)
    assert find("dns.kube-system.aether.internal", facts) is None


def test_the_zone_is_of_the_configured_domains_and_sorted() -> None:
    facts = node_facts(
        rows=[row("shop/cart")], config=MeshConfig(domains=Domains(mesh="mesh.example", cluster="kube.example"))
    )
    zone = plan_zone(facts)
    assert zone.domains == ("kube.example", "mesh.example")
    assert [found.name for found in zone.names] == sorted(found.name for found in zone.names)
    assert find("cart.shop.mesh.example", facts)
    assert find("cart.shop.svc.kube.example", facts)
