"""Matching trees: what is looked up, what happens when a branch decides nothing."""

from typing import Any

import pytest
import yaml
from google.protobuf import json_format, wrappers_pb2
from xds.type.matcher.v3 import matcher_pb2

from aether.render.envoy.evaluate.matcher import Tree, TreeReader
from aether.render.envoy.evaluate.request import Connection, Scene, StateObject
from aether.render.envoy.evaluate.strict import Proto, Unsupported, unpack

TYPE = "type.googleapis.com"
NETWORK = f"{TYPE}/envoy.extensions.matching.common_inputs.network.v3"
SCENE = Scene(
    connection=Connection(netns="/n", listener_port=1, address="10.96.0.5", port=8080, source="10.244.0.1"),
    server_name="db.shop",
    transport_protocol="tls",
    application_protocols=("h2", "http/1.1"),
    state={"key": StateObject("envoy.string", "value"), "ip": StateObject("envoy.network.ip", "::1")},
    headers={"x-a": ("1", "2")},
)


def read_name(packed: Proto) -> str:
    name: str = unpack(packed, [wrappers_pb2.StringValue], where="a test").value
    return name


def tree_of(text: str) -> Tree[str]:
    """`=name` is an action, `$input` an input of the network kind; the rest is Envoy's YAML."""
    expanded: Any = _expand(yaml.safe_load(text))
    message = json_format.ParseDict(expanded, matcher_pb2.Matcher())
    return TreeReader(read_name).read(message)


def _expand(node: object) -> object:
    if isinstance(node, dict):
        return {key: _expand(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_expand(value) for value in node]
    if isinstance(node, str) and node.startswith("="):
        action = {"@type": f"{TYPE}/google.protobuf.StringValue", "value": node[1:]}
        return {"action": {"name": "a", "typed_config": action}}
    if isinstance(node, str) and node.startswith("$"):
        name, _, argument = node[1:].partition(" ")
        config = {"@type": f"{NETWORK}.{name}"}
        if argument:
            config["key"] = argument
        return {"name": "i", "typed_config": config}
    return node


def decided(text: str, scene: Scene = SCENE) -> str | None:
    found = tree_of(text).decide(scene)
    return None if found is None else found.action


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("$DestinationIPInput", "10.96.0.5"),
        ("$DestinationPortInput", "8080"),
        ("$SourceIPInput", "10.244.0.1"),
        ("$DirectSourceIPInput", "10.244.0.1"),
        ("$ServerNameInput", "db.shop"),
        ("$TransportProtocolInput", "tls"),
        ("$ApplicationProtocolInput", "'h2','http/1.1'"),
        ("$NetworkNamespaceInput", "/n"),
        ("$FilterStateInput key", "value"),
    ],
)
def test_an_input_gives_its_text(source: str, text: str) -> None:
    quoted = text.replace("'", "''")
    assert decided(f"{{matcher_tree: {{input: {source}, exact_match_map: {{map: {{'{quoted}': =here}}}}}}}}") == "here"


def test_a_header_input_joins_the_values() -> None:
    config = f"{{'@type': {TYPE}/envoy.type.matcher.v3.HttpRequestHeaderMatchInput, header_name: X-A}}"
    source = f"{{name: h, typed_config: {config}}}"
    assert decided(f"{{matcher_tree: {{input: {source}, exact_match_map: {{map: {{'1,2': =here}}}}}}}}") == "here"


def test_an_input_that_has_nothing_leads_to_what_is_left() -> None:
    bare = Scene(connection=Connection(netns="", listener_port=1, address="10.96.0.5", port=1))
    for kind in ("exact_match_map", "prefix_match_map"):
        text = f"{{matcher_tree: {{input: $ServerNameInput, {kind}: {{map: {{a: =here}}}}}}, on_no_match: =left}}"
        assert decided(text, bare) == "left"


def test_an_exact_map_heeds_case_and_a_miss_leads_on() -> None:
    text = "{matcher_tree: {input: $ServerNameInput, exact_match_map: {map: {DB.shop: =here}}}, on_no_match: =left}"
    assert decided(text) == "left"
    assert decided(text.replace(", on_no_match: =left", "")) is None


def test_the_longest_prefix_wins_unless_it_decides_nothing() -> None:
    nothing = "{matcher: {matcher_tree: {input: $ServerNameInput, exact_match_map: {map: {x: =never}}}}}"
    text = f"{{matcher_tree: {{input: $ServerNameInput, prefix_match_map: {{map: {{d: =short, db: {nothing}}}}}}}}}"
    assert decided(text.replace(nothing, "=long")) == "long"
    assert decided(text) == "short"


