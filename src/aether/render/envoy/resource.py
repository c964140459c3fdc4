"""One Envoy resource as bytes with a content version."""

import hashlib

import msgspec
from google.protobuf.message import Message


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """`body` is the serialised message, `version` a hash of it: equal content, equal version, on any machine."""

    name: str
    type_url: str
    version: str
    body: bytes


def resource_of(name: str, type_url: str, body: bytes) -> Resource:
    return Resource(name=name, type_url=type_url, version=hashlib.blake2b(body, digest_size=8).hexdigest(), body=body)


def encode(message: Message) -> bytes:
    """Bytes that are the same for equal messages."""
    return message.SerializeToString(deterministic=True)
