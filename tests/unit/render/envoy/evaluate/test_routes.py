"""Virtual hosts and routes are chosen as Envoy chooses them."""

import pytest
from envoy.config.route.v3 import route_components_pb2, route_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.actions import Direct, Redirect, ToClusters
from aether.render.envoy.evaluate.manager import FilterKind, HttpFilter
from aether.render.envoy.evaluate.request import Connection, Request, Scene, StateObject, headers_of
from aether.render.envoy.evaluate.routes import Place, Route, Table, read_table
from aether.render.envoy.evaluate.strict import Unsupported

TYPE = "type.googleapis.com"
HOSTS = """
name: t
virtual_hosts:
- {name: exact, domains: [cart.shop, 'Cart.Blog', 'with:80', '[fd96::5]']}
- {name: short-suffix, domains: ['*.shop']}
- {name: long-suffix, domains: ['*.api.shop', '*-x.shop']}
- {name: prefix, domains: ['cart.*', 'ca*']}
- {name: all, domains: ['*']}
"""


def table_of(text: str) -> Table:
    return read_table(message_of(route_pb2.RouteConfiguration, text))


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("cart.shop", "exact"),
        ("CART.shop", "exact"),
        ("cart.blog", "exact"),
        ("pay.shop", "short-suffix"),
        ("a.api.shop", "long-suffix"),
        ("a-x.shop", "long-suffix"),
        (".shop", "all"),
        ("cart.other", "prefix"),
        ("cart", "prefix"),
        ("ca", "all"),
        ("shop", "all"),
        ("with:80", "exact"),
        ("cart.shop:80", "prefix"),
    ],
)
def test_a_virtual_host_is_found_by_exact_name_then_suffix_then_prefix(authority: str, host: str) -> None:
    found, _ = table_of(HOSTS).choose(authority)
    assert found is not None
    assert found.name == host


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("cart.shop:80", "exact"),
        ("cart.shop:", "exact"),
        ("cart.shop:x", "exact"),
        ("cart.shop:1:2", "prefix"),
        ("[fd96::5]", "exact"),
        ("[fd96::5]:80", "exact"),
        ("with:80", "all"),
    ],
)
def test_the_port_can_be_ignored(authority: str, host: str) -> None:
    found, _ = table_of(f"{HOSTS}\nignore_port_in_host_matching: true").choose(authority)
    assert found is not None
    assert found.name == host


def test_the_choice_of_a_virtual_host_is_told() -> None:
    table = table_of(HOSTS)
    assert table.choose("cart.shop")[1] == "cart.shop is one of its domains"
    assert table.choose("a.api.shop")[1] == "a.api.shop ends in its domain *.api.shop"
    assert table.choose("cart.x")[1] == "cart.x begins with its domain cart.*"
    assert table.choose("x")[1] == "no other virtual host has x"


def test_without_a_host_for_all_there_may_be_none() -> None:
    assert table_of("{name: t, virtual_hosts: [{name: a, domains: [a]}]}").choose("b")[0] is None


def test_a_domain_that_stands_twice_is_refused() -> None:
    with pytest.raises(Unsupported, match="twice"):
        table_of("{name: t, virtual_hosts: [{name: a, domains: [a]}, {name: b, domains: [A]}]}")


def scene_of(path: str = "/", method: str = "GET", **state: str) -> Scene:
    objects = {key: StateObject("envoy.string", text) for key, text in state.items()}
    connection = Connection(netns="", listener_port=1, address="10.96.0.5", port=80)
    request = Request(authority="a:8080", path=path, method=method)
    return Scene(connection=connection, state=objects, headers=headers_of(request))


def route_of(match: str) -> Route:
    route = f"{{match: {match}, route: {{cluster: c}}}}"
    host = table_of(f"{{name: t, virtual_hosts: [{{name: h, domains: ['*'], routes: [{route}]}}]}}").default
    assert host is not None
    return host.routes[0]


