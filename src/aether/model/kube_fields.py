"""Reading a JSON object field by field, with every problem placed at its exact path.

Rule: a reader never stops at the first problem and never guesses. A field that nobody asked for is reported as
unsupported, which is a warning: the object can be used, and the field does nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from aether.errors import Diagnostic
from aether.model.names import is_label
from aether.model.ports import PORT_LIMIT

UNSUPPORTED_FIELD = "unsupported-field"

WARNING_CODES = frozenset({UNSUPPORTED_FIELD})
"""Diagnostics of these codes do not keep an object from being applied."""

_SUBDOMAIN_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

SUBDOMAIN_BYTES = 253


def is_subdomain(text: str) -> bool:
    """RFC 1123 labels joined by dots, at most 253 bytes together."""
    return len(text) <= SUBDOMAIN_BYTES and _SUBDOMAIN_1123.fullmatch(text) is not None


class Fields:
    """One JSON object. Absent and null are the same. `problems` is shared by all objects of one document."""

    def __init__(self, value: object, path: str, problems: list[Diagnostic]) -> None:
        self.path = path
        self.problems = problems
        self._asked: set[str] = set()
        self._value: Mapping[str, object] = {}
        if isinstance(value, Mapping):
            self._value = {name: content for name, content in value.items() if content is not None}
        elif value is not None:
            self.refuse("", "must be an object", item=value)

    def refuse(self, name: str, message: str, *, code: str = "bad-field", item: object = "") -> None:
        text = item if isinstance(item, str) else repr(item)
        self.problems.append(Diagnostic(code=code, message=message, field=self._path_of(name), item=text[:300]))

    def has(self, name: str) -> bool:
        self._asked.add(name)
        return name in self._value

    def raw(self, name: str) -> object:
        self._asked.add(name)
        return self._value.get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, str):
            return value
        hint = "" if isinstance(value, list | Mapping) else "; write it in quotes"
        self.refuse(name, f"must be text{hint}", item=value)
        return default

    def named(self, name: str, is_valid: Callable[[str], bool], what: str) -> str:
        """A text that must be there and be valid; `what` describes the valid ones."""
        if not self.has(name):
            self.refuse(name, "is missing", code="missing-field")
            return ""
        text = self.text(name)
        if text and not is_valid(text):
            self.refuse(name, f"{_cut(text)!r} must be {what}", code="bad-name", item=text)
        elif not text and self.raw(name) == "":
            self.refuse(name, "is empty", code="missing-field")
        return text

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        text = self.text(name, default)
        if text in choices:
            return text
        self.refuse(name, f"{_cut(text)!r} must be one of {', '.join(choices)}", item=text)
        return default

    def number(self, name: str, *, default: int = 0, low: int = 0, high: int = 2**31 - 1) -> int:
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "must be a whole number", item=value)
            return default
        if not low <= value <= high:
            self.refuse(name, f"{value} must be from {low} to {high}", item=value)
            return default
        return value

    def port(self, name: str) -> int | str:
        """A port's number or name; 0 if it is bad."""
        value = self.raw(name)
        if isinstance(value, str) and not value.isdigit():
            if is_label(value) and len(value) <= 15:
                return value
            self.refuse(name, f"{_cut(value)!r} is no port name", code="bad-port", item=value)
            return 0
        return self.port_number(name)

    def port_number(self, name: str) -> int:
        value = self.raw(name)
        if value is None:
            self.refuse(name, "is missing", code="missing-field")
            return 0
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, "must be a port number (not in quotes)", code="bad-port", item=value)
            return 0
        if not 1 <= value <= PORT_LIMIT:
            self.refuse(name, f"port {value} must be from 1 to {PORT_LIMIT}", code="bad-port", item=value)
            return 0
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.refuse(name, "must be true or false", item=value)
        return default

    def texts(self, name: str) -> tuple[str, ...]:
        values = self._list(name)
        for position, value in enumerate(values):
            if not isinstance(value, str):
                self.refuse(f"{name}[{position}]", "must be text; write it in quotes", item=value)
        return tuple(value for value in values if isinstance(value, str))

    def text_map(self, name: str) -> tuple[tuple[str, str], ...]:
        """Pairs, sorted."""
        child = self.child(name)
        return tuple(sorted((key, child.text(key)) for key in child.names()))

    def names(self) -> tuple[str, ...]:
        return tuple(str(name) for name in self._value)

    def child(self, name: str) -> "Fields":
        """The object at `name`, an empty one if there is none."""
        return Fields(self.raw(name), self._path_of(name), self.problems)

    def children(self, name: str) -> tuple["Fields", ...]:
        path = self._path_of(name)
        return tuple(
            Fields(value, f"{path}[{position}]", self.problems) for position, value in enumerate(self._list(name))
        )

    def ignore(self, *names: str) -> None:
        """Fields that may be there and mean nothing here."""
        self._asked |= set(names)

    def close(self) -> None:
        """Report the fields that nobody asked for."""
        for name in sorted(set(self.names()) - self._asked):
            self.refuse(name, f"field {_cut(name)!r} is not supported here and is ignored", code=UNSUPPORTED_FIELD)

    def _list(self, name: str) -> Sequence[object]:
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, list | tuple):
            return value
        self.refuse(name, "must be a list", item=value)
        return ()

    def _path_of(self, name: str) -> str:
        return ".".join(part for part in (self.path, name) if part)


def refuse_repeats(all_fields: Iterable[tuple[Fields, object]], name: str, what: str) -> None:
    """Refuse every object whose value (the second of each pair) an earlier one has."""
    seen: set[object] = set()
    for fields, value in all_fields:
        if value in seen:
            fields.refuse(name, f"{what} {value} is there twice", code="duplicate", item=str(value))
        seen.add(value)


def _cut(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
