"""The bytes of a response are what protobuf would have written."""

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2
from hypothesis import given
from hypothesis import strategies as st

from aether.wire.xds.message import SendResponse, encode_response, frame_resource

NAMES = st.text(min_size=1, max_size=300)


@given(
    type_url=NAMES,
    nonce=NAMES,
    resources=st.lists(st.tuples(NAMES, NAMES, st.binary(max_size=20_000)), max_size=4),
    removed=st.lists(NAMES, max_size=4),
)
def test_a_response_reads_back_as_what_was_meant(
    type_url: str, nonce: str, resources: list[tuple[str, str, bytes]], removed: list[str]
) -> None:
    frames = tuple(frame_resource(name, type_url, version, body) for name, version, body in resources)
    response = SendResponse(type_url=type_url, nonce=nonce, resources=frames, removed=tuple(removed))
    message = discovery_pb2.DeltaDiscoveryResponse.FromString(encode_response(response))
    assert message == discovery_pb2.DeltaDiscoveryResponse(
        type_url=type_url,
        nonce=nonce,
        removed_resources=removed,
        resources=[
            discovery_pb2.Resource(name=name, version=version, resource=any_pb2.Any(type_url=type_url, value=body))
            for name, version, body in resources
        ],
    )


def test_a_frame_does_not_print_its_content() -> None:
    frame = frame_resource("in/shop/cart", "secret", "v1", b"PRIVATE KEY")
    assert "PRIVATE" not in repr(frame)
    assert "in/shop/cart" in repr(frame)
