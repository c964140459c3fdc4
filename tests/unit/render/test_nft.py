"""Capture and routing, spelled for nftables. What the rules do is proved on the real kernel (tests/netns)."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.plan.test_routing import OLD

from aether.model.ports import Transport
from aether.plan.capture import CLOSED, CapturePlan, EditCapture, MeshSets, ReplaceCapture, diff_capture
from aether.plan.routing import Backend, EditRouting, ReplaceRouting, RoutingPlan, ServiceRoute, UdpFlow, diff_routing
from aether.render.nft import (
    CAPTURE_NAME,
    ROUTING_NAME,
    render_capture,
    render_capture_change,
    render_routing,
    render_routing_change,
)

BACKENDS = (Backend("10.244.1.2", 5300), Backend("10.244.1.3", 5300))
PLAN = CapturePlan(
    captures_all=True,
    sets=MeshSets(mesh4=frozenset({"10.96.0.5", "10.96.0.6"}), raw6=frozenset({("fd96::5", 9000)})),
    exempt_ports=((22, 22), (9000, 9010)),
    exempt4=("10.0.0.0/8",),
)


def test_a_table_is_replaced_in_one_transaction_that_may_be_repeated() -> None:
    for text, name in ((render_capture(PLAN), CAPTURE_NAME), (render_routing(OLD), ROUTING_NAME)):
        assert text.splitlines()[:3] == [f"add table inet {name}", f"delete table inet {name}", f"table inet {name} {{"]


def test_a_set_without_elements_has_no_empty_list() -> None:
    assert "elements" not in render_capture(CLOSED)
    assert "elements" not in render_routing(RoutingPlan())


def test_single_ports_and_ranges_are_spelled_apart() -> None:
    assert "      22,\n      9000-9010\n" in render_capture(PLAN)


def test_without_redirect_all_there_is_no_way_to_the_raw_listener() -> None:
    text = render_capture(msgspec.structs.replace(PLAN, captures_all=False))
    assert "tcp dport != 18081 return" in text
    assert "goto raw" not in text
    assert "goto raw" in render_capture(PLAN)


def test_a_replacement_is_the_whole_table() -> None:
    assert render_capture_change(ReplaceCapture(PLAN)) == render_capture(PLAN)
    assert render_routing_change(ReplaceRouting(plan=OLD)) == render_routing(OLD)


def test_an_edit_of_capture_adds_and_deletes_elements() -> None:
    change = EditCapture(
        add=MeshSets(mesh4=frozenset({"10.96.0.9", "10.96.0.7"}), raw4=frozenset({("10.96.0.9", 25)})),
        remove=MeshSets(mesh6=frozenset({"fd96::5"}), raw6=frozenset({("fd96::5", 9000)})),
    )
    assert render_capture_change(change) == (
        "add element inet aether_capture mesh4 { 10.96.0.7, 10.96.0.9 }\n"
        "add element inet aether_capture raw4 { 10.96.0.9 . 25 }\n"
        "delete element inet aether_capture mesh6 { fd96::5 }\n"
        "delete element inet aether_capture raw6 { fd96::5 . 9000 }\n"
    )


def test_an_edit_that_concerns_conntrack_only_has_no_text() -> None:
    assert render_routing_change(EditRouting(stale=(UdpFlow("10.96.0.5", 53, Backend("10.244.1.2", 53)),))) == ""


def test_a_verdict_is_deleted_before_its_slots_and_added_after_them() -> None:
    lines = _lines(diff_routing(OLD, RoutingPlan(refused=OLD.refused, routes=OLD.routes[1:])))
    assert [line.split()[0] + " " + line.split()[4] for line in lines if "element" in line and "10.96" in line] == [
        "delete services4",
        "delete backends4",
    ]
    lines = _lines(diff_routing(RoutingPlan(refused=OLD.refused), OLD))
    kinds = [line.split()[4] for line in lines if "10.96" in line]
    assert kinds == sorted(kinds)


def test_a_chain_is_made_before_it_is_used_and_deleted_after() -> None:
    lines = _lines(diff_routing(RoutingPlan(refused=OLD.refused), OLD))
    uses = [index for index, line in enumerate(lines) if "goto spread3" in line]
    assert lines.index("add chain inet aether_routing spread3") < min(uses)
    lines = _lines(diff_routing(OLD, RoutingPlan(refused=OLD.refused)))
    uses = [index for index, line in enumerate(lines) if "goto spread3" in line]
    flushed, deleted = (lines.index(f"{verb} chain inet aether_routing spread3") for verb in ("flush", "delete"))
    assert max(uses) < flushed < deleted


def test_only_slots_that_differ_are_touched() -> None:
    two, one = (ServiceRoute("10.96.0.5", Transport.UDP, 53, BACKENDS[:count]) for count in (2, 1))
    before, after = (RoutingPlan(routes=(each,)) for each in (two, one))
    assert [line for line in _lines(diff_routing(before, after)) if "backends4 {" in line] == [
        "delete element inet aether_routing backends4 { 10.96.0.5 . udp . 53 . 1 : 10.244.1.3 . 5300 }"
    ]


def _lines(change: EditRouting | ReplaceRouting | None) -> list[str]:
    assert isinstance(change, EditRouting)
    return render_routing_change(change).splitlines()


@given(
    mesh4=st.frozensets(st.ip_addresses(v=4).map(str), max_size=8),
    raw4=st.frozensets(st.tuples(st.ip_addresses(v=4).map(str), st.integers(1, 65535)), max_size=8),
)
def test_equal_plans_are_spelled_alike(mesh4: frozenset[str], raw4: frozenset[tuple[str, int]]) -> None:
    plan = CapturePlan(captures_all=True, sets=MeshSets(mesh4=mesh4, raw4=raw4))
    again = CapturePlan(
        captures_all=True,
        sets=MeshSets(mesh4=frozenset(sorted(mesh4, reverse=True)), raw4=frozenset(sorted(raw4, reverse=True))),
    )
    assert render_capture(plan) == render_capture(again)
    assert diff_capture(plan, again) is None
