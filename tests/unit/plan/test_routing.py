"""The service routing of one node, decided."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import (
    CONFIG,
    generated,
    local_pod,
    meshes,
    node_facts,
    row,
    service_id,
    shuffled,
    user_service,
)

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import NodeFacts, ServiceEndpoint, ServicePortRecord, ServiceRecord
from aether.model.ports import DNS_PORT, Transport
from aether.plan.routing import (
    Backend,
    EditRouting,
    ReplaceRouting,
    RoutingPlan,
    ServiceRoute,
    UdpFlow,
    diff_routing,
    plan_routing,
    spreads,
)

NO_DNS = msgspec.structs.replace(CONFIG, dns_addresses=())


def routes(facts: NodeFacts) -> dict[tuple[str, str, int], tuple[tuple[str, int], ...]]:
    plan = plan_routing(facts)
    return {
        (route.address, str(route.transport), route.port): tuple((each.address, each.port) for each in route.backends)
        for route in plan.routes
    }


def both_families(service: str, ports: str, number: int, health: Health = Health.HEALTHY) -> EndpointRow:
    addresses = (f"10.244.1.{number}", f"fd00:244:1::{number}")
    return msgspec.structs.replace(row(service, ports, address=addresses[0], health=health), addresses=addresses)


def user(*endpoints: ServiceEndpoint, ports: tuple[ServicePortRecord, ...], name: str = "shop/db") -> ServiceRecord:
    return ServiceRecord(
        service=service_id(name), is_generated=False, addresses=("10.96.0.7",), ports=ports, endpoints=endpoints
    )


HTTP = ServicePortRecord(80, Transport.TCP, 8080)
LOG = ServicePortRecord(514, Transport.UDP, "syslog")


def endpoint(address: str, *ports: tuple[int, Transport, int], is_ready: bool = True) -> ServiceEndpoint:
    return ServiceEndpoint(addresses=(address,), is_ready=is_ready, ports=ports)


def test_a_generated_service_routes_udp_and_never_tcp() -> None:
    facts = node_facts(
        services=[generated("shop/dns", "10.96.0.5", "fd96::5", ports="53=udp 53=tcp 8080")],
        rows=[both_families("shop/dns", "53=udp 53=tcp 8080", 2)],
        config=NO_DNS,
    )
    assert routes(facts) == {
        ("10.96.0.5", "udp", 53): (("10.244.1.2", 53),),
        ("fd96::5", "udp", 53): (("fd00:244:1::2", 53),),
    }


def test_only_rows_that_declare_the_port_udp_are_behind_it() -> None:
    facts = node_facts(
        services=[generated("shop/dns", "10.96.0.5", ports="53=udp")],
        rows=[
            row("shop/dns", "53=udp", address="10.244.1.2"),
            row("shop/dns", "53=tcp", address="10.244.1.3"),
            row("shop/dns", "54=udp", address="10.244.1.4"),
            row("shop/other", "53=udp", address="10.244.1.5"),
        ],
        config=NO_DNS,
    )
    assert routes(facts) == {("10.96.0.5", "udp", 53): (("10.244.1.2", 53),)}


@pytest.mark.parametrize(
    ("healths", "expected"),
    [
        ((Health.HEALTHY, Health.DRAINING, Health.UNHEALTHY), (2,)),
        ((Health.DRAINING, Health.DRAINING, Health.UNHEALTHY), (2, 3)),
        ((Health.UNHEALTHY, Health.UNHEALTHY, Health.UNHEALTHY), ()),
        ((Health.HEALTHY, Health.HEALTHY, Health.HEALTHY), (2, 3, 4)),
    ],
)
def test_healthy_endpoints_take_new_flows_else_the_draining_ones(
    healths: tuple[Health, ...], expected: tuple[int, ...]
) -> None:
    rows = [row("shop/dns", "53=udp", address=f"10.244.1.{n}", health=health) for n, health in enumerate(healths, 2)]
    services = [generated("shop/dns", "10.96.0.5", ports="53=udp")]
    facts = node_facts(services=services, rows=rows, config=NO_DNS)
    assert routes(facts).get(("10.96.0.5", "udp", 53), ()) == tuple((f"10.244.1.{n}", 53) for n in expected)


def test_flows_of_draining_endpoints_go_on_and_those_of_unhealthy_ones_do_not() -> None:
    rows = [
        row("shop/dns", "53=udp", address="10.244.1.2"),
        row("shop/dns", "53=udp", address="10.244.1.3", health=Health.DRAINING),
        row("shop/dns", "53=udp", address="10.244.1.4", health=Health.UNHEALTHY),
    ]
    plan = plan_routing(
        node_facts(services=[generated("shop/dns", "10.96.0.5", ports="53=udp")], rows=rows, config=NO_DNS)
    )
    assert plan.pinned == {
        UdpFlow("10.96.0.5", 53, Backend("10.244.1.2", 53)),
        UdpFlow("10.96.0.5", 53, Backend("10.244.1.3", 53)),
    }


def test_a_users_service_is_routed_by_its_ready_endpoints_and_their_own_ports() -> None:
    tcp, udp = (80, Transport.TCP), (514, Transport.UDP)
    record = user(
        endpoint("10.244.1.2", (*tcp, 8080), (*udp, 5140)),
        endpoint("10.244.1.3", (*tcp, 8081)),
        endpoint("10.244.1.4", (*tcp, 8080), (*udp, 5140), is_ready=False),
        ports=(HTTP, LOG),
    )
    plan = plan_routing(node_facts(services=[record], config=NO_DNS))
    assert plan.routes == (
        ServiceRoute("10.96.0.7", Transport.TCP, 80, (Backend("10.244.1.2", 8080), Backend("10.244.1.3", 8081))),
        ServiceRoute("10.96.0.7", Transport.UDP, 514, (Backend("10.244.1.2", 5140),)),
    )
    assert plan.pinned == {
        UdpFlow("10.96.0.7", 514, Backend("10.244.1.2", 5140)),
        UdpFlow("10.96.0.7", 514, Backend("10.244.1.4", 5140)),
    }


def test_ports_without_endpoints_and_services_without_addresses_have_no_route() -> None:
    headless = user_service("shop/ring", ports="80:8080", endpoints=("10.244.1.2",))
    facts = node_facts(services=[user(ports=(HTTP, LOG)), headless], config=NO_DNS)
    assert routes(facts) == {}


def test_a_named_target_of_a_generated_service_has_no_route() -> None:
    record = msgspec.structs.replace(generated("shop/dns", "10.96.0.5"), ports=(LOG,))
    assert routes(node_facts(services=[record], rows=[row("shop/dns", "514=udp")], config=NO_DNS)) == {}


def test_the_dns_addresses_lead_to_the_node_in_both_transports() -> None:
    facts = msgspec.structs.replace(node_facts(), node_addresses=("10.243.0.1", "fd00:243::1"))
    assert routes(facts) == {
        (address, transport, 53): ((node, DNS_PORT),)
        for address, node in (("10.96.0.10", "10.243.0.1"), ("fd96::a", "fd00:243::1"))
        for transport in ("tcp", "udp")
    }


def test_a_dns_address_without_a_node_address_of_its_family_has_no_route() -> None:
    assert [route.address for route in plan_routing(node_facts()).routes] == ["10.96.0.10", "10.96.0.10"]


def test_an_address_and_port_taken_twice_stays_with_the_first_and_is_reported() -> None:
    port = ServicePortRecord(53, Transport.UDP, 53)
    thief = msgspec.structs.replace(
        user(endpoint("10.244.1.2", (53, Transport.UDP, 53)), ports=(port,)), addresses=("10.96.0.10",)
    )
    plan = plan_routing(node_facts(services=[thief]))
    assert [route.backends for route in plan.routes] == [(Backend("10.243.0.1", DNS_PORT),)] * 2
    (problem,) = plan.problems
    assert (problem.code, problem.subject, problem.item) == (
        "service-address-taken",
        "Service shop/db",
        "10.96.0.10",
    )
    assert not plan.pinned


def test_guarded_are_the_meshs_pods_and_local_are_all_pods_of_the_node() -> None:
    facts = node_facts(
        rows=[both_families("shop/cart", "8080", 2), both_families("shop/cart", "8080", 3)],
        pods=[local_pod("cart-2", "10.244.1.2", "fd00:244:1::2"), local_pod("tool", "10.244.1.9", managed="false")],
    )
    plan = plan_routing(facts)
    assert plan.guarded == {"10.244.1.2", "fd00:244:1::2", "10.244.1.3", "fd00:244:1::3"}
    assert plan.local_pods == {"10.244.1.2", "fd00:244:1::2", "10.244.1.9"}
    assert plan.refused == ("10.96.0.0/16", "fd96::/112")


def route(port: int, *backends: str, transport: Transport = Transport.UDP) -> ServiceRoute:
    return ServiceRoute("10.96.0.5", transport, port, tuple(Backend(address, port) for address in backends))


OLD = RoutingPlan(
    routes=(route(53, "a", "b"), route(54, "a"), route(55, "a", "b", "c")),
    refused=("10.96.0.0/16",),
    local_pods=frozenset({"a", "b"}),
    guarded=frozenset({"a"}),
    pinned=frozenset({UdpFlow("10.96.0.5", 53, Backend("a", 53)), UdpFlow("10.96.0.5", 54, Backend("a", 54))}),
)


def test_without_a_table_everything_is_routed_and_no_flow_is_stale() -> None:
    assert diff_routing(None, OLD) == ReplaceRouting(plan=OLD)


def test_equal_plans_need_nothing() -> None:
    assert diff_routing(OLD, msgspec.structs.replace(OLD)) is None


def test_other_refused_ranges_replace_the_table_and_stale_flows_are_named() -> None:
    new = RoutingPlan(refused=("10.97.0.0/16",))
    assert diff_routing(OLD, new) == ReplaceRouting(plan=new, stale=tuple(sorted(OLD.pinned)))


def test_an_edit_names_what_differs() -> None:
    new = RoutingPlan(
        routes=(route(53, "b"), route(54, "a"), route(56, "a", "b", "c", "d")),
        refused=OLD.refused,
        local_pods=frozenset({"b", "c"}),
        guarded=frozenset({"c"}),
        pinned=frozenset({UdpFlow("10.96.0.5", 54, Backend("a", 54))}),
    )
    assert diff_routing(OLD, new) == EditRouting(
        withdrawn=(route(55, "a", "b", "c"),),
        added=(route(56, "a", "b", "c", "d"),),
        changed=((route(53, "a", "b"), route(53, "b")),),
        spreads_added=(4,),
        spreads_removed=(2, 3),
        local_added=("c",),
        local_removed=("a",),
        guarded_added=("c",),
        guarded_removed=("a",),
        stale=(UdpFlow("10.96.0.5", 53, Backend("a", 53)),),
    )


def test_a_flow_that_may_not_go_on_is_a_change_by_itself() -> None:
    assert diff_routing(OLD, msgspec.structs.replace(OLD, pinned=frozenset())) == EditRouting(
        stale=tuple(sorted(OLD.pinned))
    )


def test_spreads_are_the_numbers_of_backends_in_use() -> None:
    assert spreads(OLD) == (1, 2, 3)


@given(data=st.data(), facts=meshes())
def test_the_order_of_the_facts_does_not_matter(data: st.DataObject, facts: NodeFacts) -> None:
    assert plan_routing(data.draw(shuffled(facts))) == plan_routing(facts)


@given(facts=meshes())
def test_no_mesh_application_is_reached_over_tcp_through_a_generated_service(facts: NodeFacts) -> None:
    plan = plan_routing(facts)
    generated_addresses = {each for record in facts.services if record.is_generated for each in record.addresses}
    assert not any(route.transport is Transport.TCP and route.address in generated_addresses for route in plan.routes)


@given(facts=meshes())
def test_every_route_has_backends_of_its_family_in_order(facts: NodeFacts) -> None:
    for each in plan_routing(facts).routes:
        assert each.backends == tuple(sorted(set(each.backends)))
        assert each.backends
        assert all((":" in backend.address) == (":" in each.address) for backend in each.backends)


@given(old=meshes(), new=meshes())
def test_a_changed_routing_is_found(old: NodeFacts, new: NodeFacts) -> None:
    before, after = plan_routing(old), plan_routing(new)
    is_same = all(getattr(before, name) == getattr(after, name) for name in ("routes", "local_pods", "guarded"))
    assert (diff_routing(before, after) is None) == (is_same and before.pinned <= after.pinned)
