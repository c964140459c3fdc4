"""The HTTP connection manager: what it makes of a request, which filters run, what leaves as a local reply."""

import pytest
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.manager import FilterKind, FilterOverride, Manager, read_manager, read_overrides
from aether.render.envoy.evaluate.request import Connection, Request, Scene, headers_of
from aether.render.envoy.evaluate.strict import Unsupported
from aether.render.envoy.evaluate.verdict import Answer

TYPE = "type.googleapis.com/envoy.extensions"
MUTATION = f"{TYPE}.http.early_header_mutation.header_mutation.v3.HeaderMutation"


def manager_of(text: str) -> Manager:
    kind = http_connection_manager_pb2.HttpConnectionManager
    return read_manager(message_of(kind, f"stat_prefix: s\n{text}"))


def scene_of(authority: str) -> Scene:
    connection = Connection(netns="", listener_port=1, address="10.96.0.5", port=80)
    return Scene(connection=connection, headers=headers_of(Request(authority=authority, headers=(("x-from", "me"),))))


def test_a_table_is_named_or_inline() -> None:
    named, inline = manager_of("rds: {route_config_name: t}"), manager_of("route_config: {name: u}")
    assert (named.table, named.inline_table) == ("t", None)
    assert inline.inline_table is not None
    assert inline.inline_table.name == "u"


@pytest.mark.parametrize(
    ("authority", "left"),
    [
        ("cart.shop.", "cart.shop"),
        ("cart.shop.:80", "cart.shop:80"),
        ("cart.shop..", "cart.shop."),
        ("cart.shop:80.", "cart.shop:80"),
        ("cart.shop", "cart.shop"),
        ("cart", "cart"),
        ("[fd96::5]", "[fd96::5]"),
    ],
)
def test_one_trailing_dot_is_stripped_if_asked(authority: str, left: str) -> None:
    stripping = manager_of("strip_trailing_host_dot: true").prepare(scene_of(authority))
    assert stripping.headers[":authority"] == (left,)
    assert manager_of("").prepare(scene_of(authority)).headers[":authority"] == (authority,)


def test_early_mutations_come_after_the_host_is_normal_and_overwrite_the_clients() -> None:
    append = (
        "{append: {header: {key: x-from, value: 'host %REQ(:authority)%'}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}}"
    )
    early = f"[{{name: m, typed_config: {{'@type': {MUTATION}, mutations: [{append}]}}}}]"
    manager = manager_of(f"strip_trailing_host_dot: true\nearly_header_mutation_extensions: {early}")
    assert manager.prepare(scene_of("a.b.")).headers["x-from"] == ("host a.b",)


def test_http_1_0_is_spoken_if_asked() -> None:
    old = manager_of("http_protocol_options: {accept_http_10: true, default_host_for_http_10: nobody}")
    assert (old.accepts_http10, old.default_host) == (True, "nobody")
    assert not manager_of("").accepts_http10


FILTERS = f"""
http_filters:
- {{name: health, disabled: true, typed_config: {{'@type': {TYPE}.filters.http.health_check.v3.HealthCheck,
    pass_through_mode: false, headers: [{{name: ':path', string_match: {{exact: /live}}}}]}}}}
- {{name: demand, typed_config: {{'@type': {TYPE}.filters.http.on_demand.v3.OnDemand,
    odcds: {{source: {{ads: {{}}}}}}}}}}
- {{name: router, typed_config: {{'@type': {TYPE}.filters.http.router.v3.Router}}}}
"""


def test_filters_are_read_in_order() -> None:
    filters = manager_of(FILTERS).filters
    assert [(one.name, one.kind, one.is_enabled) for one in filters] == [
        ("health", FilterKind.HEALTH_CHECK, False),
        ("demand", FilterKind.ON_DEMAND, True),
        ("router", FilterKind.ROUTER, True),
    ]
    assert filters[1].asks_for_clusters
    assert [str(test) for test in filters[0].answers] == [":path is '/live'"]


