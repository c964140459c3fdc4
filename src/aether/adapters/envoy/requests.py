"""Envoy's requests on a delta stream, from protobuf to our values."""

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from aether.errors import RemoteError
from aether.wire.xds.message import DeltaRequest


class BadRequest(RemoteError):
    """Bytes that are no DeltaDiscoveryRequest."""

    code = "bad-xds-request"


def parse_request(payload: bytes) -> DeltaRequest:
    """Raises BadRequest for bytes that are not one."""
    try:
        message = discovery_pb2.DeltaDiscoveryRequest.FromString(payload)
    except DecodeError as error:
        raise BadRequest(f"{len(payload)} bytes are no DeltaDiscoveryRequest: {error}") from error
    return DeltaRequest(
        type_url=message.type_url,
        node=message.node.id,
        subscribe=tuple(message.resource_names_subscribe),
        unsubscribe=tuple(message.resource_names_unsubscribe),
        initial_versions=dict(message.initial_resource_versions),
        nonce=message.response_nonce,
        error=message.error_detail.message if message.HasField("error_detail") else None,
    )
