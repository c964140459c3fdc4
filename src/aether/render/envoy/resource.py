"""One Envoy resource as bytes with a content version, and the few ways messages are put together.

Rule: equal messages give equal bytes. Everything that becomes bytes goes through `encode` or `pack`.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec
from envoy.config.core.v3 import config_source_pb2, extension_pb2
from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from xds.core.v3 import cidr_pb2
from xds.core.v3 import extension_pb2 as xds_extension_pb2
from xds.type.matcher.v3 import ip_pb2, matcher_pb2

CLUSTER_FETCH_S = 1.0
"""How long a cluster warms without its endpoints or trust. While one warms, no on-demand name is answered: be short."""


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is the serialised message, `version` a hash of it: equal content, equal version, on any machine."""

    name: str
    type_url: str
    version: str
    body: bytes


def resource_of(name: str, type_url: str, body: bytes) -> Resource:
    return Resource(name=name, type_url=type_url, version=hashlib.sha256(body).hexdigest()[:16], body=body)


def encode(message: Message) -> bytes:
    """Bytes that are the same for equal messages."""
    return message.SerializeToString(deterministic=True)


def pack(message: Message) -> any_pb2.Any:
    return any_pb2.Any(type_url=f"type.googleapis.com/{message.DESCRIPTOR.full_name}", value=encode(message))


def wrap(field: int, body: bytes) -> bytes:
    """`body` as length-delimited field number `field` of a message (Protocol Buffers encoding: tag, length, bytes)."""
    return _varint(field << 3 | 2) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    spelled = bytearray()
    while value > 0x7F:
        spelled.append(value & 0x7F | 0x80)
        value >>= 7
    spelled.append(value)
    return bytes(spelled)


def extension(name: str, message: Message) -> extension_pb2.TypedExtensionConfig:
    return extension_pb2.TypedExtensionConfig(name=name, typed_config=pack(message))


def seconds(value: float) -> duration_pb2.Duration:
    whole = int(value)
    return duration_pb2.Duration(seconds=whole, nanos=round((value - whole) * 1_000_000_000))


def ads(*, fetch_timeout_s: float) -> config_source_pb2.ConfigSource:
    """Resources come over ADS. Zero waits for ever for the first answer (rulings D.5)."""
    return config_source_pb2.ConfigSource(
        ads=config_source_pb2.AggregatedConfigSource(),
        resource_api_version=config_source_pb2.V3,
        initial_fetch_timeout=seconds(fetch_timeout_s),
    )


def exactly(of: Message, choices: Mapping[str, matcher_pb2.Matcher.OnMatch]) -> matcher_pb2.Matcher:
    """A matcher that looks the value of an input up."""
    lookup = matcher_pb2.Matcher.MatcherTree.MatchMap(map=choices)
    return matcher_pb2.Matcher(
        matcher_tree=matcher_pb2.Matcher.MatcherTree(input=as_input("input", of), exact_match_map=lookup)
    )


def inside(of: Message, ranges: Iterable[str], then: matcher_pb2.Matcher.OnMatch) -> matcher_pb2.Matcher:
    """A matcher that asks whether an address is in one of some CIDR ranges."""
    spelled = [_cidr(text) for text in ranges]
    lookup = ip_pb2.IPMatcher(range_matchers=[ip_pb2.IPMatcher.IPRangeMatcher(ranges=spelled, on_match=then)])
    return matcher_pb2.Matcher(
        matcher_tree=matcher_pb2.Matcher.MatcherTree(input=as_input("input", of), custom_match=as_input("ip", lookup))
    )


def then(name: str, action: Message) -> matcher_pb2.Matcher.OnMatch:
    return matcher_pb2.Matcher.OnMatch(action=as_input(name, action))


def as_input(name: str, message: Message) -> xds_extension_pb2.TypedExtensionConfig:
    """A typed extension in the words of the matcher API, which has its own message for it."""
    return xds_extension_pb2.TypedExtensionConfig(name=name, typed_config=pack(message))


def _cidr(text: str) -> cidr_pb2.CidrRange:
    address, _, length = text.partition("/")
    return cidr_pb2.CidrRange(address_prefix=address, prefix_len={"value": int(length)})
