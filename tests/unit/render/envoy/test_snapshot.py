"""Snapshots: which resources there are, and that caches change nothing."""

import msgspec
import pytest
from hypothesis import given, settings
from tests.support.envoy_plans import CONFIG, HTTP_CLUSTER, POD, POD_DIAL, RAW_CLUSTER, view
from tests.support.facts import local_pod, meshes, node_facts, row

from aether.plan.mesh.node import NodePlan, PassThroughCluster, Tombstone, plan_node
from aether.render.envoy import names
from aether.render.envoy.snapshot import RenderCache, consistency, render_cluster, render_snapshot

PLAN = NodePlan(
    node="n1",
    config=CONFIG,
    directory=(view("shop/cart", "8080"),),
    pods=(POD,),
    clusters=(HTTP_CLUSTER, POD_DIAL, RAW_CLUSTER),
)


def test_a_pod_has_four_listeners_its_last_hops_and_a_probe() -> None:
    snapshot = render_snapshot(PLAN)
    assert set(snapshot[names.LISTENER]) == {
        names.capture_listener(POD.uid),
        names.raw_listener(POD.uid),
        names.proxy_listener(POD.uid),
        names.inbound_listener(POD.uid),
    }
    of_the_pod = {names.application_cluster(POD.uid, port.number) for port in POD.inbound}
    assert {*of_the_pod, names.probe_cluster(POD.uid), names.PASS_THROUGH} < set(snapshot[names.CLUSTER])


def test_there_are_three_tables_whatever_there_is() -> None:
    for plan in (PLAN, NodePlan(node="n1", config=CONFIG)):
        assert set(render_snapshot(plan)[names.ROUTE]) == {"cap_http", "out_http", "pod_http"}


def test_a_pod_that_comes_or_goes_elsewhere_changes_no_table_and_no_listener() -> None:
    rows = [row("shop/cart", "8080 9000=tcp", address=f"10.244.2.{number}") for number in range(1, 4)]
    local = [local_pod("web-1", "10.244.1.1", ports="80")]
    one, three = (
        render_snapshot(plan_node(node_facts(rows=found, pods=local), observed=frozenset()))
        for found in (rows[:1], rows)
    )
    assert one[names.ROUTE] == three[names.ROUTE]
    assert one[names.LISTENER] == three[names.LISTENER]


def test_every_cluster_with_endpoints_has_its_load_assignment() -> None:
    assert set(render_snapshot(PLAN)[names.ENDPOINT]) == {HTTP_CLUSTER.name, POD_DIAL.name, RAW_CLUSTER.name}


def test_a_snapshot_is_read_only_and_sorted() -> None:
    snapshot = render_snapshot(PLAN)
    for resources in snapshot.values():
        assert list(resources) == sorted(resources)
        with pytest.raises(TypeError):
            resources["a"] = None  # type: ignore[index]


@pytest.mark.parametrize(
    ("plan", "has_endpoints"),
    [(HTTP_CLUSTER, True), (POD_DIAL, True), (Tombstone(name="a:1"), False), (PassThroughCluster(name="b:1"), False)],
)
def test_a_cold_answer_is_what_the_snapshot_would_hold(plan: object, has_endpoints: bool) -> None:
    cluster, assignment = render_cluster(plan, CONFIG)  # type: ignore[arg-type]
    snapshot = render_snapshot(NodePlan(node="n1", config=CONFIG, clusters=(plan,)))  # type: ignore[arg-type]
    assert snapshot[names.CLUSTER][cluster.name] == cluster
    assert (assignment is not None) is has_endpoints
    assert snapshot[names.ENDPOINT].get(cluster.name) == assignment


def test_an_endpoint_that_changes_changes_its_load_assignment_alone() -> None:
    cache = RenderCache()
    before = render_snapshot(PLAN, cache=cache)
    moved = msgspec.structs.replace(HTTP_CLUSTER, endpoints=())
    after = render_snapshot(
        msgspec.structs.replace(PLAN, clusters=(moved, *PLAN.clusters[1:])),
        cache=cache,
    )
    changed = [
        (type_url, name)
        for type_url in before
        for name in before[type_url]
        if before[type_url][name] != after[type_url][name]
    ]
    assert changed == [(names.ENDPOINT, HTTP_CLUSTER.name)]


def test_a_service_that_comes_changes_no_listener() -> None:
    cache = RenderCache()
    before = render_snapshot(PLAN, cache=cache)
    directory = (*PLAN.directory, view("shop/pay", "80"))
    after = render_snapshot(msgspec.structs.replace(PLAN, directory=directory), cache=cache)
    assert before[names.LISTENER] == after[names.LISTENER]


def test_another_configuration_or_log_begins_anew() -> None:
    cache = RenderCache()
    render_snapshot(PLAN, cache=cache)
    other = msgspec.structs.replace(PLAN, config=msgspec.structs.replace(CONFIG, trust_domain="other.example"))
    assert render_snapshot(other, cache=cache) == render_snapshot(other)
    assert render_snapshot(PLAN, cache=cache, access_log="/a") == render_snapshot(PLAN, access_log="/a")


@given(before=meshes(), after=meshes())
@settings(max_examples=25)
def test_a_cache_changes_nothing_and_every_mesh_is_sound(before: object, after: object) -> None:
    cache = RenderCache()
    for facts in (before, after, before):
        plan = plan_node(facts, observed=frozenset())  # type: ignore[arg-type]
        snapshot = render_snapshot(plan, cache=cache)
        assert snapshot == render_snapshot(plan)
        assert consistency(snapshot) == []
