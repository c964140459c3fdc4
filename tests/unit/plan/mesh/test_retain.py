import msgspec
from tests.support.facts import generated, node_facts, row, service_id, user_service

from aether.model.facts import ServiceRecord
from aether.model.settings import RetainSettings
from aether.plan.mesh.addressing import (
    Deliver,
    EntryPath,
    HttpRequest,
    PassThrough,
    RawConnection,
    Reason,
    Refuse,
    answer_http,
    answer_raw,
)
from aether.plan.mesh.clusters import MeshCluster, MeshContext, next_context, plan_cluster, plan_context
from aether.plan.mesh.dns import plan_zone, plan_zone_in
from aether.plan.mesh.retain import Retention, retain, with_retained
from aether.plan.mesh.services import plan_services

CART = service_id("shop/cart")
SERVICE = generated("shop/cart", "10.96.0.5")
LIVING = node_facts(rows=[row("shop/cart", "8080 9000=tcp")], services=[SERVICE])
BARE = node_facts(services=[SERVICE])
"""The rows have left, and the generated Service declares no port any more."""

REQUEST = HttpRequest(
    path=EntryPath.PROXY_PORT,
    authority="cart.shop:8080",
    dialled_address="127.0.0.1",
    dialled_port=18081,
    caller_namespace="shop",
)


def living_then(*records: ServiceRecord, rows: str = "", now_s: float = 10.0) -> MeshContext:
    """The context that follows the living service's at time 0."""
    after = node_facts(rows=[row("shop/cart", rows)] if rows else [], services=records)
    return plan_context(after, before=plan_context(LIVING, now_s=0.0).retention, now_s=now_s)


def test_a_service_of_which_nothing_is_known_any_more_keeps_its_answers_without_endpoints() -> None:
    context = living_then(SERVICE)
    outcome = answer_http(REQUEST, context.directory)
    assert outcome == Deliver(CART, 8080, 8080, "cart.shop.aether.internal:8080")
    cluster = plan_cluster("cart.shop.aether.internal:8080", context)
    assert isinstance(cluster, MeshCluster)
    assert cluster.endpoints == ()
    assert context.directory.pods == {}


def test_its_raw_tcp_ports_stay_at_its_address() -> None:
    connection = RawConnection(dialled_address="10.96.0.5", dialled_port=9000)
    assert isinstance(answer_raw(connection, living_then(SERVICE).directory), Deliver)


def test_it_is_given_up_after_the_grace_and_not_before() -> None:
    lost = living_then(SERVICE, now_s=10.0).retention
    assert lost.next_deadline_s() == 100.0
    kept = plan_context(BARE, before=lost, now_s=99.9)
    assert isinstance(answer_http(REQUEST, kept.directory), Deliver)
    assert kept.retention.next_deadline_s() == 100.0
    given_up = plan_context(BARE, before=kept.retention, now_s=100.0)
    assert answer_http(REQUEST, given_up.directory) == Refuse(Reason.PORT_NOT_DECLARED, CART)
    assert given_up.retention == Retention()
    assert given_up.retention.next_deadline_s() is None


def test_rows_under_another_protocol_replace_it_in_the_same_look() -> None:
    for rows in ("9000=tcp", "53=udp", "18081"):
        context = living_then(SERVICE, rows=rows)
        assert answer_http(REQUEST, context.directory) == Refuse(Reason.PORT_NOT_DECLARED, CART)


def test_a_generated_service_that_declares_other_ports_replaces_it_in_the_same_look() -> None:
    context = living_then(generated("shop/cart", "10.96.0.5", ports="7000"))
    assert answer_http(REQUEST, context.directory) == Refuse(Reason.PORT_NOT_DECLARED, CART)


def test_a_generated_service_that_still_declares_the_port_is_no_reason_to_replace() -> None:
    context = living_then(generated("shop/cart", "10.96.0.5", ports="8080"))
    assert isinstance(answer_http(REQUEST, context.directory), Deliver)
    assert context.retention.lost == ()


def test_evidence_ends_what_is_kept() -> None:
    lost = living_then(SERVICE).retention
    back = plan_context(LIVING, before=lost, now_s=20.0)
    assert back.retention.lost == ()
    assert back.directory.views[CART].pod_addresses == ("10.244.1.2",)


def test_a_kept_service_has_the_address_its_service_has_now() -> None:
    moved = generated("shop/cart", "10.96.0.6")
    assert living_then(moved).directory.views[CART].addresses == ("10.96.0.6",)


def test_a_kept_service_without_a_service_object_keeps_its_address_unless_another_has_it() -> None:
    assert living_then().directory.owners == {"10.96.0.5": CART}
    other = generated("shop/pay", "10.96.0.5", ports="80")
    context = living_then(other)
    assert context.directory.owners == {"10.96.0.5": service_id("shop/pay")}
    assert CART in context.directory.views


def test_a_user_owned_service_is_kept_too() -> None:
    users = user_service("shop/cart", "10.96.0.7", ports="80:8080")
    before = plan_context(node_facts(rows=[row("shop/cart")], services=[users])).retention
    context = plan_context(node_facts(services=[users]), before=before, now_s=1.0)
    request = msgspec.structs.replace(REQUEST, authority="cart.shop.aether.internal")
    assert answer_http(request, context.directory) == Deliver(CART, 80, 8080, "cart.shop.aether.internal:80")
    captured = msgspec.structs.replace(
        request, path=EntryPath.CAPTURED, dialled_address="10.96.0.7", dialled_port=80, authority="cart.shop"
    )
    assert answer_http(captured, context.directory) == PassThrough()


def test_a_context_is_made_once_for_the_same_facts_until_something_kept_expires() -> None:
    first = next_context(LIVING, before=None, now_s=0.0)
    assert next_context(LIVING, before=first, now_s=1e6) is first
    lost = next_context(BARE, before=first, now_s=10.0)
    assert CART in {one.view.service for one in lost.retention.lost}
    assert next_context(BARE, before=lost, now_s=99.9) is lost
    assert next_context(BARE, before=lost, now_s=100.0).retention.lost == ()


def test_a_kept_service_keeps_its_names() -> None:
    names = {found.name: found.ipv4 for found in plan_zone_in(living_then()).names}
    assert names["cart.shop.aether.internal"] == ("10.96.0.5",)
    assert plan_zone_in(plan_context(LIVING)) == plan_zone(LIVING)


def test_a_service_that_never_had_ports_is_not_kept() -> None:
    before = plan_context(BARE).retention
    assert before == Retention()
    assert plan_context(node_facts(), before=before).directory.views == {}


def test_the_grace_is_a_setting() -> None:
    before = retain(Retention(), plan_services(LIVING), now_s=0.0)
    after = retain(before, (), now_s=1.0, settings=RetainSettings(grace_s=5.0))
    assert after.next_deadline_s() == 6.0
    assert with_retained((), after)[0].pod_addresses == ()
