"""What routes do: clusters by name, header, weight or program; answers; redirections."""

import pytest
from envoy.config.route.v3 import route_components_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.actions import (
    Direct,
    Redirect,
    RouteAction,
    Specifiers,
    ToSpecified,
    choose_clusters,
    read_action,
    read_specifiers,
)
from aether.render.envoy.evaluate.request import Connection, Headers, Request, Scene, headers_of
from aether.render.envoy.evaluate.strict import Unsupported

LUA = "type.googleapis.com/envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig"
SCENE = Scene(
    connection=Connection(netns="", listener_port=1, address="10.96.0.5", port=80),
    headers=headers_of(Request(authority="cart.shop:80", path="/p?q", headers=(("x-to", "there"),))),
)


def plugin(name: str) -> str:
    config = f"{{'@type': {LUA}, source_code: {{inline_string: program}}, default_cluster: fallback}}"
    return f"{{extension: {{name: {name}, typed_config: {config}}}}}"


def specifiers() -> Specifiers:
    return read_specifiers([message_of(route_components_pb2.ClusterSpecifierPlugin, plugin("mesh"))])


def action_of(text: str) -> RouteAction:
    return read_action(message_of(route_components_pb2.Route, f"{{match: {{prefix: /}}, {text}}}"), specifiers())


def clusters_of(text: str) -> tuple[tuple[tuple[int, str], ...], str]:
    action = action_of(text)
    assert not isinstance(action, Direct | Redirect)
    return choose_clusters(action, SCENE, {"mesh": program})


def program(source: str, headers: Headers) -> str:
    return "" if "x-none" in headers else f"{source}:{headers[':authority'][0]}"


@pytest.mark.parametrize(
    ("text", "clusters", "why"),
    [
        ("route: {cluster: c}", ((1, "c"),), "the route names it"),
        ("route: {cluster_header: X-To}", ((1, "there"),), "header x-to names it"),
        ("route: {cluster_header: x-none}", ((1, ""),), "header x-none names it"),
        (
            "route: {weighted_clusters: {clusters: [{name: a, weight: 1}, {name: b, weight: 3}]}}",
            ((1, "a"), (3, "b")),
            "the route names it, by weight",
        ),
        (
            "route: {cluster_specifier_plugin: mesh}",
            ((1, "program:cart.shop:80"),),
            "cluster specifier mesh names it",
        ),
        (
            f"route: {{inline_cluster_specifier_plugin: {plugin('mesh')}}}",
            ((1, "program:cart.shop:80"),),
            "cluster specifier mesh names it",
        ),
    ],
)
def test_a_route_names_its_clusters(text: str, clusters: tuple[tuple[int, str], ...], why: str) -> None:
    assert clusters_of(text) == (clusters, why)


def test_a_program_that_says_nothing_means_the_fallback() -> None:
    action = action_of("route: {cluster_specifier_plugin: mesh}")
    assert isinstance(action, ToSpecified)
    scene = SCENE.with_headers({**SCENE.headers, "x-none": ("",)})
    assert choose_clusters(action, scene, {"mesh": program})[0] == ((1, "fallback"),)


def test_a_program_whose_contract_is_not_known_is_refused() -> None:
    action = action_of("route: {cluster_specifier_plugin: mesh}")
    assert isinstance(action, ToSpecified)
    with pytest.raises(Unsupported, match="cluster specifier mesh"):
        choose_clusters(action, SCENE, {})


def test_an_answer_has_a_body_or_a_format() -> None:
    plain = action_of("direct_response: {status: 404, body: {inline_string: gone}}")
    printed = action_of("direct_response: {status: 421, body_format: {text_format: '%REQ(:authority)% no'}}")
    bare = action_of("direct_response: {status: 404}")
    assert isinstance(plain, Direct)
    assert isinstance(printed, Direct)
    assert isinstance(bare, Direct)
    assert [one.text(SCENE) for one in (plain, printed, bare)] == ["gone", "cart.shop:80 no", ""]


@pytest.mark.parametrize(
    ("redirect", "status", "location"),
    [
        ("{path_redirect: /x}", 301, "http://cart.shop:80/x"),
        ("{https_redirect: true, response_code: FOUND}", 302, "https://cart.shop:80/p?q"),
        ("{host_redirect: other, scheme_redirect: ws}", 301, "ws://other/p?q"),
        ("{port_redirect: 8080}", 301, "http://cart.shop:8080/p?q"),
    ],
)
def test_a_redirection_keeps_what_it_does_not_change(redirect: str, status: int, location: str) -> None:
    action = action_of(f"redirect: {redirect}")
    assert isinstance(action, Redirect)
    assert (action.status, action.location(SCENE)) == (status, location)


@pytest.mark.parametrize(
    "text",
    [
        "non_forwarding_action: {}",
        "route: {}",
        "route: {cluster: c, request_mirror_policies: [{cluster: d}]}",
        "route: {cluster_specifier_plugin: other}",
        "route: {weighted_clusters: {clusters: [{name: a, cluster_header: x}]}}",
        "redirect: {strip_query: true}",
        "direct_response: {status: 200, body: {filename: /etc/passwd}}",
    ],
)
def test_an_action_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        action_of(text)
