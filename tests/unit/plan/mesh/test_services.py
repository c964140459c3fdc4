import msgspec
import pytest
from tests.support.facts import generated, node_facts, row, service_id, user_service

from aether.model.facts import MeshConfig, NodeFacts, ServiceEndpoint, ServiceRecord
from aether.model.ports import PortClass, Transport
from aether.plan.mesh.services import ServicePort, ServiceView, index_facts, plan_index, plan_services, target_of

HTTP, TCP, UDP = PortClass.HTTP, PortClass.TCP, PortClass.UDP
CART = service_id("shop/cart")


def only_view(facts: NodeFacts) -> ServiceView:
    (view,) = plan_services(facts)
    return view


def problems_of(facts: NodeFacts) -> list[tuple[str, str, str]]:
    return [(found.code, found.subject, found.item) for found in plan_index(index_facts(facts)).problems]


def test_a_generated_service_has_its_pods_ports_and_its_services_addresses() -> None:
    facts = node_facts(
        rows=[row("shop/cart", "8080 9000=tcp"), row("shop/cart", "8080 53=udp", address="10.244.1.1")],
        services=[generated("shop/cart", "fd96::5", "10.96.0.5")],
    )
    ports = (ServicePort(53, UDP, 53), ServicePort(8080, HTTP, 8080), ServicePort(9000, TCP, 9000))
    assert only_view(facts) == ServiceView(
        service=CART,
        ports=ports,
        declared=ports,
        addresses=("10.96.0.5", "fd96::5"),
        pod_addresses=("10.244.1.1", "10.244.1.2"),
    )


def test_a_service_exists_before_its_service_object() -> None:
    view = only_view(node_facts(rows=[row("shop/cart")]))
    assert view.ports == (ServicePort(8080, HTTP, 8080),)
    assert view.addresses == ()


def test_a_service_without_rows_has_what_its_generated_service_declares() -> None:
    view = only_view(node_facts(services=[generated("shop/cart", "10.96.0.5", ports="8080 9000=tcp")]))
    assert view.ports == view.declared == (ServicePort(8080, HTTP, 8080), ServicePort(9000, TCP, 9000))
    assert view.pod_addresses == ()


def test_rows_are_evidence_and_replace_what_the_service_declares() -> None:
    facts = node_facts(
        rows=[row("shop/cart", "9000=tcp")], services=[generated("shop/cart", "10.96.0.5", ports="8080 9000")]
    )
    assert only_view(facts).ports == (ServicePort(9000, TCP, 9000),)


def test_a_port_of_a_generated_service_without_a_class_or_reserved_is_not_served() -> None:
    record = generated("shop/cart", ports="8080 18081")
    unknown = msgspec.structs.replace(record.ports[0], number=7000, port_class=None)
    twice = msgspec.structs.replace(record.ports[0], target=9, port_class=TCP)
    facts = node_facts(services=[msgspec.structs.replace(record, ports=(*record.ports, unknown, twice))])
    assert only_view(facts).ports == (ServicePort(8080, HTTP, 8080),)


def test_a_users_service_owns_the_name_and_maps_the_ports() -> None:
    facts = node_facts(
        rows=[row("shop/cart", "8080 9000=tcp 53=udp 53=tcp")],
        services=[user_service("shop/cart", "10.96.0.7", ports="80:8080 3306:9000 53:53/udp 81:8081 54:53")],
    )
    view = only_view(facts)
    assert view.is_user_owned
    assert view.ports == (
        ServicePort(53, UDP, 53),
        ServicePort(54, TCP, 53),
        ServicePort(80, HTTP, 8080),
        ServicePort(3306, TCP, 9000),
    )
    assert [port.number for port in view.declared] == [53, 53, 8080, 9000]


def test_a_users_service_without_the_services_pods_is_none_of_the_meshs() -> None:
    facts = node_facts(services=[user_service("shop/cart", "10.96.0.7", ports="80:8080")])
    assert plan_services(facts) == ()
    assert [record.service for record in index_facts(facts).others] == [CART]


def test_a_users_service_without_addresses_is_headless() -> None:
    view = only_view(node_facts(rows=[row("shop/cart")], services=[user_service("shop/cart", ports="8080:8080")]))
    assert (view.is_headless, view.addresses, view.pod_addresses) == (True, (), ("10.244.1.2",))


