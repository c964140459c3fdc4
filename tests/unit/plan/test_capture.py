"""One pod's capture, decided."""

import ipaddress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import CONFIG, local_pod, service_id

from aether.model.annotations import Declaration
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT, PortClass
from aether.plan.capture import (
    CLOSED,
    CapturePlan,
    EditCapture,
    MeshSets,
    ReplaceCapture,
    decide,
    diff_capture,
    plan_capture,
    plan_mesh_sets,
    union,
)
from aether.plan.mesh.node import DialledPod
from aether.plan.mesh.services import ServicePort, ServiceView

CART = ServiceView(
    service=service_id("shop/cart"),
    ports=(ServicePort(80, PortClass.HTTP, 8080), ServicePort(9000, PortClass.TCP, 9000)),
    declared=(ServicePort(8080, PortClass.HTTP, 8080), ServicePort(9000, PortClass.TCP, 9000)),
    addresses=("10.96.0.5", "fd96::5"),
    pod_addresses=("10.244.1.2", "fd00:244:1::2"),
)
DNS = ServiceView(
    service=service_id("shop/dns"), ports=(ServicePort(53, PortClass.UDP, 53),), declared=(), addresses=("10.96.0.6",)
)
CART_POD = DialledPod(
    address="10.244.1.2",
    service=CART.service,
    ports=((8080, PortClass.HTTP), (9000, PortClass.TCP)),
)
SETS = plan_mesh_sets([CART, DNS], [CART_POD])
PLAN = plan_capture(local_pod("cart-1", "10.244.1.9", "fd00:244:1::9"), Declaration(ports=()), SETS, CONFIG)
SCOPED = msgspec.structs.replace(PLAN, captures_all=False)


def test_mesh_addresses_are_those_of_services_and_of_registered_pods() -> None:
    assert SETS.mesh4 == {"10.96.0.5", "10.96.0.6", "10.244.1.2"}
    assert SETS.mesh6 == {"fd96::5", "fd00:244:1::2"}


def test_raw_pairs_are_the_service_ports_at_its_addresses_and_the_pods_own_ports_at_theirs() -> None:
    assert SETS.raw4 == {("10.96.0.5", 9000), ("10.244.1.2", 9000)}
    assert SETS.raw6 == {("fd96::5", 9000)}


def test_a_service_with_a_tls_route_keeps_its_raw_ports_out() -> None:
    sets = plan_mesh_sets([CART], [], with_tls_routes=frozenset({CART.service}))
    assert sets.mesh4 == {"10.96.0.5", "10.244.1.2"}
    assert not sets.raw4
    assert not sets.raw6


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("10.96.0.5", 80, CAPTURE_PORT),
        ("fd96::5", 7777, CAPTURE_PORT),
        ("10.96.0.5", 9000, CAPTURE_RAW_PORT),
        ("fd96::5", 9000, CAPTURE_RAW_PORT),
        ("10.96.0.6", 53, CAPTURE_PORT),
        ("10.244.1.2", 8080, CAPTURE_PORT),
        ("10.244.1.2", 9000, CAPTURE_RAW_PORT),
        ("192.0.2.1", 443, CAPTURE_RAW_PORT),
        ("10.96.0.5", PROXY_PORT, CAPTURE_PORT),
        ("192.0.2.1", PROXY_PORT, CAPTURE_RAW_PORT),
        ("10.96.0.10", 53, None),
        ("fd96::a", 853, None),
        ("127.0.0.1", PROXY_PORT, None),
        ("::1", 80, None),
        ("0.0.0.0", 80, None),
        ("::", 80, None),
        ("10.244.1.9", 8080, None),
        ("fd00:244:1::9", 18001, None),
    ],
)
def test_a_dial_is_decided_by_its_address_and_port(address: str, port: int, expected: int | None) -> None:
    assert decide(PLAN, address, port) == expected


@pytest.mark.parametrize(
    ("address", "port", "expected"),
    [
        ("10.96.0.5", PROXY_PORT, CAPTURE_PORT),
        ("fd96::5", PROXY_PORT, CAPTURE_PORT),
        ("10.244.1.2", PROXY_PORT, CAPTURE_PORT),
        ("10.96.0.5", 9000, None),
        ("192.0.2.1", PROXY_PORT, None),
        ("127.0.0.1", PROXY_PORT, None),
    ],
)
def test_without_redirect_all_only_the_proxy_port_of_a_mesh_address_is_diverted(
    address: str, port: int, expected: int | None
) -> None:
    assert decide(SCOPED, address, port) == expected


def test_exclusions_win_over_everything() -> None:
    declaration = Declaration(
        ports=(), excluded_ports=((9000, 9010), (80, 80)), excluded_ranges=("10.96.0.5/32", "2001:db8::/32")
    )
    plan = plan_capture(local_pod("a"), declaration, SETS, CONFIG)
    assert decide(plan, "10.244.1.2", 80) is None
    assert decide(plan, "192.0.2.1", 9005) is None
    assert decide(plan, "10.96.0.5", PROXY_PORT) is None
    assert decide(plan, "2001:db8::1", 443) is None
    assert decide(plan, "192.0.2.1", 81) == CAPTURE_RAW_PORT


