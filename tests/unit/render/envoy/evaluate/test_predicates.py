"""String, header and filter state matchers hold as Envoy's do."""

import pytest
from envoy.config.core.v3 import address_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.type.matcher.v3 import filter_state_pb2, string_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.predicates import read_header, read_ranges, read_state, read_string
from aether.render.envoy.evaluate.request import Connection, Headers, Scene, StateObject
from aether.render.envoy.evaluate.strict import Unsupported

SCENE = Scene(
    connection=Connection(netns="", listener_port=1, address="10.0.0.1", port=80),
    state={
        "port": StateObject("envoy.string", "8080"),
        "ip": StateObject("envoy.network.ip", "10.96.0.5"),
    },
)


@pytest.mark.parametrize(
    ("matcher", "text", "holds"),
    [
        ("{exact: ab}", "ab", True),
        ("{exact: ab}", "AB", False),
        ("{exact: ab, ignore_case: true}", "AB", True),
        ("{prefix: a}", "ab", True),
        ("{suffix: ':8080'}", "cart:8080", True),
        ("{suffix: ':8080'}", "cart:18080", False),
        ("{contains: ':'}", "a:1", True),
        ("{safe_regex: {regex: '[0-9]+'}}", "12", True),
        ("{safe_regex: {regex: '[0-9]+'}}", "12a", False),
        ("{safe_regex: {regex: '(?i)a\\.b'}}", "A.B", True),
        ("{safe_regex: {regex: 'A'}, ignore_case: true}", "a", False),
    ],
)
def test_a_string_matcher_holds(matcher: str, text: str, holds: bool) -> None:
    assert read_string(message_of(string_pb2.StringMatcher, matcher)).holds(text) is holds


@pytest.mark.parametrize(
    "matcher",
    [
        "{safe_regex: {regex: '(?=a)'}}",
        r"{safe_regex: {regex: '(a)\1'}}",
        "{safe_regex: {regex: 'a++'}}",
        "{custom: {name: x}}",
        "{}",
    ],
)
def test_a_string_matcher_that_is_not_understood_is_refused(matcher: str) -> None:
    with pytest.raises(Unsupported):
        read_string(message_of(string_pb2.StringMatcher, matcher))


HEADERS: Headers = {":authority": ("cart:8080",), "x-a": ("one", "2"), "x-empty": ("",)}


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        ("{name: x-a}", True),
        ("{name: x-b}", False),
        ("{name: x-b, invert_match: true}", True),
        ("{name: x-a, present_match: true}", True),
        ("{name: x-a, present_match: false}", False),
        ("{name: x-b, present_match: false}", True),
        ("{name: x-b, present_match: false, treat_missing_header_as_empty: true}", False),
        ("{name: x-b, treat_missing_header_as_empty: true}", True),
        ("{name: X-A, string_match: {exact: '2'}}", True),
        ("{name: x-a, string_match: {exact: 'one,2'}}", False),
        ("{name: x-a, string_match: {exact: one}, invert_match: true}", False),
        ("{name: x-b, string_match: {exact: one}, invert_match: true}", False),
        ("{name: x-b, string_match: {exact: ''}, treat_missing_header_as_empty: true}", True),
        ("{name: x-a, range_match: {start: 2, end: 3}}", True),
        ("{name: x-a, range_match: {start: 0, end: 2}}", False),
        ("{name: x-a, safe_regex_match: {regex: 'o.e'}}", True),
        ("{name: x-a, exact_match: one}", True),
        ("{name: x-a, exact_match: ''}", True),
        ("{name: x-a, prefix_match: 'on'}", True),
        ("{name: x-a, suffix_match: ne}", True),
        ("{name: x-a, contains_match: n}", True),
        ("{name: host, string_match: {suffix: ':8080'}}", True),
        ("{name: ':authority', string_match: {contains: ':'}, invert_match: true}", False),
    ],
)
def test_a_header_matcher_holds(matcher: str, holds: bool) -> None:
    test = read_header(message_of(route_components_pb2.HeaderMatcher, matcher))
    assert test.holds(SCENE.with_headers(HEADERS)) is holds


@pytest.mark.parametrize(
    ("matcher", "text"),
    [
        ("{name: x-a, string_match: {prefix: b}, invert_match: true}", "x-a not: starts with 'b'"),
        ("{name: x-a, present_match: false}", "x-a is absent"),
        ("{name: x-a, range_match: {start: 1, end: 3}}", "x-a is in 1..2"),
        ("{name: x-a, exact_match: ''}", "x-a is anything"),
    ],
)
def test_a_header_matcher_says_what_it_asks(matcher: str, text: str) -> None:
    assert str(read_header(message_of(route_components_pb2.HeaderMatcher, matcher))) == text


@pytest.mark.parametrize(
    ("matcher", "holds"),
    [
        ("{key: port, string_match: {exact: '8080'}}", True),
        ("{key: port, string_match: {exact: '80'}}", False),
        ("{key: none, string_match: {prefix: ''}}", False),
        ("{key: ip, address_match: {ranges: [{address_prefix: 10.96.0.0, prefix_len: 16}]}}", True),
        ("{key: ip, address_match: {ranges: [{address_prefix: 10.97.0.0, prefix_len: 16}]}}", False),
        ("{key: port, address_match: {ranges: [{address_prefix: 0.0.0.0, prefix_len: 0}]}}", False),
        ("{key: none, address_match: {ranges: [{address_prefix: 0.0.0.0, prefix_len: 0}]}}", False),
    ],
)
def test_a_filter_state_matcher_holds(matcher: str, holds: bool) -> None:
    assert read_state(message_of(filter_state_pb2.FilterStateMatcher, matcher)).holds(SCENE) is holds


def test_a_filter_state_matcher_says_what_it_asks() -> None:
    text = read_state(message_of(filter_state_pb2.FilterStateMatcher, "{key: port, string_match: {exact: '1'}}"))
    ranges = "{key: ip, address_match: {ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}}"
    assert str(text) == "port is '1'"
    assert str(read_state(message_of(filter_state_pb2.FilterStateMatcher, ranges))) == "ip is within 10.0.0.0/8"


def test_the_text_of_an_address_object_is_not_guessed() -> None:
    test = read_state(message_of(filter_state_pb2.FilterStateMatcher, "{key: ip, string_match: {prefix: '10'}}"))
    with pytest.raises(Unsupported, match=r"envoy\.network\.ip"):
        test.holds(SCENE)


def test_a_filter_state_matcher_without_a_question_is_refused() -> None:
    with pytest.raises(Unsupported, match="filter state matcher"):
        read_state(message_of(filter_state_pb2.FilterStateMatcher, "{key: ip}"))


def test_bits_beyond_the_prefix_do_not_count() -> None:
    ranges = read_ranges([message_of(address_pb2.CidrRange, "{address_prefix: 10.1.2.3, prefix_len: 8}")])
    assert [str(one) for one in ranges] == ["10.0.0.0/8"]