@pytest.mark.parametrize(
    ("match", "path", "takes"),
    [
        ("{prefix: /}", "/any", True),
        ("{prefix: /a}", "/ab", True),
        ("{prefix: /A}", "/a", False),
        ("{prefix: /A, case_sensitive: false}", "/a", True),
        ("{prefix: '/a?x'}", "/a?x=1", True),
        ("{path: /a}", "/a", True),
        ("{path: /a}", "/a?x", True),
        ("{path: /a}", "/ab", False),
        ("{path_separated_prefix: /a}", "/a/b", True),
        ("{path_separated_prefix: /a}", "/a?x", True),
        ("{path_separated_prefix: /a}", "/ab", False),
        ("{safe_regex: {regex: '/[a-z]+'}}", "/abc?x=1", True),
        ("{safe_regex: {regex: '/[a-z]+'}}", "/abc1", False),
    ],
)
def test_a_route_takes_a_path(match: str, path: str, takes: bool) -> None:
    assert route_of(match).takes(scene_of(path)) is takes


def test_a_request_without_a_path_is_no_routes() -> None:
    assert not route_of("{prefix: ''}").takes(scene_of(method="CONNECT"))


def test_all_conditions_of_a_route_must_hold() -> None:
    match = (
        "{prefix: /, headers: [{name: ':authority', string_match: {suffix: ':8080'}}],"
        " filter_state: [{key: port, string_match: {exact: '80'}}]}"
    )
    assert route_of(match).takes(scene_of(port="80"))
    assert not route_of(match).takes(scene_of(port="81"))
    assert route_of(match).because == "the path starts with '/' and port is '80' and :authority ends with ':8080'"


def test_the_first_route_that_takes_the_request_is_chosen() -> None:
    text = """
    name: t
    virtual_hosts:
    - name: h
      domains: ['*']
      routes:
      - {match: {path: /a}, route: {cluster: a}}
      - {name: rest, match: {prefix: /}, route: {cluster: b}}
    """
    host = table_of(text).default
    assert host is not None
    assert [route.name for route in (host.choose(scene_of("/a"))[0], host.choose(scene_of("/b"))[0]) if route] == [
        "#0",
        "rest",
    ]


def test_a_virtual_host_may_have_no_route_for_a_request() -> None:
    host = table_of("{name: t, virtual_hosts: [{name: h, domains: ['*']}]}").default
    assert host is not None
    assert host.choose(scene_of()) == (None, "none of 0 routes takes the request")


TREE = f"""
name: t
virtual_hosts:
- name: h
  domains: ['*']
  matcher:
    matcher_tree:
      input:
        name: s
        typed_config:
          '@type': {TYPE}/envoy.extensions.matching.common_inputs.network.v3.FilterStateInput
          key: to
      exact_match_map:
        map:
          one: {{action: {{name: r, typed_config: {{'@type': {TYPE}/envoy.config.route.v3.Route, name: one,
                match: {{path: /a}}, route: {{cluster: c}}}}}}}}
          list:
            action:
              name: r
              typed_config:
                '@type': {TYPE}/envoy.config.route.v3.RouteList
                routes:
                - {{name: first, match: {{path: /b}}, route: {{cluster: c}}}}
                - {{name: second, match: {{prefix: /}}, route: {{cluster: c}}}}
"""


@pytest.mark.parametrize(
    ("to", "path", "route"),
    [("one", "/a", "one"), ("one", "/b", None), ("list", "/b", "first"), ("list", "/x", "second"), ("no", "/a", None)],
)
def test_a_tree_leads_to_routes_that_must_take_the_request_as_well(to: str, path: str, route: str | None) -> None:
    host = table_of(TREE).default
    assert host is not None
    found, _ = host.choose(scene_of(path, to=to))
    assert (found.name if found else None) == route


def place_of(route: str, host: str = "", table: str = "") -> Place:
    text = (
        f"{{name: t, virtual_hosts: [{{name: h, domains: ['*'], {host}"
        f" routes: [{{match: {{prefix: /}}, {route}}}]}}], {table}}}"
    )
    found = table_of(text)
    assert found.default is not None
    return Place(route=found.default.routes[0], host=found.default, table=found)


