import contextlib

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from google.rpc import status_pb2
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.envoy.requests import BadRequest, parse_request
from aether.errors import RemoteError
from aether.wire.xds.message import DeltaRequest
from aether.wire.xds.order import CLUSTER


def test_every_field_is_read() -> None:
    message = discovery_pb2.DeltaDiscoveryRequest(
        type_url=CLUSTER,
        resource_names_subscribe=["*", "a"],
        resource_names_unsubscribe=["b"],
        initial_resource_versions={"a": "1"},
        response_nonce="7",
        error_detail=status_pb2.Status(code=13, message="no"),
    )
    message.node.id = "n1"
    assert parse_request(message.SerializeToString()) == DeltaRequest(
        type_url=CLUSTER,
        node="n1",
        subscribe=("*", "a"),
        unsubscribe=("b",),
        initial_versions={"a": "1"},
        nonce="7",
        error="no",
    )


def test_no_error_and_an_empty_error_are_two_things() -> None:
    ack = discovery_pb2.DeltaDiscoveryRequest(response_nonce="1")
    assert parse_request(ack.SerializeToString()).error is None
    ack.error_detail.code = 13
    assert parse_request(ack.SerializeToString()).error == ""


def test_bytes_that_are_no_request_are_the_peers_fault() -> None:
    with pytest.raises(BadRequest, match="3 bytes") as caught:
        parse_request(b"\xff\xff\xff")
    assert isinstance(caught.value, RemoteError)
    assert caught.value.code == "bad-xds-request"


@given(payload=st.binary(max_size=200))
def test_any_bytes_are_a_request_or_refused(payload: bytes) -> None:
    with contextlib.suppress(BadRequest):
        assert isinstance(parse_request(payload), DeltaRequest)
