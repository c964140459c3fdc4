import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import declared, row, service_id

from aether.model.kube import GENERATED_LABEL, KubeServicePort, Meta, Service
from aether.model.names import ServiceId
from aether.model.ports import PortClass, Transport
from aether.plan.publish import (
    GeneratedService,
    PublishFacts,
    PublishPlan,
    class_of,
    is_generated,
    plan_publish,
)

CART = service_id("shop/cart")


def existing(service: str, *, is_ours: bool) -> Service:
    owner = service_id(service)
    labels = ((GENERATED_LABEL, "true"),) if is_ours else ()
    return Service(meta=Meta(name=owner.name, namespace=owner.namespace, labels=labels), ports=())


def planned(
    *rows: object, services: tuple[Service, ...] = (), accounts: tuple[str, ...] = (), ignored: tuple[str, ...] = ()
) -> PublishPlan:
    return plan_publish(
        PublishFacts(
            rows=rows,  # type: ignore[arg-type]
            existing=services,
            accounts=frozenset(service_id(account) for account in accounts),
            namespaces=frozenset({"shop", "pay"}),
            ignored_namespaces=frozenset(ignored),
        )
    )


def ports_of(plan: PublishPlan) -> dict[ServiceId, str]:
    return {one.service: " ".join(str(port) for port in one.ports) for one in plan.services}


def test_a_service_has_the_union_of_its_pods_ports() -> None:
    rows = (
        row("shop/cart", "8080 9000=tcp", address="10.244.1.2"),
        row("shop/cart", "8080 53=tcp 53=udp", address="10.244.1.3"),
        row("pay/bank", "443=tcp", address="10.244.1.4"),
    )
    plan = planned(*rows)
    assert ports_of(plan) == {
        service_id("pay/bank"): "443=tcp",
        CART: "53=tcp 53=udp 8080=http 9000=tcp",
    }
    assert (plan.surplus, plan.problems) == ((), ())


def test_a_ports_class_is_the_majoritys() -> None:
    rows = [row("shop/cart", f"8080={kind}", address=f"10.244.1.{n}") for n, kind in enumerate(["tcp", "http", "tcp"])]
    assert ports_of(planned(*rows))[CART] == "8080=tcp"


def test_a_users_service_is_left_alone_and_that_is_said() -> None:
    plan = planned(row("shop/cart"), services=(existing("shop/cart", is_ours=False),))
    assert (plan.services, plan.surplus) == ((), ())
    assert [str(problem) for problem in plan.problems] == [
        "Service shop/cart: a user's Service has this mesh service's name: it is left as it is, and its port map holds"
    ]


def test_a_users_other_service_is_nobodys_business() -> None:
    plan = planned(services=(existing("shop/own", is_ours=False),), accounts=("shop/own",))
    assert (plan.services, plan.surplus, plan.problems) == ((), (), ())


def test_a_service_without_endpoints_keeps_its_service_without_ports() -> None:
    plan = planned(services=(existing("shop/cart", is_ours=True),), accounts=("shop/cart",))
    assert plan.services == (GeneratedService(service=CART, ports=()),)
    assert plan.surplus == ()


def test_a_service_without_endpoints_and_account_is_surplus() -> None:
    plan = planned(services=(existing("shop/cart", is_ours=True),))
    assert (plan.services, plan.surplus) == ((), (CART,))


def test_an_account_alone_makes_no_service() -> None:
    assert planned(accounts=("shop/cart",)).services == ()


def test_a_reserved_port_is_not_on_the_service_and_that_is_said() -> None:
    plan = planned(row("shop/cart", "8080 18001=tcp"))
    assert ports_of(plan)[CART] == "8080=http"
    assert [str(problem) for problem in plan.problems] == [
        "Service shop/cart: spec.ports: port 18001 is not put on the Service: the mesh reserves this number"
    ]


@pytest.mark.parametrize("namespace", ["kube-system", "gone"])
def test_only_living_namespaces_of_the_mesh_get_services(namespace: str) -> None:
    assert planned(row(f"{namespace}/cart"), ignored=("kube-system",)).services == ()


@given(st.randoms(use_true_random=False))
def test_the_order_of_the_facts_does_not_matter(random_: random.Random) -> None:
    rows = [row(f"shop/s{n % 3}", f"80{n}0", address=f"10.244.1.{n}") for n in range(2, 9)]
    shuffled = list(rows)
    random_.shuffle(shuffled)
    assert planned(*shuffled) == planned(*rows)


@pytest.mark.parametrize(
    ("transport", "app_protocol", "expected"),
    [
        (Transport.TCP, "http", PortClass.HTTP),
        (Transport.TCP, "tcp", PortClass.TCP),
        (Transport.TCP, "", PortClass.TCP),
        (Transport.UDP, "", PortClass.UDP),
    ],
)
def test_a_generated_port_says_its_class(transport: Transport, app_protocol: str, expected: PortClass) -> None:
    port = KubeServicePort(number=1, transport=transport, target=1, app_protocol=app_protocol)
    assert class_of(port) is expected


def test_ours_are_told_by_their_label() -> None:
    assert is_generated(existing("shop/cart", is_ours=True))
    assert not is_generated(existing("shop/cart", is_ours=False))
    assert declared("80")[0].port_class is PortClass.HTTP
