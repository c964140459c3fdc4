"""Envoy's substitution format strings (Envoy docs, "Access logging", command operators), and the headers made of them.

Owns: what a format string prints for a connection or request; the order and the append actions of header changes. An
operator that is not in the table here is refused when it is to be printed.
"""

import enum
import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

from aether.render.envoy.evaluate.predicates import is_alike_in_re2
from aether.render.envoy.evaluate.request import Headers, Scene, header_values
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape

_COMMAND = re.compile(r"%(?:(?P<percent>%)|(?P<name>[A-Z0-9_]+)(?:\((?P<argument>.*?)\))?(?::(?P<length>[0-9]+))?%)")
_MISSING = "-"
_SOURCE = shape("text_format_source text_format omit_empty_values", "content_type")
_DATA = shape("inline_string")
_OPTION = shape("header append_action keep_empty_value")
_VALUE = shape("key value")
_MUTATION = shape("remove append")

Operator = Callable[[Scene, str], str | None]


class Piece(msgspec.Struct, frozen=True):
    """A literal (no operator) or one command. `length_bytes` cuts the text, -1 does not."""

    literal: str = ""
    operator: Operator | None = None
    argument: str = ""
    length_bytes: int = -1

    def text(self, scene: Scene) -> str | None:
        if self.operator is None:
            return self.literal
        value = self.operator(scene, self.argument)
        if value is None or self.length_bytes < 0:
            return value
        return value.encode()[: self.length_bytes].decode(errors="ignore")


class Format(msgspec.Struct, frozen=True):
    """A format string. What a command cannot find is printed as ``-``, or as nothing if `omits_missing`."""

    source: str
    pieces: tuple[Piece, ...]
    omits_missing: bool = False

    def text(self, scene: Scene) -> str:
        missing = "" if self.omits_missing else _MISSING
        texts = [piece.text(scene) for piece in self.pieces]
        return "".join(missing if text is None else text for text in texts)


def read_format_source(message: Proto) -> Format:
    """A `SubstitutionFormatString`."""
    _SOURCE.check(message)
    if message.WhichOneof("format") == "text_format":
        return read_format(message.text_format, omits_missing=message.omit_empty_values)
    require(message.WhichOneof("format") == "text_format_source", "a format string that is not text")
    _DATA.check(message.text_format_source)
    return read_format(message.text_format_source.inline_string, omits_missing=message.omit_empty_values)


def read_format(source: str, *, omits_missing: bool = False) -> Format:
    pieces: list[Piece] = []
    position = 0
    while position < len(source):
        start = source.find("%", position)
        if start < 0:
            start = len(source)
        if start > position:
            pieces.append(Piece(literal=source[position:start]))
        if start == len(source):
            break
        match = _COMMAND.match(source, start)
        if match is None:
            raise Unsupported(f"format string {source!r}")
        pieces.append(_read_command(match, source))
        position = match.end()
    return Format(source, tuple(pieces), omits_missing)


def _read_command(match: re.Match[str], source: str) -> Piece:
    if match["percent"]:
        return Piece(literal="%")
    operator = _OPERATORS.get(match["name"])
    argument = match["argument"]
    if operator is None or (argument is not None) is not (match["name"] in _WITH_ARGUMENT):
        operator, argument = _refuse, f"{match[0]} in format string {source!r}"
    length_bytes = int(match["length"]) if match["length"] else -1
    return Piece(operator=operator, argument=argument or "", length_bytes=length_bytes)


def _refuse(_: Scene, construct: str) -> str:
    raise Unsupported(construct)


def _request_header(scene: Scene, argument: str) -> str | None:
    """``NAME`` or ``NAME?ALTERNATIVE``; of a repeated header, the first value."""
    for name in argument.lower().split("?"):
        if values := header_values(scene.headers, name):
            return values[0]
    return None


def _filter_state(scene: Scene, argument: str) -> str | None:
    key, _, form = argument.partition(":")
    found = scene.state.get(key)
    if form != "PLAIN" or (found is not None and not found.is_text):
        raise Unsupported(f"%FILTER_STATE({argument})%")
    return None if found is None else found.text


