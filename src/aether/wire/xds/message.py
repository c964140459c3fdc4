"""The values a delta stream exchanges, and the bytes of a response.

Source: envoy/service/discovery/v3/discovery.proto, DeltaDiscoveryRequest and DeltaDiscoveryResponse. A response is a
concatenation of fields, so each resource is encoded once, as the finished field it will be in every response.
"""

from collections.abc import Mapping

import msgspec

WILDCARD = "*"
"""In a subscription: everything of the type (xDS protocol, "wildcard subscriptions")."""

_RESPONSE_RESOURCES = b"\x12"  # DeltaDiscoveryResponse.resources = 2, length-delimited
_RESPONSE_TYPE_URL = b"\x22"  # .type_url = 4
_RESPONSE_NONCE = b"\x2a"  # .nonce = 5
_RESPONSE_REMOVED = b"\x32"  # .removed_resources = 6
_RESOURCE_VERSION = b"\x0a"  # Resource.version = 1
_RESOURCE_BODY = b"\x12"  # .resource = 2
_RESOURCE_NAME = b"\x1a"  # .name = 3
_ANY_TYPE_URL = b"\x0a"  # google.protobuf.Any.type_url = 1
_ANY_VALUE = b"\x12"  # .value = 2


class DeltaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What Envoy said.

    `nonce` names the response it answers, "" if none; `error` is why it refused it, None if it did not.
    `node` is only in the first request of a stream, `initial_versions` only in the first of each type.
    """

    type_url: str
    node: str = ""
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial_versions: Mapping[str, str] = {}
    nonce: str = ""
    error: str | None = None


class Frame(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One resource as it stands in a response. Equal versions mean equal content."""

    name: str
    version: str
    data: bytes

    def __repr__(self) -> str:
        return f"Frame({self.name!r}, {self.version!r}, {len(self.data)} bytes)"  # the data of a secret holds its key


class SendResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What to say to Envoy. All resources are of one type."""

    type_url: str
    nonce: str
    resources: tuple[Frame, ...] = ()
    removed: tuple[str, ...] = ()


class NamesKnown(msgspec.Struct, frozen=True, tag=True):
    """A new stream lists the clusters that this Envoy ever asked for on demand."""

    names: frozenset[str]


class OnDemandAsked(msgspec.Struct, frozen=True, tag=True):
    """Envoy waits for a cluster, or holds it since it asked for it, and nothing is wanted under that name."""

    name: str


class SecretAsked(msgspec.Struct, frozen=True, tag=True):
    """Envoy waits for a secret that is not wanted."""

    name: str


class Rejected(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Envoy refuses a wanted resource. It is not sent again until its content changes."""

    type_url: str
    name: str
    version: str
    text: str


class Stalled(msgspec.Struct, frozen=True, tag=True):
    """Envoy does not acknowledge these clusters; until it does, it asks for none on demand. They are being healed."""

    names: tuple[str, ...]


Event = NamesKnown | OnDemandAsked | SecretAsked | Rejected | Stalled


def frame_resource(name: str, type_url: str, version: str, body: bytes) -> Frame:
    """Encode a resource. `body` is the serialised message of `type_url`."""
    payload = _field(_ANY_TYPE_URL, type_url.encode()) + _field(_ANY_VALUE, body)
    resource = (
        _field(_RESOURCE_VERSION, version.encode())
        + _field(_RESOURCE_BODY, payload)
        + _field(_RESOURCE_NAME, name.encode())
    )
    return Frame(name=name, version=version, data=_field(_RESPONSE_RESOURCES, resource))


def encode_response(response: SendResponse) -> bytes:
    """A DeltaDiscoveryResponse."""
    return b"".join(
        (
            _field(_RESPONSE_TYPE_URL, response.type_url.encode()),
            _field(_RESPONSE_NONCE, response.nonce.encode()),
            *(frame.data for frame in response.resources),
            *(_field(_RESPONSE_REMOVED, name.encode()) for name in response.removed),
        )
    )


def _field(tag: bytes, value: bytes) -> bytes:
    return b"".join((tag, _varint(len(value)), value))


def _varint(number: int) -> bytes:
    """Base 128, least significant group first (Protocol Buffers, "Encoding")."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(0x80 | (number & 0x7F))
        number >>= 7
    groups.append(number)
    return bytes(groups)
