"""Envoy's requests become our values, completely or not at all."""

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.envoy.requests import BadRequest, parse_request
from aether.wire.xds.message import DeltaRequest

URL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"


def test_every_part_of_a_request_is_read() -> None:
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=URL,
        resource_names_subscribe=["a", "b"],
        resource_names_unsubscribe=["c"],
        initial_resource_versions={"d": "1"},
        response_nonce="7",
    )
    message.node.id = "n1"
    message.error_detail.message = "no good"
    assert parse_request(message.SerializeToString()) == DeltaRequest(
        type_url=URL,
        node="n1",
        subscribe=("a", "b"),
        unsubscribe=("c",),
        initial_versions={"d": "1"},
        nonce="7",
        error="no good",
    )


def test_a_refusal_without_words_is_a_refusal_and_an_acknowledgement_is_none() -> None:
    message = discovery_pb2.DeltaDiscoveryRequest(type_url=URL, response_nonce="7")
    assert parse_request(message.SerializeToString()).error is None
    message.error_detail.code = 13
    assert parse_request(message.SerializeToString()).error == ""


@given(payload=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused_by_our_own_error(payload: bytes) -> None:
    try:
        discovery_pb2.DeltaDiscoveryRequest.FromString(payload)
    except DecodeError:
        with pytest.raises(BadRequest):
            parse_request(payload)
    else:
        assert isinstance(parse_request(payload), DeltaRequest)
