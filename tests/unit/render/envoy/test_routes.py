"""Routes of a shape, read as Envoy reads them: the first whose conditions hold."""

from collections.abc import Iterable
from typing import Any

import pytest
from lupa import LuaRuntime  # type: ignore[import-untyped]  # it has no types
from tests.support.envoy_plans import CONFIG, view

from aether.model.names import Domains
from aether.model.ports import PortClass
from aether.render.envoy import names
from aether.render.envoy.routes import (
    Shape,
    Specifier,
    capture_routes,
    pod_route,
    proxy_routes,
    shape_of,
    short_capture_routes,
    short_proxy_routes,
    specifier_source,
    unknown_capture_routes,
    unknown_proxy_routes,
)

HTTP, TCP, UDP = PortClass.HTTP, PortClass.TCP, PortClass.UDP
SHAPE = Shape(((53, UDP), (80, UDP), (8080, HTTP), (8080, UDP), (9000, TCP)))
LIST = " serves 53=udp, 80=udp, 8080=http, 8080=udp, 9000=tcp"


def conditions(route: Any) -> set[tuple[str, str]]:
    """(what, value) pairs; a value in brackets is inverted or a pattern."""
    found = set()
    for state in route.match.filter_state:
        found.add((state.key, state.string_match.exact or f"[{state.string_match.safe_regex.regex}]"))
    for header in route.match.headers:
        text = header.string_match
        found.add((header.name, text.suffix or (f"[{text.contains}]" if header.invert_match else "[pattern]")))
    return found


def answers(routes: Iterable[Any]) -> list[tuple[str, set[tuple[str, str]]]]:
    return [(route.name, conditions(route)) for route in routes]


DIALLED = "aether.dialled_port"
CALLER = "aether.source.namespace"


def test_a_dialled_port_is_delivered_when_host_names_it_or_no_port_and_else_refused() -> None:
    assert answers(capture_routes(SHAPE))[:3] == [
        ("deliver", {(DIALLED, "8080"), (":authority", ":8080")}),
        ("deliver", {(DIALLED, "8080"), (":authority", "[:]")}),
        ("port-mismatch", {(DIALLED, "8080")}),
    ]


def test_http_on_a_dialled_raw_port_is_refused_as_a_net() -> None:
    assert ("port-not-http", {(DIALLED, "9000")}) in answers(capture_routes(SHAPE))


def test_a_dialled_port_that_is_udp_only_is_not_declared() -> None:
    assert not [found for _, found in answers(capture_routes(SHAPE)) if (DIALLED, "53") in found]
    assert answers(capture_routes(SHAPE))[-1] == ("port-not-declared", set())


def test_on_the_proxy_port_the_port_in_host_is_the_port() -> None:
    assert answers(proxy_routes(SHAPE)) == [
        ("port-not-http", {(":authority", ":53")}),
        ("port-not-http", {(":authority", ":80")}),
        ("deliver", {(":authority", ":8080")}),
        ("port-not-http", {(":authority", ":9000")}),
        ("port-not-http", {(":authority", "[:]")}),
        ("port-not-declared", set()),
    ]


@pytest.mark.parametrize(("ports", "answer"), [((), "port-required"), (((80, HTTP),), "deliver")])
def test_a_host_without_a_port_is_port_80_on_the_proxy_port(ports: Any, answer: str) -> None:
    assert (answer, {(":authority", "[:]")}) in answers(proxy_routes(Shape(ports)))


def test_the_capture_table_holds_the_proxy_ports_answers_for_a_dial_to_it() -> None:
    proxied = [(name, {*found, (DIALLED, "18081")}) for name, found in answers(proxy_routes(SHAPE))]
    assert [each for each in answers(capture_routes(SHAPE)) if (DIALLED, "18081") in each[1]] == proxied


def test_a_refusal_is_421_with_its_reason_and_lists_the_ports() -> None:
    refusal = list(capture_routes(SHAPE))[-1]
    assert refusal.direct_response.status == 421
    assert refusal.direct_response.body.inline_string == LIST
    header = refusal.response_headers_to_add[0].header
    assert (header.key, header.value) == ("x-aether-error", "port-not-declared")


def test_a_captured_dial_to_a_user_owned_service_is_never_refused() -> None:
    shape = Shape(((80, HTTP),), own=((8080, Specifier.MESH), (9090, Specifier.OWN)))
    routes = list(capture_routes(shape))
    captured = [(name, found) for name, found in answers(routes) if (DIALLED, "18081") not in found]
    assert captured == [
        ("deliver", {(DIALLED, "8080"), (":authority", ":8080")}),
        ("deliver", {(DIALLED, "8080"), (":authority", "[:]")}),
        ("deliver", {(DIALLED, "9090"), (":authority", ":9090")}),
        ("deliver", {(DIALLED, "9090"), (":authority", "[:]")}),
        ("pass-through", set()),
    ]
    assert [routes[number].route.cluster_specifier_plugin for number in (0, 2)] == ["mesh", "own"]


