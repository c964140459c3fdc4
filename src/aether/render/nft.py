"""Spell capture and service routing for nftables.

Both tables are replaced atomically (`add`, `delete`, define: one transaction, and repeatable) or edited by element.

Capture, in the pod: the decision is made once, at the SYN, and kept in the conntrack mark, so a connection stays where
it is whatever the sets say later. Marked packets are routed to the loopback (`ip rule fwmark 1/1`, see
`adapters.kernel.links`) and given to the listener there; where nobody listens, the dial is reset at once.

Routing, in the node ("layout B"): a verdict map sends (address, protocol, port) to a chain shared by all routes with
that many backends; it draws a slot and the slot map names the backend. What is still addressed to a service range
afterwards has no route and is refused. TCP is always refused by a reset: ICMP is rate limited.
"""

from collections.abc import Iterable

from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, INBOUND_PORT, PROXY_PORT
from aether.plan.capture import CaptureChange, CapturePlan, MeshSets, ReplaceCapture
from aether.plan.routing import (
    Backend,
    EditRouting,
    ReplaceRouting,
    RoutingChange,
    RoutingPlan,
    ServiceRoute,
    spreads,
)

CAPTURE_NAME = "aether_capture"
"""The table in the pod's namespace, family inet."""
ROUTING_NAME = "aether_routing"
"""The table in the node's namespace, family inet."""
PROXY_MARK = 0x2
"""SO_MARK of the proxy's own dials from a pod's namespace: never captured."""

_SNIFFED = 0x1
_RAW = 0x5
_POD_LINKS = '"pod-*"'


def render_capture(plan: CapturePlan) -> str:
    """The whole table of one pod."""
    sets = [
        _set("mesh4", "ipv4_addr", plan.sets.mesh4),
        _set("mesh6", "ipv6_addr", plan.sets.mesh6),
        _set("raw4", "ipv4_addr . inet_service", _pairs(plan.sets.raw4)),
        _set("raw6", "ipv6_addr . inet_service", _pairs(plan.sets.raw6)),
        _set("exempt_ports", "inet_service", _port_ranges(plan.exempt_ports), is_interval=True),
        _set("exempt4", "ipv4_addr", plan.exempt4, is_interval=True),
        _set("exempt6", "ipv6_addr", plan.exempt6, is_interval=True),
    ]
    return _table(CAPTURE_NAME, [*sets, _capture_out(plan), *_CAPTURE_VERDICTS, _CAPTURE_PRE, _CAPTURE_IN])


def render_capture_change(change: CaptureChange) -> str:
    """One transaction. A refused edit means that the table is not what the old plan says: replace it."""
    if isinstance(change, ReplaceCapture):
        return render_capture(change.plan)
    return "".join([*_edit_sets("add", change.add), *_edit_sets("delete", change.remove)])


def render_routing(plan: RoutingPlan) -> str:
    """The whole table of one node."""
    routes4 = [route for route in plan.routes if not _is_v6(route.address)]
    routes6 = [route for route in plan.routes if _is_v6(route.address)]
    parts = [
        _map("services4", _route_key(4), "verdict", map(_verdict, routes4)),
        _map("services6", _route_key(6), "verdict", map(_verdict, routes6)),
        _map("backends4", f"{_route_key(4)} . mark", "ipv4_addr . inet_service", _all_slots(routes4)),
        _map("backends6", f"{_route_key(6)} . mark", "ipv6_addr . inet_service", _all_slots(routes6)),
        _set("refused4", "ipv4_addr", (each for each in plan.refused if not _is_v6(each)), is_interval=True),
        _set("refused6", "ipv6_addr", (each for each in plan.refused if _is_v6(each)), is_interval=True),
        _set("hairpin4", "ipv4_addr . ipv4_addr", _twice(plan.local_pods, is_v6=False)),
        _set("hairpin6", "ipv6_addr . ipv6_addr", _twice(plan.local_pods, is_v6=True)),
        _set("guarded4", "ipv4_addr", (each for each in plan.guarded if not _is_v6(each))),
        _set("guarded6", "ipv6_addr", (each for each in plan.guarded if _is_v6(each))),
        *(_chain(_spread_name(count), _spread_rules(count)) for count in spreads(plan)),
    ]
    return _table(ROUTING_NAME, [*parts, *_ROUTING_CHAINS])


def render_routing_change(change: RoutingChange) -> str:
    """One transaction; empty when only conntrack entries go. A refused edit means: replace the table."""
    if isinstance(change, ReplaceRouting):
        return render_routing(change.plan)
    return "".join(f"{line}\n" for line in _edit_routing(change))


