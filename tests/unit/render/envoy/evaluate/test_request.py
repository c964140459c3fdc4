"""Requests as header maps, addresses as Envoy prints them, filter state."""

import ipaddress

import pytest

from aether.render.envoy.evaluate.request import (
    Connection,
    Request,
    Scene,
    Spoken,
    StateObject,
    format_address,
    header_value,
    header_values,
    headers_of,
    is_within,
)


def test_a_request_is_a_header_map_with_pseudo_headers() -> None:
    request = Request(authority="a.b", method="PUT", path="/x", headers=(("X-A", "1"), ("x-a", "2")))
    headers = headers_of(request)
    assert headers == {":method": ("PUT",), ":path": ("/x",), ":authority": ("a.b",), "x-a": ("1", "2")}


def test_connect_has_no_path_and_a_request_may_lack_a_host() -> None:
    assert ":path" not in headers_of(Request(authority="a:1", method="CONNECT"))
    assert ":authority" not in headers_of(Request(authority=""))


def test_host_is_another_name_of_authority() -> None:
    headers = headers_of(Request(authority="a"))
    assert header_values(headers, "host") == ("a",)


def test_a_repeated_header_is_one_text_joined_by_commas() -> None:
    assert header_value({"x": ("1", "2")}, "x") == "1,2"
    assert header_value({}, "x") is None


@pytest.mark.parametrize(("address", "text"), [("10.0.0.1", "10.0.0.1:80"), ("fd96::5", "[fd96::5]:80")])
def test_an_address_is_printed_with_its_port(address: str, text: str) -> None:
    assert format_address(address, 80) == text
    assert Connection(netns="", listener_port=1, address=address, port=80).destination == text


@pytest.mark.parametrize(
    ("address", "is_inside"), [("10.1.2.3", True), ("11.0.0.1", False), ("fd00::1", False), ("nonsense", False)]
)
def test_a_range_holds_addresses_of_its_family_only(address: str, is_inside: bool) -> None:
    assert is_within(address, [ipaddress.ip_network("10.0.0.0/8")]) is is_inside


@pytest.mark.parametrize(
    ("factory", "is_shared", "parts"),
    [
        ("envoy.hashable_string", True, True),
        ("envoy.hashable_string", False, False),
        ("envoy.string", True, False),
    ],
)
def test_only_shared_hashable_text_parts_pools(factory: str, is_shared: bool, parts: bool) -> None:
    found = StateObject(factory, "x", is_shared)
    assert found.is_text
    assert found.parts_pools is parts


def test_a_scene_changes_into_a_new_one() -> None:
    scene = Scene(connection=Connection(netns="", listener_port=1, address="::1", port=1))
    changed = scene.with_state([("k", StateObject("envoy.string", "v"))]).with_headers({"a": ("b",)}).with_reply("no")
    assert (scene.state, scene.headers, scene.reply_body) == ({}, {}, "")
    assert (changed.state["k"].text, changed.headers["a"], changed.reply_body) == ("v", ("b",), "no")


def test_http_is_told_from_the_rest() -> None:
    assert [one for one in Spoken if one.is_http] == [Spoken.HTTP10, Spoken.HTTP11, Spoken.H2C]