@pytest.mark.parametrize(
    ("config", "override"),
    [
        ("{'@type': T/envoy.config.route.v3.FilterConfig, disabled: true}", FilterOverride(is_enabled=False)),
        ("{'@type': E.filters.http.on_demand.v3.PerRouteConfig}", FilterOverride(asks_for_clusters=False)),
        (
            "{'@type': T/envoy.config.route.v3.FilterConfig, config: {'@type': E.filters.http.on_demand.v3."
            "PerRouteConfig, odcds: {timeout: 1s}}}",
            FilterOverride(is_enabled=True, asks_for_clusters=True),
        ),
    ],
)
def test_a_route_can_override_a_filter(config: str, override: FilterOverride) -> None:
    from envoy.config.route.v3 import route_components_pb2  # noqa: PLC0415

    text = config.replace("T/", "type.googleapis.com/").replace("E.", f"{TYPE}.")
    route = message_of(route_components_pb2.Route, f"typed_per_filter_config: {{demand: {text}}}")
    assert read_overrides(route.typed_per_filter_config) == {"demand": override}


MAPPERS = """
local_reply_config:
  mappers:
  - filter: {and_filter: {filters: [
      {response_flag_filter: {flags: [UF]}}, {extension_filter: {name: cel}}]}}
  - filter: {response_flag_filter: {flags: [UH, NC]}}
    headers_to_add: [{header: {key: x-why, value: none}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}]
    body: {inline_string: nobody there}
    status_code: 502
  - filter: {status_code_filter: {comparison: {op: EQ, value: {default_value: 421, runtime_key: k}}}}
    body_format_override: {text_format_source: {inline_string: '%REQ(:authority)%%LOCAL_REPLY_BODY%'}}
  - filter: {or_filter: {filters: [
      {status_code_filter: {comparison: {op: GE, value: {default_value: 500, runtime_key: k}}}},
      {header_filter: {header: {name: x-from, string_match: {exact: me}}}}]}}
    body: {inline_string: last}
"""


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        (
            Answer(status=503, flag="UH"),
            Answer(status=502, flag="UH", body="nobody there", headers=(("x-why", "none"),)),
        ),
        (Answer(status=421, body=" says no"), Answer(status=421, body="a.b says no")),
        (Answer(status=404, flag="NR"), Answer(status=404, flag="NR", body="last")),
    ],
)
def test_the_first_mapper_that_fits_edits_a_local_reply(answer: Answer, left: Answer) -> None:
    assert manager_of(MAPPERS).reply(answer, scene_of("a.b")) == left


def test_a_local_reply_that_no_mapper_fits_leaves_as_it_is() -> None:
    answer = Answer(status=404, flag="NR")
    assert manager_of(MAPPERS.replace("exact: me", "exact: you")).reply(answer, scene_of("a.b")) == answer


def test_an_extension_is_asked_only_when_it_must_be() -> None:
    with pytest.raises(Unsupported, match="extension_filter"):
        manager_of(MAPPERS).reply(Answer(status=503, flag="UF"), scene_of("a.b"))


@pytest.mark.parametrize(("operator", "fits"), [("EQ", False), ("GE", False), ("LE", True), ("NE", True)])
def test_statuses_are_compared(operator: str, fits: bool) -> None:
    comparison = f"{{op: {operator}, value: {{default_value: 500, runtime_key: k}}}}"
    mapper = f"{{filter: {{status_code_filter: {{comparison: {comparison}}}}}, body: {{inline_string: hit}}}}"
    manager = manager_of(f"local_reply_config: {{mappers: [{mapper}]}}")
    assert (manager.reply(Answer(status=404), scene_of("a")).body == "hit") is fits


@pytest.mark.parametrize(
    "text",
    [
        "normalize_path: true",
        "strip_any_host_port: true",
        "upgrade_configs: [{upgrade_type: CONNECT}]",
        "scoped_routes: {name: s}",
        "local_reply_config: {body_format: {text_format: x}}",
        "local_reply_config: {mappers: [{filter: {duration_filter: {}}}]}",
        f"http_filters: [{{name: l, typed_config: {{'@type': {TYPE}.filters.http.lua.v3.Lua}}}}]",
        FILTERS.replace("pass_through_mode: false", "pass_through_mode: true"),
    ],
)
def test_a_manager_that_is_not_understood_is_refused(text: str) -> None:
    from envoy.extensions.filters.http.lua.v3 import lua_pb2  # noqa: F401, PLC0415 - registers the message

    with pytest.raises(Unsupported):
        manager_of(text)