def _capture_out(plan: CapturePlan) -> str:
    to_mesh = ["ip daddr @mesh4 goto sniffed", "ip6 daddr @mesh6 goto sniffed"]
    to_raw = ["ip daddr . tcp dport @raw4 goto raw", "ip6 daddr . tcp dport @raw6 goto raw"]
    proxy_port_only = [f"tcp dport != {PROXY_PORT} return", *to_mesh]
    return _chain(
        "out",
        [
            "type route hook output priority mangle; policy accept;",
            "meta l4proto != tcp return",
            'oifname "lo" return',
            f"meta mark & 0xff == {PROXY_MARK:#x} return",
            "ct direction reply return",
            f"ct mark & {_RAW:#x} == {_RAW:#x} meta mark set meta mark or {_RAW:#x} return",
            f"ct mark & {_RAW:#x} == {_SNIFFED:#x} meta mark set meta mark or {_SNIFFED:#x} return",
            "tcp flags & (fin | syn | rst | ack) != syn return",
            "tcp dport @exempt_ports return",
            "ip daddr @exempt4 return",
            "ip6 daddr @exempt6 return",
            *([*to_raw, *to_mesh, "goto raw"] if plan.captures_all else proxy_port_only),
        ],
    )


def _edit_sets(verb: str, sets: MeshSets) -> list[str]:
    elements = (
        ("mesh4", sorted(sets.mesh4)),
        ("mesh6", sorted(sets.mesh6)),
        ("raw4", _pairs(sets.raw4)),
        ("raw6", _pairs(sets.raw6)),
    )
    return [f"{_elements(verb, CAPTURE_NAME, name, each)}\n" for name, each in elements if each]


def _edit_routing(edit: EditRouting) -> list[str]:
    """Verdicts go before what they point to, and come after it."""
    lines: list[str] = []
    for count in edit.spreads_added:
        lines += [f"add chain inet {ROUTING_NAME} {_spread_name(count)}"]
        lines += [f"add rule inet {ROUTING_NAME} {_spread_name(count)} {rule}" for rule in _spread_rules(count)]
    respread = [(old, new) for old, new in edit.changed if len(old.backends) != len(new.backends)]
    for route in (*edit.withdrawn, *(old for old, _ in respread)):
        lines.append(_elements("delete", ROUTING_NAME, _family_name("services", route), [_verdict(route)]))
    for old, new in (*((route, None) for route in edit.withdrawn), *edit.changed, *((None, r) for r in edit.added)):
        lines += _edit_slots(old, new)
    for route in (*(new for _, new in respread), *edit.added):
        lines.append(_elements("add", ROUTING_NAME, _family_name("services", route), [_verdict(route)]))
    for count in edit.spreads_removed:
        lines += [f"{verb} chain inet {ROUTING_NAME} {_spread_name(count)}" for verb in ("flush", "delete")]
    return lines + _edit_pods(edit)


def _edit_slots(old: ServiceRoute | None, new: ServiceRoute | None) -> list[str]:
    before = dict(enumerate(old.backends)) if old else {}
    after = dict(enumerate(new.backends)) if new else {}
    lines: list[str] = []
    for verb, route, have, lack in (("delete", old, before, after), ("add", new, after, before)):
        if route is None:
            continue
        slots = [_slot(route, index, backend) for index, backend in have.items() if lack.get(index) != backend]
        if slots:
            lines.append(_elements(verb, ROUTING_NAME, _family_name("backends", route), slots))
    return lines


def _edit_pods(edit: EditRouting) -> list[str]:
    lines: list[str] = []
    for is_v6, digit in ((False, 4), (True, 6)):
        for verb, local, guarded in (
            ("delete", edit.local_removed, edit.guarded_removed),
            ("add", edit.local_added, edit.guarded_added),
        ):
            if pairs := _twice(local, is_v6=is_v6):
                lines.append(_elements(verb, ROUTING_NAME, f"hairpin{digit}", pairs))
            if own := [address for address in guarded if _is_v6(address) == is_v6]:
                lines.append(_elements(verb, ROUTING_NAME, f"guarded{digit}", own))
    return lines


def _spread_rules(count: int) -> list[str]:
    """The slot travels in the conntrack mark: nft 1.0.6 refuses a new rule on a map whose key holds `numgen` itself."""
    return [
        f"ct mark set numgen random mod {count}",
        "dnat ip to ip daddr . meta l4proto . th dport . ct mark map @backends4",
        "dnat ip6 to ip6 daddr . meta l4proto . th dport . ct mark map @backends6",
    ]


def _spread_name(count: int) -> str:
    return f"spread{count}"


def _verdict(route: ServiceRoute) -> str:
    return f"{route.address} . {route.transport} . {route.port} : goto {_spread_name(len(route.backends))}"


def _all_slots(routes: Iterable[ServiceRoute]) -> list[str]:
    return [_slot(route, index, backend) for route in routes for index, backend in enumerate(route.backends)]


def _route_key(digit: int) -> str:
    return f"ipv{digit}_addr . inet_proto . inet_service"


def _slot(route: ServiceRoute, index: int, backend: Backend) -> str:
    return f"{route.address} . {route.transport} . {route.port} . {index} : {backend.address} . {backend.port}"