RANGES = """
matcher_tree:
  input: $DestinationIPInput
  custom_match:
    name: ip
    typed_config:
      '@type': type.googleapis.com/xds.type.matcher.v3.IPMatcher
      range_matchers:
      - {ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}], on_match: =wide, exclusive: EXCLUSIVE}
      - {ranges: [{address_prefix: 10.96.0.0, prefix_len: 16}], on_match: NARROW}
on_no_match: =left
"""
NOTHING = "{matcher: {matcher_tree: {input: $ServerNameInput, exact_match_map: {map: {x: =never}}}}}"


@pytest.mark.parametrize(
    ("narrow", "exclusive", "address", "action"),
    [
        ("=narrow", "false", "10.96.0.5", "narrow"),
        ("=narrow", "false", "10.1.0.5", "wide"),
        ("=narrow", "false", "192.0.2.1", "left"),
        ("=narrow", "false", "fd00::1", "left"),
        (NOTHING, "false", "10.96.0.5", "wide"),
        (NOTHING, "true", "10.96.0.5", "left"),
    ],
)
def test_the_narrowest_range_wins(narrow: str, exclusive: str, address: str, action: str) -> None:
    scene = Scene(connection=Connection(netns="", listener_port=1, address=address, port=1))
    assert decided(RANGES.replace("NARROW", narrow).replace("EXCLUSIVE", exclusive), scene) == action


IS_SHOP = "{single_predicate: {input: $ServerNameInput, value_match: {suffix: .shop}}}"
IS_8080 = "{single_predicate: {input: $DestinationPortInput, value_match: {exact: '8080'}}}"
IS_NOBODY = "{single_predicate: {input: $FilterStateInput none, value_match: {prefix: ''}}}"


@pytest.mark.parametrize(
    ("predicate", "holds"),
    [
        (IS_SHOP, True),
        (IS_NOBODY, False),
        (f"{{not_matcher: {IS_NOBODY}}}", True),
        (f"{{and_matcher: {{predicate: [{IS_SHOP}, {IS_8080}]}}}}", True),
        (f"{{and_matcher: {{predicate: [{IS_SHOP}, {IS_NOBODY}]}}}}", False),
        (f"{{or_matcher: {{predicate: [{IS_NOBODY}, {IS_8080}]}}}}", True),
        (f"{{or_matcher: {{predicate: [{IS_NOBODY}, {IS_NOBODY}]}}}}", False),
    ],
)
def test_a_condition_holds(predicate: str, holds: bool) -> None:
    text = f"{{matcher_list: {{matchers: [{{predicate: {predicate}, on_match: =yes}}]}}, on_no_match: =no}}"
    assert decided(text) == ("yes" if holds else "no")


def test_a_branch_that_decides_nothing_is_as_if_it_had_not_matched() -> None:
    text = (
        f"{{matcher_list: {{matchers: [{{predicate: {IS_SHOP}, on_match: {NOTHING}}},"
        f" {{predicate: {IS_8080}, on_match: =second}}]}}}}"
    )
    assert decided(text) == "second"


def test_the_way_to_an_action_is_told() -> None:
    inner = "{matcher: {matcher_tree: {input: $ServerNameInput, exact_match_map: {map: {x: =no}}}, on_no_match: =yes}}"
    condition = f"{{and_matcher: {{predicate: [{IS_SHOP}, {{not_matcher: {IS_NOBODY}}}]}}}}"
    found = tree_of(f"{{matcher_list: {{matchers: [{{predicate: {condition}, on_match: {inner}}}]}}}}").decide(SCENE)
    assert found is not None
    assert (found.action, found.because) == ("yes", "server name ends with '.shop' and not (none starts with '')")


@pytest.mark.parametrize(
    "text",
    [
        "{matcher_tree: {input: $ServerNameInput}}",
        "{matcher_tree: {input: $SourceTypeInput, exact_match_map: {map: {x: =y}}}}",
        "{matcher_list: {matchers: [{predicate: {}, on_match: =y}]}}",
        "{matcher_list: {matchers: [{predicate: {single_predicate: {input: $ServerNameInput}}, on_match: =y}]}}",
        "{on_no_match: {action: {name: a}, keep_matching: true}}",
    ],
)
def test_a_tree_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        tree_of(text)


def test_an_address_object_is_no_input() -> None:
    tree = tree_of("{matcher_tree: {input: $FilterStateInput ip, exact_match_map: {map: {'::1': =y}}}}")
    with pytest.raises(Unsupported, match="filter state ip"):
        tree.decide(SCENE)


def test_a_tree_of_nothing_but_an_action_decides() -> None:
    assert decided("{on_no_match: =always}") == "always"