def add(name: str, value: str) -> str:
    return f"[{{header: {{key: {name}, value: '{value}'}}}}]"


def test_requests_leave_with_what_every_level_changed() -> None:
    place = place_of(
        f"route: {{cluster: c}}, request_headers_to_add: {add('x', 'route')}",
        f"request_headers_to_add: {add('x', 'host %REQ(x)%')},",
        "request_headers_to_remove: [':method']",
    )
    assert isinstance(place.route.action, ToClusters)
    sent = place.sent_headers(place.route.action, scene_of())
    assert sent == ((":path", "/"), (":authority", "a:8080"), ("x", "route"), ("x", "host route"))


def test_the_host_can_be_rewritten() -> None:
    place = place_of("route: {cluster: c, host_rewrite_literal: other}")
    assert isinstance(place.route.action, ToClusters)
    assert (":authority", "other") in place.sent_headers(place.route.action, scene_of())


def test_answers_leave_with_the_headers_of_every_level() -> None:
    place = place_of(
        f"direct_response: {{status: 421, body: {{inline_string: nay}}}}, response_headers_to_add: {add('x-why', 'a')}",
        table=f"response_headers_to_add: {add('x-table', '%REQ(:authority)%')}",
    )
    assert isinstance(place.route.action, Direct)
    answer = place.answer(place.route.action, scene_of())
    assert (answer.status, answer.body) == (421, "nay")
    assert answer.headers == (("x-why", "a"), ("x-table", "a:8080"))
    assert (answer.header("x-why"), answer.header("x-none")) == ("a", None)


def test_a_redirect_names_where_to() -> None:
    place = place_of("redirect: {path_redirect: /y}")
    assert isinstance(place.route.action, Redirect)
    assert place.answer(place.route.action, scene_of("/x")).header("location") == "http://a:8080/y"


DEMAND = HttpFilter(name="demand", kind=FilterKind.ON_DEMAND, is_enabled=True, asks_for_clusters=True)
OFF = f"typed_per_filter_config: {{demand: {{'@type': {TYPE}/envoy.config.route.v3.FilterConfig, disabled: true}}}}"
MUTE = (
    "typed_per_filter_config: {demand:"
    f" {{'@type': {TYPE}/envoy.extensions.filters.http.on_demand.v3.PerRouteConfig}}}}"
)
ON = f"typed_per_filter_config: {{demand: {{'@type': {TYPE}/envoy.config.route.v3.FilterConfig}}}}"


@pytest.mark.parametrize(
    ("route", "host", "settings"),
    [
        ("", "", (True, True)),
        (f", {OFF}", "", (False, False)),
        ("", f"{OFF},", (False, False)),
        (f", {ON}", f"{OFF},", (True, True)),
        (f", {MUTE}", "", (True, False)),
    ],
)
def test_the_most_specific_level_says_whether_a_filter_runs(route: str, host: str, settings: tuple[bool, bool]) -> None:
    assert place_of(f"route: {{cluster: c}}{route}", host).settings_of(DEMAND) == settings


@pytest.mark.parametrize(
    "text",
    [
        "{name: t, vhost_header: x}",
        "{name: t, virtual_hosts: [{name: h, domains: [a], require_tls: ALL}]}",
        "{name: t, virtual_hosts: [{name: h, domains: [a], routes: [{match: {connect_matcher: {}}}]}]}",
        "{name: t, virtual_hosts: [{name: h, domains: [a], routes: [{match: {}}]}]}",
        "{name: t, virtual_hosts: [{name: h, domains: [a], routes: [{match: {prefix: /, grpc: {}}}]}]}",
    ],
)
def test_a_table_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        table_of(text)


def test_a_route_without_an_action_is_refused() -> None:
    route = message_of(route_components_pb2.Route, "{match: {prefix: /}}")
    table = route_pb2.RouteConfiguration()
    table.virtual_hosts.add(name="h", domains=["a"]).routes.append(route)
    with pytest.raises(Unsupported, match="route action None"):
        read_table(table)