def test_a_short_name_means_the_callers_namespace_and_never_anothers() -> None:
    routes = answers(short_capture_routes([("blog", Shape(((80, HTTP),))), ("shop", SHAPE)]))
    assert ("deliver", {(CALLER, "blog"), (DIALLED, "80"), (":authority", ":80")}) in routes
    assert ("port-not-declared", {(CALLER, "shop")}) in routes
    assert all(any(key == CALLER for key, _ in found) for _, found in routes[:-1])
    assert routes[-3:] == [
        ("not-found", {(CALLER, "[.+]"), (DIALLED, "18081")}),
        ("pass-through", {(CALLER, "[.+]")}),
        ("caller-namespace-unknown", set()),
    ]


def test_a_short_name_on_the_proxy_port_is_not_found_for_a_namespace_without_it() -> None:
    routes = answers(short_proxy_routes([("shop", SHAPE)]))
    assert routes[-2:] == [("not-found", {(CALLER, "[.+]")}), ("caller-namespace-unknown", set())]
    assert all((CALLER, "shop") in found for _, found in routes[:-2])


def test_a_name_that_is_not_the_meshs_passes_through_and_is_404_on_the_proxy_port() -> None:
    assert [name for name, _ in answers(unknown_capture_routes(Domains()))] == [
        "port-not-declared",
        "not-found",
        "pass-through",
    ]
    refusal, not_found = unknown_proxy_routes(Domains())
    assert refusal.direct_response.status == 421
    assert not_found.direct_response.status == 404


def test_every_list_ends_in_a_route_that_matches_everything() -> None:
    for routes in (
        capture_routes(SHAPE),
        capture_routes(Shape((), own=())),
        proxy_routes(SHAPE),
        short_capture_routes([("shop", SHAPE)]),
        short_proxy_routes([("shop", SHAPE)]),
        unknown_capture_routes(Domains()),
        unknown_proxy_routes(Domains()),
    ):
        assert answers(routes)[-1][1] == set()


def test_a_pass_through_takes_words_of_the_mesh_away() -> None:
    assert list(list(unknown_capture_routes(Domains()))[-1].response_headers_to_remove) == [names.ERROR_HEADER]


def test_a_dial_of_a_pod_names_its_own_cluster_whatever_the_request_says() -> None:
    assert answers([pod_route()]) == [("dialled-pod", set())]
    assert pod_route().route.cluster_header == names.CLUSTER_HEADER


def test_services_with_the_same_ports_have_one_shape_wherever_their_pods_listen() -> None:
    assert shape_of(view("shop/a", "80 9000=tcp"), CONFIG) == shape_of(view("blog/b", "9000=tcp 80"), CONFIG)


def test_a_user_owned_service_is_delivered_on_its_pods_own_http_ports() -> None:
    shape = shape_of(view("shop/gate", "80:8080 8080:9090", owned="8080 9090 7000=tcp"), CONFIG)
    assert shape.own == ((8080, Specifier.OWN), (9090, Specifier.MESH))


def run(specifier: Specifier, authority: str, caller: str) -> Any:
    lua = LuaRuntime()
    lua.execute(specifier_source(specifier, Domains()))
    headers = {":authority": authority, names.CALLER_HEADER: caller}
    handle = lua.eval(
        "function(get) return {headers = function() return {get = function(_, key) return get(key) end} end} end"
    )
    return lua.globals().envoy_on_route(handle(headers.get))


@pytest.mark.parametrize(
    ("authority", "caller", "cluster"),
    [
        ("cart.shop", "blog/8080", "cart.shop.aether.internal:8080"),
        ("CART.Shop.svc.cluster.local:8080", "blog/8080", "cart.shop.aether.internal:8080"),
        ("cart", "blog/9090", "cart.blog.aether.internal:9090"),
        ("cart.shop:9090", "-/18081", "cart.shop.aether.internal:9090"),
        ("cart.shop", "-/18081", "cart.shop.aether.internal:80"),
        ("cart:81", "blog/18081", "cart.blog.aether.internal:81"),
    ],
)
def test_the_specifier_names_the_cluster_by_name_caller_and_port(authority: str, caller: str, cluster: str) -> None:
    assert run(Specifier.MESH, authority, caller) == cluster
    assert run(Specifier.OWN, authority, caller) == f"own|{cluster}"
