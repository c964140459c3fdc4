"""xDS matching trees (xds.type.matcher.v3.Matcher), for filter chains and for virtual hosts.

Owns: the walk from inputs to an action. A branch whose sub-tree decides nothing is as if it had not matched: the walk
goes on behind it, and ends at the nearest `on_no_match`.
"""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec
from envoy.extensions.matching.common_inputs.network.v3 import network_inputs_pb2 as network
from envoy.type.matcher.v3 import http_inputs_pb2 as http
from xds.type.matcher.v3 import ip_pb2

from aether.render.envoy.evaluate.predicates import StringTest, read_ranges, read_string
from aether.render.envoy.evaluate.request import Network, Scene, header_value, is_within
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape, unpack

Action = TypeVar("Action")

_MATCHER = shape("matcher_list matcher_tree on_no_match")
_LIST = shape("matchers")
_FIELD = shape("predicate on_match")
_PREDICATE = shape("single_predicate or_matcher and_matcher not_matcher")
_PREDICATES = shape("predicate")
_SINGLE = shape("input value_match")
_TREE = shape("input exact_match_map prefix_match_map custom_match")
_ON_MATCH = shape("matcher action")
_EXTENSION = shape("typed_config", "name")
_IP_MATCHER = shape("range_matchers")
_IP_RANGE = shape("ranges on_match exclusive")


class Input(msgspec.Struct, frozen=True):
    """A text taken from the scene; None if there is nothing to take."""

    name: str
    take: Callable[[Scene], str | None]


class Found(msgspec.Struct, Generic[Action], frozen=True):
    """The action a tree decided for, and the conditions that led there, "" if none of them held."""

    action: Action
    because: str


class Single(msgspec.Struct, frozen=True):
    source: Input
    wanted: StringTest

    def holds(self, scene: Scene) -> bool:
        text = self.source.take(scene)
        return text is not None and self.wanted.holds(text)

    def __str__(self) -> str:
        return f"{self.source.name} {self.wanted}"


class Combined(msgspec.Struct, frozen=True):
    """All of the parts hold, or any of them."""

    parts: tuple["Condition", ...]
    is_all: bool

    def holds(self, scene: Scene) -> bool:
        return (all if self.is_all else any)(part.holds(scene) for part in self.parts)

    def __str__(self) -> str:
        return (" and " if self.is_all else " or ").join(str(part) for part in self.parts)


class Negated(msgspec.Struct, frozen=True):
    part: "Condition"

    def holds(self, scene: Scene) -> bool:
        return not self.part.holds(scene)

    def __str__(self) -> str:
        return f"not ({self.part})"


Condition = Single | Combined | Negated


class Branches(msgspec.Struct, Generic[Action], frozen=True):
    """The first branch whose condition holds and that decides."""

    branches: tuple[tuple[Condition, "Tree[Action] | Action"], ...]

    def candidates(self, scene: Scene) -> "list[tuple[str, Tree[Action] | Action]]":
        return [(str(condition), target) for condition, target in self.branches if condition.holds(scene)]


class ExactMap(msgspec.Struct, Generic[Action], frozen=True):
    """A table of texts. Case matters."""

    source: Input
    entries: Mapping[str, "Tree[Action] | Action"]

    def candidates(self, scene: Scene) -> "list[tuple[str, Tree[Action] | Action]]":
        text = self.source.take(scene)
        if text is None or text not in self.entries:
            return []
        return [(f"{self.source.name} is {text!r}", self.entries[text])]


class PrefixMap(msgspec.Struct, Generic[Action], frozen=True):
    """A table of prefixes, the longest first."""

    source: Input
    entries: Mapping[str, "Tree[Action] | Action"]

    def candidates(self, scene: Scene) -> "list[tuple[str, Tree[Action] | Action]]":
        text = self.source.take(scene)
        if text is None:
            return []
        fitting = sorted((key for key in self.entries if text.startswith(key)), key=len, reverse=True)
        return [(f"{self.source.name} starts with {key!r}", self.entries[key]) for key in fitting]


class IpRange(msgspec.Struct, Generic[Action], frozen=True):
    network: Network
    is_exclusive: bool
    target: "Tree[Action] | Action"


class IpRanges(msgspec.Struct, Generic[Action], frozen=True):
    """Address ranges, the longest prefix first, then in order. An exclusive one counts only when it is the first."""

    source: Input
    ranges: tuple[IpRange[Action], ...]

    def candidates(self, scene: Scene) -> "list[tuple[str, Tree[Action] | Action]]":
        text = self.source.take(scene)
        fitting = [one for one in self.ranges if text is not None and is_within(text, (one.network,))]
        fitting.sort(key=lambda one: one.network.prefixlen, reverse=True)
        return [
            (f"{self.source.name} is within {one.network}", one.target)
            for index, one in enumerate(fitting)
            if index == 0 or not one.is_exclusive
        ]


class Tree(msgspec.Struct, Generic[Action], frozen=True):
    """A node with what to do when it decides nothing."""

    node: "Branches[Action] | ExactMap[Action] | PrefixMap[Action] | IpRanges[Action] | None"
    otherwise: "Tree[Action] | Action | None"

    def decide(self, scene: Scene) -> Found[Action] | None:
        for because, target in self.node.candidates(scene) if self.node is not None else []:
            found = _follow(target, because, scene)
            if found is not None:
                return found
        return None if self.otherwise is None else _follow(self.otherwise, "", scene)


