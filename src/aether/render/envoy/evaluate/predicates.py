"""Yes-or-no questions about a connection or a request: string, header and filter state matchers.

Owns: their meaning in Envoy (type/matcher/v3, config/route/v3). Each prints itself as a short English condition.
"""

import enum
import ipaddress
import re
from collections.abc import Iterable, Mapping

import msgspec

from aether.render.envoy.evaluate.request import Headers, Network, Scene, header_values, is_within
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape

_STRING = shape("exact prefix suffix safe_regex contains ignore_case")
_REGEX = shape("regex", "google_re2")
_HEADER = shape(
    "name exact_match safe_regex_match range_match present_match prefix_match suffix_match contains_match string_match "
    "invert_match treat_missing_header_as_empty"
)
_STATE = shape("key string_match address_match")
_ADDRESS = shape("ranges")
_CIDR = shape("address_prefix prefix_len")
_NOT_RE2 = re.compile(r"\(\?(?!:|i\)|i:|P<)|\\[1-9]|\\[ZpPQCG]|[*+?}]\+|\(\?P=")


class Comparison(enum.StrEnum):
    IS = "is"
    STARTS = "starts with"
    ENDS = "ends with"
    CONTAINS = "contains"
    MATCHES = "matches"
    ANYTHING = "is anything"


class StringTest(msgspec.Struct, frozen=True):
    """A test of one text."""

    comparison: Comparison
    wanted: str
    ignores_case: bool = False

    def holds(self, text: str) -> bool:
        wanted = self.wanted
        if self.ignores_case and self.comparison is not Comparison.MATCHES:
            text, wanted = text.lower(), wanted.lower()
        match self.comparison:
            case Comparison.IS:
                return text == wanted
            case Comparison.STARTS:
                return text.startswith(wanted)
            case Comparison.ENDS:
                return text.endswith(wanted)
            case Comparison.CONTAINS:
                return wanted in text
            case Comparison.MATCHES:
                return re.fullmatch(wanted, text, re.ASCII) is not None
            case Comparison.ANYTHING:
                return True

    def __str__(self) -> str:
        return self.comparison if self.comparison is Comparison.ANYTHING else f"{self.comparison} {self.wanted!r}"


class HeaderTest(msgspec.Struct, frozen=True, kw_only=True):
    """A test of a request header, of any one value if it is repeated.

    `wanted` None asks only whether the header is there (or, if not `presence`, is not).

    A header that is absent fails every test of its value, inverted or not. With `missing_is_empty` none is ever absent.
    """

    name: str
    wanted: "StringTest | NumberTest | None"
    presence: bool = True
    is_inverted: bool = False
    missing_is_empty: bool = False

    def holds(self, scene: Scene) -> bool:
        return self.holds_of(scene.headers)

    def holds_of(self, headers: Headers) -> bool:
        values = header_values(headers, self.name) or (("",) if self.missing_is_empty else ())
        if self.wanted is None:
            return (bool(values) is self.presence) is not self.is_inverted
        return bool(values) and any(self.wanted.holds(value) for value in values) is not self.is_inverted

    def __str__(self) -> str:
        if self.wanted is None:
            return f"{self.name} is {'present' if self.presence is not self.is_inverted else 'absent'}"
        return f"{self.name} {'not: ' if self.is_inverted else ''}{self.wanted}"


class NumberTest(msgspec.Struct, frozen=True):
    """A decimal number in [start, end)."""

    start: int
    end: int

    def holds(self, text: str) -> bool:
        return re.fullmatch(r"[+-]?[0-9]+", text) is not None and self.start <= int(text) < self.end

    def __str__(self) -> str:
        return f"is in {self.start}..{self.end - 1}"


class StateTest(msgspec.Struct, frozen=True):
    """A test of a filter state object's text. An object that is not there fails it."""

    key: str
    wanted: StringTest

    def holds(self, scene: Scene) -> bool:
        found = scene.state.get(self.key)
        if found is None:
            return False
        require(found.is_text, f"a string match on filter state {self.key} made by {found.factory}")
        return self.wanted.holds(found.text)

    def __str__(self) -> str:
        return f"{self.key} {self.wanted}"


