"""Arbitrary Envoy configuration, as values of Envoy's JSON: route tables and ways of choosing a filter chain.

Small alphabets on purpose: requests and connections of the same alphabets hit as often as they miss.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

Config = dict[str, Any]

TYPE = "type.googleapis.com/"
_INPUTS = f"{TYPE}envoy.extensions.matching.common_inputs.network.v3."

_NAMES = (
    "cart.shop",
    "CART.shop",
    "cart",
    "a.b.c",
    "x.b.c",
    "b.c",
    "c",
    "hop",
    ".shop",
    "x.y",
    "cart.blog",
    "[fd96::5]",
)
AUTHORITIES = (
    *_NAMES,
    *("cart.shop:8080", "cart:1", "[fd96::5]:8080", "zzz:8080", "cart.shop:", "cart.shop:8080:1"),
    *("cart.shop.", "cart.shop.:8080", "c.", "c..", "x."),
)
PATHS = ("/", "/a", "/a/b", "/ab", "/A/B", "/a?x=/b", "/A", "/b")
VALUES = ("a", "ab", "1", "5", "12", "bx", "", "8080")
_EXACT = ("cart.shop", "cart.shop:8080", "a.b.c", "[fd96::5]", "Cart.Blog", "c.")
_DOMAINS = (*_EXACT, "*.shop", "*hop", "*.b.c", "*.c", "cart.*", "cart*", "x.*", "*")
_REGEXES = ("a.*", "[ab]+", "[0-9]+", "x|ab", ".*:8080")

ADDRESSES = ("10.96.0.5", "10.96.0.6", "10.1.0.5", "192.0.2.1")
PORTS = (80, 8080, 9000)
SERVER_NAMES = ("db.shop", "a.db.shop", "pay.shop", "shop")
ALPN = ("h2", "http/1.1")
_RANGES = (("10.96.0.0", 16), ("10.0.0.0", 8), ("10.96.0.5", 32), ("0.0.0.0", 0))


class Arbitrary:
    """Draws configuration from one source of randomness."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def chance(self, share: float) -> bool:
        return self._source.random() < share

    def one(self, choices: Sequence[Any]) -> Any:
        return self._source.choice(choices)

    def table(self, name: str) -> Config:
        """A route table whose every route answers with its own name."""
        domains = list(_DOMAINS)
        self._source.shuffle(domains)
        hosts: list[Config] = []
        left = domains[: self._source.randint(3, len(domains))]
        while left:
            count = self._source.randint(1, 3)
            hosts.append(self._host(f"{name}-{len(hosts)}", left[:count]))
            left = left[count:]
        value = {"key": "x-seen", "value": "table %REQ(:authority):7%"}
        return {
            "name": name,
            "virtual_hosts": hosts,
            "ignore_port_in_host_matching": self.chance(0.6),
            "response_headers_to_add": [{"header": value, "append_action": self._append_action()}],
        }

    def manager(self, table: Config) -> Config:
        """A connection manager around a table."""
        router = {"@type": f"{TYPE}envoy.extensions.filters.http.router.v3.Router"}
        manager: Config = {
            "@type": f"{TYPE}envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "s",
            "route_config": table,
            "strip_trailing_host_dot": self.chance(0.6),
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        }
        if self.chance(0.5):
            manager["early_header_mutation_extensions"] = [self._early_mutations()]
        return manager

    def chain_matcher(self, names: Sequence[str]) -> Config:
        """A matching tree that leads to filter chains."""

        def action() -> Config:
            value = {"@type": f"{TYPE}google.protobuf.StringValue", "value": self.one(names)}
            return {"action": {"name": "chain", "typed_config": value}}

        return self._tree(3, self._network_map, action)

    def chain_matches(self, count: int) -> list[Config]:
        """Different `filter_chain_match`es."""
        found: dict[str, Config] = {}
        while len(found) < count:
            match = self._chain_match()
            found[str(match)] = match
        return list(found.values())

    def _host(self, name: str, domains: Sequence[str]) -> Config:
        host: Config = {"name": name, "domains": list(domains)}
        if self.chance(0.5):
            host["matcher"] = self._tree(2, self._http_map, self._route_action(name))
        else:
            host["routes"] = [self._route(f"{name}-{place}") for place in range(self._source.randint(1, 4))]
        if self.chance(0.5):
            value = {"key": "x-seen", "value": "host %REQ(x-a?x-b)% %FILTER_STATE(none:PLAIN)%"}
            host["response_headers_to_add"] = [{"header": value, "append_action": self._append_action()}]
        return host

    def _route(self, name: str) -> Config:
        return {
            "name": name,
            "match": self._route_match(),
            "direct_response": {"status": 200, "body": {"inline_string": name}},
        }

    def _route_match(self) -> Config:
        kind = self.one(("prefix", "prefix", "prefix", "path", "path_separated_prefix", "safe_regex"))
        match: Config = {kind: self.one(("/", "/a", "/a/b", "/A"))}
        if kind == "path_separated_prefix":
            match[kind] = self.one(("/a", "/a/b"))
        if kind == "safe_regex":
            match[kind] = {"regex": self.one(("/a.*", "/[ab]/?", "/"))}
        elif self.chance(0.2):
            match["case_sensitive"] = False
        if self.chance(0.6):
            match["headers"] = [self._header_matcher() for _ in range(self.one((1, 1, 2)))]
        if self.chance(0.4):
            match["filter_state"] = [self._state_matcher()]
        return match

    def _header_matcher(self) -> Config:
        matcher: Config = {"name": self.one((":authority", "x-a", "x-b", ":path", ":method", "host"))}
        kind = self.one(("string_match", "present_match", "range_match", "", "exact_match", "suffix_match"))
        values: dict[str, Any] = {
            "string_match": self._string_matcher(),
            "present_match": self.chance(0.7),
            "range_match": {"start": 0, "end": 10},
            "exact_match": self.one(VALUES),
            "suffix_match": self.one(("a", "8080", ":", "1")),
        }
        if kind:
            matcher[kind] = values[kind]
        matcher["invert_match"] = self.chance(0.35)
        matcher["treat_missing_header_as_empty"] = self.chance(0.3)
        return matcher

    def _state_matcher(self) -> Config:
        if self.chance(0.8):
            return {"key": self.one(("port", "host", "none")), "string_match": self._string_matcher()}
        ranges = [{"address_prefix": "127.0.0.0", "prefix_len": self.one((8, 32))}]
        return {"key": self.one(("address", "port")), "address_match": {"ranges": ranges}}

    def _string_matcher(self) -> Config:
        kind = self.one(("exact", "prefix", "suffix", "contains", "safe_regex"))
        if kind == "safe_regex":
            return {"safe_regex": {"google_re2": {}, "regex": self.one(_REGEXES)}}
        return {kind: self.one(("a", "ab", "8080", ":8080", ":", "shop", "1", "x")), "ignore_case": self.chance(0.2)}

    def _route_action(self, name: str) -> Callable[[], Config]:
        count = iter(range(1_000))

        def action() -> Config:
            route = {"@type": f"{TYPE}envoy.config.route.v3.Route", **self._route(f"{name}-{next(count)}")}
            if self.chance(0.5):
                routes = [self._route(f"{name}-{next(count)}") for _ in range(2)]
                route = {"@type": f"{TYPE}envoy.config.route.v3.RouteList", "routes": routes}
            return {"action": {"name": "route", "typed_config": route}}

        return action

    def _tree(
        self, depth: int, lookup: Callable[[Callable[[], Config]], Config], action: Callable[[], Config]
    ) -> Config:
        def target() -> Config:
            return {"matcher": self._tree(depth - 1, lookup, action)} if depth and self.chance(0.5) else action()

        tree = lookup(target)
        if self.chance(0.6):
            tree["on_no_match"] = target()
        return tree

    def _http_map(self, target: Callable[[], Config]) -> Config:
        if self.chance(0.3):
            branches = [{"predicate": self._predicate(1), "on_match": target()} for _ in range(2)]
            return {"matcher_list": {"matchers": branches}}
        keys = self._source.sample(("a", "ab", "1", "/a", "cart.shop", "cart.shop:8080", "b"), 4)
        kind = self.one(("exact_match_map", "prefix_match_map"))
        return {"matcher_tree": {"input": self._http_input(), kind: {"map": {key: target() for key in keys}}}}

    def _predicate(self, depth: int) -> Config:
        kind = self.one(("not_matcher", "and_matcher", "or_matcher", "", "")) if depth else ""
        if kind == "not_matcher":
            return {kind: self._predicate(depth - 1)}
        if kind:
            return {kind: {"predicate": [self._predicate(depth - 1), self._predicate(depth - 1)]}}
        return {"single_predicate": {"input": self._http_input(), "value_match": self._string_matcher()}}

    def _http_input(self) -> Config:
        header = {
            "@type": f"{TYPE}envoy.type.matcher.v3.HttpRequestHeaderMatchInput",
            "header_name": self.one(("x-a", "x-b", ":authority", ":path")),
        }
        state = {"@type": f"{_INPUTS}FilterStateInput", "key": self.one(("port", "host", "none"))}
        return {"name": "input", "typed_config": header if self.chance(0.6) else state}

    def _network_map(self, target: Callable[[], Config]) -> Config:
        kind = self.one(tuple(_NETWORK_KEYS))
        source = {"name": "input", "typed_config": {"@type": f"{_INPUTS}{kind}"}}
        if kind == "DestinationIPInput" and self.chance(0.7):
            ranges = [self._ip_range(target()) for _ in range(3)]
            matcher = {"@type": f"{TYPE}xds.type.matcher.v3.IPMatcher", "range_matchers": ranges}
            return {"matcher_tree": {"input": source, "custom_match": {"name": "ip", "typed_config": matcher}}}
        keys = self._source.sample(_NETWORK_KEYS[kind], 2)
        how = self.one(("exact_match_map", "prefix_match_map"))
        return {"matcher_tree": {"input": source, how: {"map": {key: target() for key in keys}}}}

    def _ip_range(self, target: Config) -> Config:
        prefix, length = self.one(_RANGES)
        ranges = [{"address_prefix": prefix, "prefix_len": length}]
        return {"ranges": ranges, "on_match": target, "exclusive": self.chance(0.3)}

    def _chain_match(self) -> Config:
        match: Config = {}
        if self.chance(0.4):
            match["destination_port"] = self.one(PORTS)
        if self.chance(0.5):
            prefix, length = self.one(_RANGES[:3])
            match["prefix_ranges"] = [{"address_prefix": prefix, "prefix_len": length}]
        if self.chance(0.4):
            match["server_names"] = [self.one((*SERVER_NAMES, "*.shop", "*.db.shop"))]
        if self.chance(0.3):
            match["transport_protocol"] = self.one(("tls", "raw_buffer"))
        if self.chance(0.3):
            match["application_protocols"] = [self.one(("h2", "http/1.1", "h2c"))]
        return match

    def _early_mutations(self) -> Config:
        texts = ("%FILTER_STATE(port:PLAIN)%", "%FILTER_STATE(none:PLAIN)%", "a%REQ(x-a)%", "%REQ(:authority):3%")
        append = {"header": {"key": "x-b", "value": self.one(texts)}, "append_action": self._append_action()}
        mutations = [{"append": append}, {"remove": self.one(("x-a", "x-c"))}]
        kind = f"{TYPE}envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
        return {"name": "early", "typed_config": {"@type": kind, "mutations": mutations}}

    def _append_action(self) -> str:
        actions = ("APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS_OR_ADD", "OVERWRITE_IF_EXISTS")
        return str(self.one(actions))


_NETWORK_KEYS: dict[str, Sequence[str]] = {
    "DestinationIPInput": (*ADDRESSES, "10.96", "1"),
    "DestinationPortInput": ("80", "8080", "9000", "8"),
    "ServerNameInput": (*SERVER_NAMES, "db"),
    "TransportProtocolInput": ("tls", "raw_buffer", "r"),
    "ApplicationProtocolInput": ("'http/1.1'", "'h2c'", "'h2','http/1.1'", "'h2'", "'h"),
}
