"""Resources as bytes, and messages put together."""

import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.route.v3 import route_components_pb2
from envoy.extensions.matching.common_inputs.network.v3 import network_inputs_pb2
from google.protobuf import any_pb2, wrappers_pb2
from hypothesis import given
from hypothesis import strategies as st

from aether.render.envoy.resource import ads, encode, exactly, inside, pack, resource_of, seconds, then, wrap


def test_the_version_is_the_contents() -> None:
    one, other = resource_of("a", "t", b"body"), resource_of("b", "t", b"body")
    assert one.version == other.version
    assert resource_of("a", "t", b"other").version != one.version


@given(body=st.binary(max_size=300), field=st.integers(1, 200))
def test_a_wrapped_field_is_what_protobuf_writes(body: bytes, field: int) -> None:
    inner = wrap(2, body)
    assert any_pb2.Any.FromString(inner).value == body
    tag = field << 3 | 2
    assert wrap(field, body).startswith(bytes([tag]) if tag < 0x80 else bytes([tag & 0x7F | 0x80, tag >> 7]))


def test_long_fields_are_wrapped_too() -> None:
    body = b"x" * 70_000
    assert any_pb2.Any.FromString(wrap(2, body)).value == body


@pytest.mark.parametrize(("value", "whole", "nanos"), [(0, 0, 0), (2.5, 2, 500_000_000), (0.1, 0, 100_000_000)])
def test_seconds_become_a_duration(value: float, whole: int, nanos: int) -> None:
    assert (seconds(value).seconds, seconds(value).nanos) == (whole, nanos)


def test_a_source_over_ads_says_how_long_it_waits() -> None:
    source = ads(fetch_timeout_s=0.5)
    assert source.HasField("ads")
    assert source.initial_fetch_timeout.nanos == 500_000_000


def test_a_packed_message_can_be_read_back_by_its_type() -> None:
    packed = pack(cluster_pb2.Cluster(name="a"))
    assert packed.type_url == "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    assert cluster_pb2.Cluster.FromString(packed.value).name == "a"


def test_equal_maps_are_encoded_alike_whatever_the_order_they_were_filled_in() -> None:
    keys = [f"key-{number}" for number in range(50)]
    value = pack(wrappers_pb2.StringValue(value="v"))
    there = route_components_pb2.VirtualHost(typed_per_filter_config=dict.fromkeys(keys, value))
    back = route_components_pb2.VirtualHost(typed_per_filter_config=dict.fromkeys(reversed(keys), value))
    assert encode(there) == encode(back)


def test_a_look_up_and_a_range_say_what_follows() -> None:
    found = then("chain", wrappers_pb2.StringValue(value="chain"))
    exact = exactly(network_inputs_pb2.ServerNameInput(), {"8080": found})
    assert exact.matcher_tree.exact_match_map.map["8080"].action.name == "chain"
    ranged = inside(network_inputs_pb2.DestinationIPInput(), ["10.0.0.0/8", "fd00::/16"], found)
    assert ranged.matcher_tree.custom_match.name == "ip"
