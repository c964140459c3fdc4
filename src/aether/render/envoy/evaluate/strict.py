"""Read Envoy's messages without guessing.

Owns: the line between what the evaluator understands, what has no bearing on where a request goes, and everything else,
which is refused.

Rule: a reader declares the shape of each message it reads. A field outside the shape, known to the API or not, ends the
evaluation with its name.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, TypeAlias

import msgspec
from google.protobuf.unknown_fields import UnknownFieldSet

from aether.errors import AetherError

Proto: TypeAlias = Any
"""An Envoy message. Its generated classes carry no types."""


class Unsupported(AetherError):
    """The configuration uses something whose effect the evaluator does not know."""

    code: ClassVar[str] = "unsupported-construct"

    def __init__(self, construct: str) -> None:
        super().__init__(f"not evaluated: {construct}")
        self.construct = construct


class Shape(msgspec.Struct, frozen=True):
    """The fields of a message that a reader reads, and those that cannot change its answer."""

    read: frozenset[str]
    idle: frozenset[str]

    def check(self, message: Proto) -> None:
        """Raise Unsupported if the message says anything outside the shape."""
        for field, _ in message.ListFields():
            if field.name not in self.read and field.name not in self.idle:
                raise Unsupported(field.full_name)
        unknown = UnknownFieldSet(message)
        if len(unknown) > 0:
            raise Unsupported(f"{message.DESCRIPTOR.full_name}, field number {unknown[0].field_number}")


def shape(read: str, idle: str = "") -> Shape:
    """A shape from two lists of field names, separated by blanks."""
    return Shape(frozenset(read.split()), frozenset(idle.split()))


def unpack(packed: Proto, classes: Iterable[Any], *, where: str) -> Proto:
    """The message inside an Any, which must be one of `classes`."""
    full_name = packed.type_url.rpartition("/")[2]
    for one in classes:
        if one.DESCRIPTOR.full_name == full_name:
            return one.FromString(packed.value)
    raise Unsupported(f"{full_name or 'an empty Any'} in {where}")


def require(condition: bool, construct: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise Unsupported unless the condition holds."""
    if not condition:
        raise Unsupported(construct)
