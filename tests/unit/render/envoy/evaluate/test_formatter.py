"""Format strings print what Envoy prints, and change headers as Envoy does."""

from typing import Any

import pytest
from envoy.config.common.mutation_rules.v3 import mutation_rules_pb2
from envoy.config.core.v3 import base_pb2, substitution_format_string_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.formatter import (
    apply_edits,
    read_edits,
    read_format,
    read_format_source,
    read_mutations,
)
from aether.render.envoy.evaluate.request import Connection, Scene, StateObject
from aether.render.envoy.evaluate.strict import Unsupported

CONNECTION = Connection(netns="/n", listener_port=1, address="fd96::5", port=9000, source="10.244.0.1")
SCENE = Scene(
    connection=CONNECTION,
    server_name="db.shop",
    state={"ns": StateObject("envoy.string", "shop"), "ip": StateObject("envoy.network.ip", "10.0.0.1")},
    headers={":authority": ("Cart.Shop:80",), "x-a": ("one", "two"), "x-none": ("",)},
    reply_body=" serves nothing",
)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("plain", "plain"),
        ("100%%", "100%"),
        ("%DOWNSTREAM_LOCAL_ADDRESS%", "[fd96::5]:9000"),
        ("%DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT%", "fd96::5"),
        ("tcp|%DOWNSTREAM_LOCAL_PORT%!", "tcp|9000!"),
        ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", "10.244.0.1"),
        ("%REQUESTED_SERVER_NAME%", "db.shop"),
        ("%FILTER_STATE(ns:PLAIN)%/%FILTER_STATE(other:PLAIN)%", "shop/-"),
        ("%REQ(:authority):4%", "Cart"),
        ("%REQ(X-A)%", "one"),
        ("%REQ(x-b?x-a)%", "one"),
        ("%REQ(x-b)%", "-"),
        ("%REQ(host)%", "Cart.Shop:80"),
        (r"%CEL(re.extract(request.host, '^([^:]*)(:.*)?$', '\\1'))%%LOCAL_REPLY_BODY%", "Cart.Shop serves nothing"),
    ],
)
def test_a_format_string_prints(source: str, text: str) -> None:
    assert read_format(source).text(SCENE) == text


def test_what_is_missing_can_be_left_out() -> None:
    assert read_format("<%REQ(x-b)%>", omits_missing=True).text(SCENE) == "<>"


def test_a_length_cuts_bytes() -> None:
    scene = SCENE.with_headers({"x": ("äöü",)})
    assert read_format("%REQ(x):3%").text(scene) == "ä"


@pytest.mark.parametrize(
    "source",
    [
        "%UPSTREAM_HOST%",
        "%REQ%",
        "%DOWNSTREAM_LOCAL_PORT(x)%",
        "%FILTER_STATE(ns)%",
        "%FILTER_STATE(ip:PLAIN)%",
        "%CEL(request.path)%",
        r"%CEL(re.extract(request.host, '^(?=x)$', '\\1'))%",
        r"%CEL(re.extract(request.host, '^x$', '\\1'))%",
    ],
)
def test_what_is_not_understood_is_refused_when_it_is_to_be_printed(source: str) -> None:
    formatted = read_format(source)
    with pytest.raises(Unsupported):
        formatted.text(SCENE)


@pytest.mark.parametrize("source", ["50% of it", "%lower%", "%REQ(x%"])
def test_what_is_no_format_string_is_refused_at_once(source: str) -> None:
    with pytest.raises(Unsupported, match="format string"):
        read_format(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{text_format_source: {inline_string: '%REQ(x-b)%'}}", "-"),
        ("{text_format: '%REQ(x-b)%', omit_empty_values: true}", ""),
    ],
)
def test_a_format_message_is_inline_text(source: str, text: str) -> None:
    message = message_of(substitution_format_string_pb2.SubstitutionFormatString, source)
    assert read_format_source(message).text(SCENE) == text


@pytest.mark.parametrize("source", ["{json_format: {a: b}}", "{text_format_source: {filename: /x}}"])
def test_a_format_message_of_another_kind_is_refused(source: str) -> None:
    message = message_of(substitution_format_string_pb2.SubstitutionFormatString, source)
    with pytest.raises(Unsupported):
        read_format_source(message)


def option(name: str, value: str, how: str = "APPEND_IF_EXISTS_OR_ADD", *, keep: bool = False) -> Any:
    action = base_pb2.HeaderValueOption.HeaderAppendAction.Value(how)
    header = base_pb2.HeaderValue(key=name, value=value)
    return base_pb2.HeaderValueOption(header=header, append_action=action, keep_empty_value=keep)


@pytest.mark.parametrize(
    ("name", "how", "after"),
    [
        ("x-a", "APPEND_IF_EXISTS_OR_ADD", ("one", "two", "new")),
        ("x-a", "ADD_IF_ABSENT", ("one", "two")),
        ("x-a", "OVERWRITE_IF_EXISTS_OR_ADD", ("new",)),
        ("x-a", "OVERWRITE_IF_EXISTS", ("new",)),
        ("X-New", "APPEND_IF_EXISTS_OR_ADD", ("new",)),
        ("x-new", "ADD_IF_ABSENT", ("new",)),
        ("x-new", "OVERWRITE_IF_EXISTS_OR_ADD", ("new",)),
        ("x-new", "OVERWRITE_IF_EXISTS", None),
    ],
)
def test_each_append_action_does_what_it_says(name: str, how: str, after: tuple[str, ...] | None) -> None:
    headers = apply_edits(read_edits([option(name, "new", how)]), SCENE.headers, SCENE)
    assert headers.get(name.lower()) == after


def test_an_empty_text_is_not_added_unless_it_is_to_be_kept() -> None:
    edits = read_edits([option("x-one", "%REQ(x-b)%"), option("x-two", "%REQ(x-b)%", keep=True)])
    headers = apply_edits(edits, {}, SCENE)
    assert headers == {"x-two": ("",)}


def test_removals_come_before_additions() -> None:
    edits = read_edits([option("x-a", "new")], ["X-A"])
    assert apply_edits(edits, SCENE.headers, SCENE)["x-a"] == ("new",)


def test_mutations_happen_in_their_order() -> None:
    mutations = [
        mutation_rules_pb2.HeaderMutation(append=option("x-a", "new")),
        mutation_rules_pb2.HeaderMutation(remove="x-a"),
    ]
    assert "x-a" not in apply_edits(read_mutations(mutations), SCENE.headers, SCENE)
    assert apply_edits(read_mutations(mutations[::-1]), SCENE.headers, SCENE)["x-a"] == ("new",)


def test_a_header_without_a_name_is_refused() -> None:
    with pytest.raises(Unsupported, match="without a name"):
        read_edits([option("", "x")])