def _follow(target: "Tree[Action] | Action", because: str, scene: Scene) -> Found[Action] | None:
    if not isinstance(target, Tree):
        return Found(target, because)
    found: Found[Action] | None = target.decide(scene)
    return None if found is None else Found(found.action, ", ".join(filter(None, (because, found.because))))


class TreeReader(Generic[Action]):
    """Reads trees whose actions `read_action` understands."""

    def __init__(self, read_action: Callable[[Proto], Action]) -> None:
        self._read_action = read_action

    def read(self, message: Proto) -> Tree[Action]:
        """A `Matcher`."""
        _MATCHER.check(message)
        otherwise = self._read_on_match(message.on_no_match) if message.HasField("on_no_match") else None
        match message.WhichOneof("matcher_type"):
            case "matcher_list":
                return Tree(self._read_list(message.matcher_list), otherwise)
            case "matcher_tree":
                return Tree(self._read_tree(message.matcher_tree), otherwise)
            case _:
                return Tree(None, otherwise)

    def _read_on_match(self, message: Proto) -> Tree[Action] | Action:
        _ON_MATCH.check(message)
        if message.WhichOneof("on_match") == "matcher":
            return self.read(message.matcher)
        _EXTENSION.check(message.action)
        return self._read_action(message.action.typed_config)

    def _read_list(self, message: Proto) -> Branches[Action]:
        _LIST.check(message)
        branches = []
        for one in message.matchers:
            _FIELD.check(one)
            branches.append((_read_condition(one.predicate), self._read_on_match(one.on_match)))
        return Branches(tuple(branches))

    def _read_tree(self, message: Proto) -> ExactMap[Action] | PrefixMap[Action] | IpRanges[Action]:
        _TREE.check(message)
        source = _read_input(message.input)
        match message.WhichOneof("tree_type"):
            case "exact_match_map":
                return ExactMap(source, self._read_map(message.exact_match_map))
            case "prefix_match_map":
                return PrefixMap(source, self._read_map(message.prefix_match_map))
            case "custom_match":
                return IpRanges(source, self._read_ip_ranges(message.custom_match))
            case other:
                raise Unsupported(f"matcher tree {other}")

    def _read_map(self, message: Proto) -> Mapping[str, Tree[Action] | Action]:
        return {key: self._read_on_match(value) for key, value in message.map.items()}

    def _read_ip_ranges(self, message: Proto) -> tuple[IpRange[Action], ...]:
        _EXTENSION.check(message)
        config = unpack(message.typed_config, [ip_pb2.IPMatcher], where="a matcher tree")
        _IP_MATCHER.check(config)
        ranges = []
        for one in config.range_matchers:
            _IP_RANGE.check(one)
            target = self._read_on_match(one.on_match)
            ranges += [IpRange(network, one.exclusive, target) for network in read_ranges(one.ranges)]
        return tuple(ranges)


def _read_condition(message: Proto) -> Condition:
    _PREDICATE.check(message)
    match message.WhichOneof("match_type"):
        case "single_predicate":
            _SINGLE.check(message.single_predicate)
            require(message.single_predicate.HasField("value_match"), "a predicate without a value to match")
            single = message.single_predicate
            return Single(_read_input(single.input), read_string(single.value_match))
        case "and_matcher":
            return Combined(_read_conditions(message.and_matcher), is_all=True)
        case "or_matcher":
            return Combined(_read_conditions(message.or_matcher), is_all=False)
        case "not_matcher":
            return Negated(_read_condition(message.not_matcher))
        case other:
            raise Unsupported(f"predicate {other}")


def _read_conditions(message: Proto) -> tuple[Condition, ...]:
    _PREDICATES.check(message)
    return tuple(_read_condition(one) for one in message.predicate)


_SIMPLE_INPUTS: Mapping[type, Input] = {
    network.DestinationIPInput: Input("destination address", lambda scene: scene.connection.address),
    network.DestinationPortInput: Input("destination port", lambda scene: str(scene.connection.port)),
    network.SourceIPInput: Input("source address", lambda scene: scene.connection.source or None),
    network.DirectSourceIPInput: Input("source address", lambda scene: scene.connection.source or None),
    network.ServerNameInput: Input("server name", lambda scene: scene.server_name or None),
    network.TransportProtocolInput: Input("transport protocol", lambda scene: scene.transport_protocol or None),
    network.NetworkNamespaceInput: Input("network namespace", lambda scene: scene.connection.netns or None),
    network.ApplicationProtocolInput: Input(
        "application protocol",
        lambda scene: ",".join(f"'{one}'" for one in scene.application_protocols) or None,
    ),
}
_STATE_INPUT = shape("key")
_HEADER_INPUT = shape("header_name")


def _read_input(message: Proto) -> Input:
    _EXTENSION.check(message)
    classes = [*_SIMPLE_INPUTS, network.FilterStateInput, http.HttpRequestHeaderMatchInput]
    config = unpack(message.typed_config, classes, where="a matcher input")
    if isinstance(config, network.FilterStateInput):
        _STATE_INPUT.check(config)
        return _state_input(config.key)
    if isinstance(config, http.HttpRequestHeaderMatchInput):
        _HEADER_INPUT.check(config)
        name = config.header_name.lower()
        return Input(name, lambda scene: header_value(scene.headers, name))
    return _SIMPLE_INPUTS[type(config)]


def _state_input(key: str) -> Input:
    def take(scene: Scene) -> str | None:
        found = scene.state.get(key)
        require(found is None or found.is_text, f"filter state {key} as an input, made by another factory than text")
        return None if found is None else found.text

    return Input(key, take)
