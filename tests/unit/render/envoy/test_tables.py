"""The route tables: whose names stand where, and that history leaves no trace."""

import msgspec
import pytest
from envoy.config.route.v3 import route_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.envoy_plans import CONFIG, view
from tests.support.facts import meshes

from aether.plan.mesh.node import plan_context
from aether.render.envoy import names
from aether.render.envoy.tables import ServiceTables, pod_table

SHOP = (view("blog/cart", "80"), view("shop/cart", "8080 9000=tcp"), view("shop/pay", "8080 9000=tcp"))


def tables(*views: object) -> tuple[route_pb2.RouteConfiguration, route_pb2.RouteConfiguration]:
    capture, proxy = ServiceTables(CONFIG).render(views)  # type: ignore[arg-type]
    return route_pb2.RouteConfiguration.FromString(capture.body), route_pb2.RouteConfiguration.FromString(proxy.body)


def hosts(table: route_pb2.RouteConfiguration) -> dict[str, list[str]]:
    return {host.name: list(host.domains) for host in table.virtual_hosts}


def full(name: str) -> list[str]:
    return [f"{name}.aether.internal", f"{name}.svc.cluster.local", f"{name}.svc", name]


def test_services_of_one_shape_share_a_virtual_host_in_both_tables() -> None:
    for table in tables(*SHOP):
        assert hosts(table)["ports 8080=http,9000=tcp"] == [*full("cart.shop"), *full("pay.shop")]
        assert hosts(table)["ports 80=http"] == full("cart.blog")


def test_a_short_name_stands_once_with_all_who_have_it() -> None:
    for table in tables(*SHOP):
        shared = "short: blog ports 80=http; shop ports 8080=http,9000=tcp"
        assert hosts(table)[shared] == ["cart"]
        assert hosts(table)["short: shop ports 8080=http,9000=tcp"] == ["pay"]


def test_a_user_owned_service_answers_to_its_mesh_name_alone() -> None:
    (table, _) = tables(view("shop/gate", "80:8080", owned="8080"))
    assert list(hosts(table).values()) == [["gate.shop.aether.internal"], ["*"]]


def test_everything_else_comes_last() -> None:
    for table in tables(*SHOP):
        assert hosts(table)["unknown"] == ["*"]
        assert table.virtual_hosts[-1].name == "unknown"


def test_a_table_matches_names_without_their_port_and_sends_nothing_of_its_own() -> None:
    for table in tables(*SHOP):
        assert table.ignore_port_in_host_matching
        assert list(table.request_headers_to_remove) == [names.CALLER_HEADER, names.CLUSTER_HEADER]
        assert [plugin.extension.name for plugin in table.cluster_specifier_plugins] == ["mesh", "own"]
        assert not table.validate_clusters.value


def test_a_name_that_the_two_domains_would_spell_alike_stands_once() -> None:
    config = msgspec.structs.replace(CONFIG, domains=msgspec.structs.replace(CONFIG.domains, mesh="svc"))
    capture, _ = ServiceTables(config).render((view("shop/cart", "80"),))
    (host, *_) = route_pb2.RouteConfiguration.FromString(capture.body).virtual_hosts
    assert len(host.domains) == len(set(host.domains)) == 3


def test_the_same_directory_gives_the_same_resource() -> None:
    rendered = ServiceTables(CONFIG)
    assert rendered.render(SHOP) is rendered.render(tuple(SHOP))


@given(before=meshes(), after=meshes())
def test_whatever_was_rendered_before_equal_directories_give_equal_bytes(before: object, after: object) -> None:
    old, new = (plan_context(facts).services.views for facts in (before, after))  # type: ignore[arg-type]
    used = ServiceTables(CONFIG)
    used.render(old)
    assert used.render(new) == ServiceTables(CONFIG).render(new)
    assert used.render(old) == ServiceTables(CONFIG).render(old)


@given(data=st.data(), facts=meshes())
def test_one_service_that_goes_or_comes_is_as_if_it_never_was(data: st.DataObject, facts: object) -> None:
    views = plan_context(facts).services.views  # type: ignore[arg-type]
    without = views if not views else tuple(v for v in views if v != data.draw(st.sampled_from(views)))
    used = ServiceTables(CONFIG)
    for directory in (views, without, views):
        assert used.render(directory) == ServiceTables(CONFIG).render(directory)


def test_the_table_of_pods_names_no_pod_and_takes_every_host() -> None:
    table = route_pb2.RouteConfiguration.FromString(pod_table(CONFIG).body)
    (host,) = table.virtual_hosts
    assert list(host.domains) == ["*"]
    (route,) = host.routes
    assert route.route.cluster_header == names.CLUSTER_HEADER
    assert names.CLUSTER_HEADER in table.request_headers_to_remove


@pytest.mark.parametrize("limit", [400_000])
def test_a_table_of_2_000_services_of_one_shape_stays_small(limit: int) -> None:
    views = [view(f"ns-{number % 40:02d}/service-{number:05d}", "8080 9090") for number in range(2_000)]
    capture, _ = ServiceTables(CONFIG).render(tuple(sorted(views, key=lambda each: each.service)))
    assert len(capture.body) <= limit
