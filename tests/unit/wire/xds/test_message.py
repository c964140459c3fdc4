from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st
from tests.support.delta_talk import frame

from aether.wire.xds.message import SendResponse, encode_response, frame_resource
from aether.wire.xds.order import CLUSTER

_TEXT = st.text(max_size=300)
_BODIES = st.binary(max_size=40_000)


@given(name=_TEXT, version=_TEXT, body=_BODIES, nonce=_TEXT, removed=st.lists(_TEXT, max_size=3))
def test_a_response_is_what_protobuf_reads(
    name: str, version: str, body: bytes, nonce: str, removed: list[str]
) -> None:
    frame = frame_resource(name, CLUSTER, version, body)
    response = SendResponse(type_url=CLUSTER, nonce=nonce, resources=(frame, frame), removed=tuple(removed))
    read = discovery_pb2.DeltaDiscoveryResponse.FromString(encode_response(response))
    assert (read.type_url, read.nonce, list(read.removed_resources)) == (CLUSTER, nonce, removed)
    assert len(read.resources) == 2
    for resource in read.resources:
        assert (resource.name, resource.version) == (name, version)
        assert (resource.resource.type_url, resource.resource.value) == (CLUSTER, body)


def test_an_empty_response_has_its_type_and_nonce() -> None:
    read = discovery_pb2.DeltaDiscoveryResponse.FromString(encode_response(SendResponse(type_url=CLUSTER, nonce="1")))
    assert (read.type_url, read.nonce, len(read.resources)) == (CLUSTER, "1", 0)


def test_a_frame_does_not_print_its_content() -> None:
    assert repr(frame("s=1")) == "Frame('s', '1', 3 bytes)"