class StateAddressTest(msgspec.Struct, frozen=True):
    """A test of an address in filter state. Anything that is not an address object fails it."""

    key: str
    ranges: tuple[Network, ...]

    def holds(self, scene: Scene) -> bool:
        found = scene.state.get(self.key)
        return found is not None and found.factory == "envoy.network.ip" and is_within(found.text, self.ranges)

    def __str__(self) -> str:
        return f"{self.key} is within {', '.join(str(one) for one in self.ranges)}"


Predicate = HeaderTest | StateTest | StateAddressTest


def read_string(message: Proto) -> StringTest:
    """A `StringMatcher` of Envoy's or of xDS's: the same fields."""
    _STRING.check(message)
    match message.WhichOneof("match_pattern"):
        case "exact":
            return StringTest(Comparison.IS, message.exact, message.ignore_case)
        case "prefix":
            return StringTest(Comparison.STARTS, message.prefix, message.ignore_case)
        case "suffix":
            return StringTest(Comparison.ENDS, message.suffix, message.ignore_case)
        case "contains":
            return StringTest(Comparison.CONTAINS, message.contains, message.ignore_case)
        case "safe_regex":
            return read_regex(message.safe_regex)
        case other:
            raise Unsupported(f"string matcher {other}")


def read_regex(message: Proto) -> StringTest:
    """A `RegexMatcher`: the whole text must match. Only the part of RE2 that Python's `re` reads alike is taken."""
    _REGEX.check(message)
    require(is_alike_in_re2(message.regex), f"regular expression {message.regex!r}")
    return StringTest(Comparison.MATCHES, message.regex)


def is_alike_in_re2(pattern: str) -> bool:
    """Whether Python's `re` and RE2 read a pattern alike."""
    return _NOT_RE2.search(pattern) is None


def read_header(message: Proto) -> HeaderTest:
    """A `HeaderMatcher`."""
    _HEADER.check(message)
    kind = message.WhichOneof("header_match_specifier")
    return HeaderTest(
        name=message.name.lower(),
        wanted=None if kind in {None, "present_match"} else _read_header_value(message, kind),
        presence=message.present_match if kind == "present_match" else True,
        is_inverted=message.invert_match,
        missing_is_empty=message.treat_missing_header_as_empty,
    )


def _read_header_value(message: Proto, kind: str) -> StringTest | NumberTest:
    value = getattr(message, kind)
    match kind:
        case "string_match":
            return read_string(value)
        case "range_match":
            return NumberTest(value.start, value.end)
        case "safe_regex_match":
            return read_regex(value)
        case "exact_match" if not value:
            return StringTest(Comparison.ANYTHING, "")
        case _:
            return StringTest(_OLD_FORMS[kind], value)


_OLD_FORMS: Mapping[str, Comparison] = {
    "exact_match": Comparison.IS,
    "prefix_match": Comparison.STARTS,
    "suffix_match": Comparison.ENDS,
    "contains_match": Comparison.CONTAINS,
}
"""The deprecated matchers on a header itself. An empty exact one is found in every header."""


def read_state(message: Proto) -> StateTest | StateAddressTest:
    """A `FilterStateMatcher`."""
    _STATE.check(message)
    match message.WhichOneof("matcher"):
        case "string_match":
            return StateTest(message.key, read_string(message.string_match))
        case "address_match":
            _ADDRESS.check(message.address_match)
            return StateAddressTest(message.key, read_ranges(message.address_match.ranges))
        case other:
            raise Unsupported(f"filter state matcher {other}")


def read_ranges(messages: Iterable[Proto]) -> tuple[Network, ...]:
    """`CidrRange`s, with the bits beyond the prefix cleared as Envoy does."""
    ranges = []
    for message in messages:
        _CIDR.check(message)
        length = message.prefix_len.value if message.HasField("prefix_len") else 0
        ranges.append(ipaddress.ip_network(f"{message.address_prefix}/{length}", strict=False))
    return tuple(ranges)