def _family_name(prefix: str, route: ServiceRoute) -> str:
    return f"{prefix}{6 if _is_v6(route.address) else 4}"


def _is_v6(address: str) -> bool:
    return ":" in address


def _pairs(pairs: Iterable[tuple[str, int]]) -> list[str]:
    return [f"{address} . {port}" for address, port in sorted(pairs)]


def _twice(addresses: Iterable[str], *, is_v6: bool) -> list[str]:
    return [f"{address} . {address}" for address in sorted(addresses) if _is_v6(address) == is_v6]


def _port_ranges(ranges: Iterable[tuple[int, int]]) -> list[str]:
    return [str(low) if low == high else f"{low}-{high}" for low, high in ranges]


def _table(name: str, parts: Iterable[str]) -> str:
    body = "".join(parts)
    return f"add table inet {name}\ndelete table inet {name}\ntable inet {name} {{\n{body}}}\n"


def _set(name: str, key: str, elements: Iterable[str], *, is_interval: bool = False) -> str:
    lines = [f"type {key}", *(["flags interval"] if is_interval else []), *_initial(elements)]
    return _block("set", name, lines)


def _map(name: str, key: str, value: str, elements: Iterable[str]) -> str:
    return _block("map", name, [f"type {key} : {value}", *_initial(elements)])


def _chain(name: str, rules: Iterable[str]) -> str:
    return _block("chain", name, rules)


def _block(kind: str, name: str, lines: Iterable[str]) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"  {kind} {name} {{\n{body}  }}\n"


def _initial(elements: Iterable[str]) -> list[str]:
    text = ",\n      ".join(sorted(elements))
    return [f"elements = {{\n      {text}\n    }}"] if text else []


def _elements(verb: str, table: str, name: str, elements: Iterable[str]) -> str:
    return f"{verb} element inet {table} {name} {{ {', '.join(elements)} }}"


def _keep(mark: int) -> list[str]:
    return [f"ct mark set ct mark or {mark:#x}", f"meta mark set meta mark or {mark:#x}"]


_CAPTURE_VERDICTS = (_chain("sniffed", _keep(_SNIFFED)), _chain("raw", _keep(_RAW)))

_CAPTURE_PRE = _chain(
    "pre",
    [
        "type filter hook prerouting priority mangle; policy accept;",
        'iifname != "lo" return',
        f"meta mark & {_SNIFFED:#x} == 0 return",
        *(
            f"meta mark & {_RAW:#x} == {mark:#x} meta l4proto tcp tproxy {family} to :{port} accept"
            for mark, port in ((_SNIFFED, CAPTURE_PORT), (_RAW, CAPTURE_RAW_PORT))
            for family in ("ip", "ip6")
        ),
        "meta l4proto tcp reject with tcp reset",
    ],
)

_CAPTURE_IN = _chain(
    "in",
    [
        "type filter hook input priority filter; policy accept;",
        f'iifname != "lo" tcp dport {{ {CAPTURE_PORT}, {CAPTURE_RAW_PORT}, {PROXY_PORT} }} reject with tcp reset',
    ],
)
"""Whoever reached a capture listener from outside would speak with the pod's identity."""

_REFUSE_UNROUTED = ("ct state new ip daddr @refused4 goto refuse", "ct state new ip6 daddr @refused6 goto refuse")

_GUARD = f"iifname {_POD_LINKS} tcp flags & (fin | syn | rst | ack) == syn tcp dport != {INBOUND_PORT}"

_ROUTING_CHAINS = (
    _chain(
        "route",
        [
            "ip daddr . meta l4proto . th dport vmap @services4",
            "ip6 daddr . meta l4proto . th dport vmap @services6",
        ],
    ),
    _chain(
        "pre",
        ["type nat hook prerouting priority dstnat; policy accept;", "meta l4proto { tcp, udp } jump route"],
    ),
    _chain("out", ["type nat hook output priority -100; policy accept;", "meta l4proto { tcp, udp } jump route"]),
    _chain(
        "post",
        [
            "type nat hook postrouting priority srcnat; policy accept;",
            "ct status dnat ip saddr . ip daddr @hairpin4 masquerade",
            "ct status dnat ip6 saddr . ip6 daddr @hairpin6 masquerade",
        ],
    ),
    _chain("refuse", ["meta l4proto tcp reject with tcp reset", "reject with icmpx port-unreachable"]),
    _chain(
        "forward",
        [
            "type filter hook forward priority filter; policy accept;",
            *_REFUSE_UNROUTED,
            "ct status dnat accept",
            f"{_GUARD} ip daddr @guarded4 reject with tcp reset",
            f"{_GUARD} ip6 daddr @guarded6 reject with tcp reset",
        ],
    ),
    _chain("local", ["type filter hook output priority filter; policy accept;", *_REFUSE_UNROUTED]),
)