def test_a_users_service_hides_a_generated_one_of_the_same_name() -> None:
    facts = node_facts(
        services=[generated("shop/cart", "10.96.0.5", ports="8080"), user_service("shop/cart", "10.96.0.7")]
    )
    assert plan_services(facts) == ()


@pytest.mark.parametrize("number", [18001, 18081, 18082])
def test_a_reserved_number_is_served_neither_as_service_port_nor_as_target(number: int) -> None:
    facts = node_facts(
        rows=[row("shop/cart", f"8080 {number}")],
        services=[user_service("shop/cart", "10.96.0.7", ports=f"{number}:8080 80:{number} 81:8080")],
    )
    view = only_view(facts)
    assert view.ports == (ServicePort(81, HTTP, 8080),)
    assert view.declared == (ServicePort(8080, HTTP, 8080),)


def _with_endpoints(*targets: int) -> ServiceRecord:
    record = user_service("shop/cart", "10.96.0.7", ports="80:web")
    endpoints = (
        ServiceEndpoint(
            addresses=("10.244.1.2",), is_ready=True, ports=((80, Transport.TCP, target), (80, Transport.UDP, 1))
        )
        for target in targets
    )
    return msgspec.structs.replace(record, endpoints=tuple(endpoints))


@pytest.mark.parametrize(
    ("targets", "resolved"), [((), None), ((8080,), 8080), ((8080, 8080), 8080), ((8080, 8081), None)], ids=str
)
def test_a_named_target_resolves_while_its_endpoints_agree(targets: tuple[int, ...], resolved: int | None) -> None:
    record = _with_endpoints(*targets)
    assert target_of(record, record.ports[0]) == resolved
    ports = () if resolved is None else (ServicePort(80, HTTP, 8080),)
    assert only_view(node_facts(rows=[row("shop/cart", "8080 8081")], services=[record])).ports == ports


def test_ignored_namespaces_have_no_mesh_services() -> None:
    facts = node_facts(
        rows=[row("kube-system/dns"), row("shop/cart")],
        services=[generated("kube-system/web", ports="80")],
        config=MeshConfig(ignored_namespaces=("kube-system",)),
    )
    assert [view.service for view in plan_services(facts)] == [CART]


def test_a_row_that_does_not_hold_is_skipped_and_said() -> None:
    bad = msgspec.structs.replace(row("shop/cart", address="10.244.1.9"), ports=())
    nowhere = msgspec.structs.replace(row("shop/cart"), pod="cart-0", address="", addresses=())
    facts = node_facts(rows=[row("shop/cart"), bad, nowhere])
    assert only_view(facts).pod_addresses == ("10.244.1.2",)
    assert problems_of(facts) == [("bad-row", "Pod shop/cart-0", ""), ("bad-row", "Pod shop/cart-9", "")]


def test_a_row_without_a_list_of_addresses_has_its_own() -> None:
    bare = msgspec.structs.replace(row("shop/cart"), addresses=())
    assert only_view(node_facts(rows=[bare])).pod_addresses == ("10.244.1.2",)


def test_disagreements_and_reserved_ports_are_said_naming_service_and_port() -> None:
    facts = node_facts(rows=[row("shop/cart", "8080 18081"), row("shop/cart", "8080=tcp 18081", address="10.244.1.3")])
    assert problems_of(facts) == [
        ("ports-disagree", "Service shop/cart", "8080"),
        ("reserved-port", "Service shop/cart", "18081=http"),
    ]
    (problem, _) = plan_index(index_facts(facts)).problems
    assert problem.message == "endpoints disagree about port 8080 (1 http, 1 tcp): it is http"


def test_services_are_sorted() -> None:
    facts = node_facts(rows=[row("shop/pay"), row("bank/pay"), row("shop/cart")])
    assert [str(view.service) for view in plan_services(facts)] == ["bank/pay", "shop/cart", "shop/pay"]


def test_sixty_four_ports_of_a_service_are_served() -> None:
    spelled = " ".join(str(number) for number in range(1, 65))
    assert len(only_view(node_facts(rows=[row("shop/cart", spelled)])).ports) == 64
