"""The errors and diagnostics of the whole project: the one module everybody may import."""

from collections.abc import Iterable
from typing import ClassVar

import msgspec


class AetherError(Exception):
    """Root of every error raised on purpose. `code` is stable and shown to users; the message is for people."""

    code: ClassVar[str] = "error"


class RemoteError(AetherError):
    """A peer broke its protocol. The driver closes, counts and goes on."""

    code: ClassVar[str] = "remote-error"


class Diagnostic(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One thing wrong with somebody's input, placed as exactly as it is known.

    `where` is a file, a pod or a node; `subject` the object in it (``Pod shop/cart``); `field` the path inside the
    object (``metadata.annotations[endpoint.aether.io/ports]``); `item` the offending text. Any of them may be empty.
    """

    code: str
    message: str
    where: str = ""
    subject: str = ""
    field: str = ""
    item: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.subject, self.field) if part)
        return f"{place}: {self.message}" if place else self.message


class Rejected(AetherError):
    """Input refused, with every reason found."""

    code: ClassVar[str] = "rejected"

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n".join(str(diagnostic) for diagnostic in self.diagnostics))