def test_exclusions_are_merged_so_that_none_overlaps_another() -> None:
    declaration = Declaration(
        ports=(),
        excluded_ports=((9005, 9020), (9000, 9010), (9021, 9021), (80, 80), (9001, 9002)),
        excluded_ranges=("10.1.0.0/16", "10.0.0.0/8", "192.0.2.7", "fd00::/8", "fd00::1/128", "fe80::1/64"),
    )
    plan = plan_capture(local_pod("a"), declaration, MeshSets(), CONFIG)
    assert plan.exempt_ports == ((80, 80), (9000, 9021))
    assert plan.exempt4 == ("10.0.0.0/8", "192.0.2.7/32")
    assert plan.exempt6 == ("fd00::/8", "fe80::/64")


def test_redirect_all_false_is_in_the_plan() -> None:
    assert not plan_capture(local_pod("a"), Declaration(ports=(), is_captured=False), SETS, CONFIG).captures_all


def test_the_closed_plan_captures_everything_that_leaves() -> None:
    assert decide(CLOSED, "10.96.0.10", 53) == CAPTURE_RAW_PORT
    assert decide(CLOSED, "192.0.2.1", 22) == CAPTURE_RAW_PORT
    assert decide(CLOSED, "127.0.0.1", 22) is None


def test_without_a_table_everything_is_applied() -> None:
    assert diff_capture(None, PLAN) == ReplaceCapture(PLAN)


def test_equal_plans_need_nothing() -> None:
    assert diff_capture(PLAN, msgspec.structs.replace(PLAN)) is None


def test_sets_are_edited_by_element() -> None:
    sets = MeshSets(mesh4=frozenset({"10.96.0.5", "10.96.0.7"}), raw4=frozenset({("10.96.0.7", 25)}))
    change = diff_capture(PLAN, msgspec.structs.replace(PLAN, sets=sets))
    assert isinstance(change, EditCapture)
    assert change.add == MeshSets(mesh4=frozenset({"10.96.0.7"}), raw4=frozenset({("10.96.0.7", 25)}))
    assert change.remove == MeshSets(mesh4=SETS.mesh4 - {"10.96.0.5"}, mesh6=SETS.mesh6, raw4=SETS.raw4, raw6=SETS.raw6)


@pytest.mark.parametrize(
    "new",
    [
        SCOPED,
        msgspec.structs.replace(PLAN, exempt_ports=((1, 1),)),
        msgspec.structs.replace(PLAN, exempt4=()),
        msgspec.structs.replace(PLAN, exempt6=()),
    ],
)
def test_anything_but_the_sets_replaces_the_table(new: CapturePlan) -> None:
    assert diff_capture(PLAN, new) == ReplaceCapture(new)


TEXTS4 = st.frozensets(st.ip_addresses(v=4).map(str), max_size=3)
TEXTS6 = st.frozensets(st.ip_addresses(v=6).map(str), max_size=3)
PORTS = st.integers(1, 65535)
SOME_SETS = st.builds(
    MeshSets,
    mesh4=TEXTS4,
    mesh6=TEXTS6,
    raw4=st.frozensets(st.tuples(st.ip_addresses(v=4).map(str), PORTS), max_size=3),
    raw6=st.frozensets(st.tuples(st.ip_addresses(v=6).map(str), PORTS), max_size=3),
)
SOME_PLANS = st.builds(CapturePlan, captures_all=st.booleans(), sets=SOME_SETS)


@given(old=SOME_PLANS, new=SOME_PLANS)
def test_an_edit_leads_from_one_plan_to_the_other(old: CapturePlan, new: CapturePlan) -> None:
    match diff_capture(old, new):
        case None:
            assert old == new
        case ReplaceCapture(plan):
            assert plan == new
        case EditCapture(add, remove):
            assert (old.sets | add) - remove == new.sets
            assert not remove - old.sets


@given(old=SOME_PLANS, new=SOME_PLANS)
def test_between_two_plans_every_element_of_both_stands(old: CapturePlan, new: CapturePlan) -> None:
    both = union(old, new)
    assert not (old.sets | new.sets) - both.sets
    assert both.captures_all == new.captures_all
    change = diff_capture(both, new)
    assert change is None or (isinstance(change, EditCapture) and not change.add)


@given(plan=SOME_PLANS, address=st.ip_addresses().map(str), port=PORTS)
def test_what_stays_inside_is_never_captured_and_the_rest_has_one_answer(
    plan: CapturePlan, address: str, port: int
) -> None:
    answer = decide(plan, address, port)
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or parsed.is_unspecified:
        assert answer is None
    elif plan.captures_all:
        assert answer in (CAPTURE_PORT, CAPTURE_RAW_PORT)
    else:
        assert answer in (CAPTURE_PORT, None)