_EXTRACT = re.compile(r"re\.extract\(request\.host, '(?P<pattern>\^.*\$)', '(?P<rewrite>(?:\\\\[1-9])*)'\)")


def _expression(scene: Scene, argument: str) -> str | None:
    """The one CEL expression that is understood: the groups of a whole match of the host. CEL doubles backslashes."""
    call = _EXTRACT.fullmatch(argument)
    if call is None:
        raise Unsupported(f"%CEL({argument})%")
    pattern = call["pattern"].replace("\\\\", "\\")
    require(is_alike_in_re2(pattern), f"regular expression {pattern!r}")
    host = header_values(scene.headers, ":authority")[0]
    found = re.fullmatch(pattern, host, re.ASCII)
    require(found is not None, f"%CEL({argument})% of a host that does not match")
    assert found is not None
    return "".join(found[int(digit)] or "" for digit in call["rewrite"].replace("\\", ""))


def _cluster_metadata(scene: Scene, argument: str) -> str | None:
    """``FILTER:KEY``, for a text."""
    name, _, key = argument.partition(":")
    return scene.metadata.get(name, {}).get(key)


_OPERATORS: Mapping[str, Operator] = {
    "DOWNSTREAM_LOCAL_ADDRESS": lambda scene, _: scene.connection.destination,
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": lambda scene, _: scene.connection.address,
    "DOWNSTREAM_LOCAL_PORT": lambda scene, _: str(scene.connection.port),
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": lambda scene, _: scene.connection.source or None,
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": lambda scene, _: scene.connection.source or None,
    "REQUESTED_SERVER_NAME": lambda scene, _: scene.server_name or None,
    "FILTER_STATE": _filter_state,
    "REQ": _request_header,
    "CEL": _expression,
    "CLUSTER_METADATA": _cluster_metadata,
    "LOCAL_REPLY_BODY": lambda scene, _: scene.reply_body,
}
_WITH_ARGUMENT = {"FILTER_STATE", "REQ", "CEL", "CLUSTER_METADATA"}


class How(enum.IntEnum):
    """`HeaderValueOption.HeaderAppendAction`."""

    APPEND = 0
    ADD_IF_ABSENT = 1
    OVERWRITE_OR_ADD = 2
    OVERWRITE_IF_PRESENT = 3


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Set or extend a header, or remove it (no `text`)."""

    name: str
    text: Format | None = None
    how: How = How.APPEND
    keeps_empty: bool = False

    def apply(self, headers: Headers, scene: Scene) -> Headers:
        if self.text is None:
            return {name: values for name, values in headers.items() if name != self.name}
        value = self.text.text(scene)
        is_present = self.name in headers
        if (not value and not self.keeps_empty) or not self._applies(is_present=is_present):
            return headers
        before = headers.get(self.name, ()) if self.how is How.APPEND else ()
        return {**headers, self.name: (*before, value)}

    def _applies(self, *, is_present: bool) -> bool:
        if self.how is How.ADD_IF_ABSENT:
            return not is_present
        return is_present or self.how is not How.OVERWRITE_IF_PRESENT


Edits = tuple[Edit, ...]


def apply_edits(edits: Edits, headers: Headers, scene: Scene) -> Headers:
    for edit in edits:
        headers = edit.apply(headers, scene)
    return headers


def read_edits(added: Iterable[Proto], removed: Iterable[str] = ()) -> Edits:
    """A pair of `headers_to_add` and `headers_to_remove`: Envoy removes first."""
    return (*(Edit(name=name.lower()) for name in removed), *(_read_option(one) for one in added))


def read_mutations(messages: Iterable[Proto]) -> Edits:
    """A list of `HeaderMutation`, applied in order."""
    edits = []
    for message in messages:
        _MUTATION.check(message)
        is_append = message.WhichOneof("action") == "append"
        edits.append(_read_option(message.append) if is_append else Edit(name=message.remove.lower()))
    return tuple(edits)


def _read_option(message: Proto) -> Edit:
    _OPTION.check(message)
    _VALUE.check(message.header)
    require(bool(message.header.key), "a header without a name")
    return Edit(
        name=message.header.key.lower(),
        text=read_format(message.header.value, omits_missing=True),
        how=How(message.append_action),
        keeps_empty=message.keep_empty_value,
    )
