"""Decide one pod's capture: which of its TCP dials go to which capture listener (spec section 4, rulings B).

Owns: the sets a pod's rules read, the decision, and what changes from one plan to the next.
Leaves to others: the rules' text (`render.nft`), applying it (`adapters.kernel`).

Rule: `decide` and the rendered rules are one decision; a test compares them on the real kernel.
"""

import functools
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

import msgspec

from aether.model.annotations import Declaration
from aether.model.facts import LocalPod, MeshConfig
from aether.model.names import ServiceId
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT, PortClass
from aether.plan.mesh.node import DialledPod
from aether.plan.mesh.services import ServiceView

_NONE: frozenset[ServiceId] = frozenset()


class MeshSets(msgspec.Struct, frozen=True, kw_only=True):
    """What is the mesh's (rulings B.1), once per node: every pod's rules hold the same sets.

    `mesh4` and `mesh6` are the mesh addresses, `raw4` and `raw6` the (address, port) pairs declared raw TCP.
    """

    mesh4: frozenset[str] = frozenset()
    mesh6: frozenset[str] = frozenset()
    raw4: frozenset[tuple[str, int]] = frozenset()
    raw6: frozenset[tuple[str, int]] = frozenset()

    def __or__(self, other: "MeshSets") -> "MeshSets":
        return MeshSets(
            mesh4=self.mesh4 | other.mesh4,
            mesh6=self.mesh6 | other.mesh6,
            raw4=self.raw4 | other.raw4,
            raw6=self.raw6 | other.raw6,
        )

    def __sub__(self, other: "MeshSets") -> "MeshSets":
        return MeshSets(
            mesh4=self.mesh4 - other.mesh4,
            mesh6=self.mesh6 - other.mesh6,
            raw4=self.raw4 - other.raw4,
            raw6=self.raw6 - other.raw6,
        )

    def __bool__(self) -> bool:
        return bool(self.mesh4 or self.mesh6 or self.raw4 or self.raw6)


class CapturePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's capture.

    `captures_all` is redirect-all; without it only the proxy port at a mesh address is diverted (rulings B.6).
    `exempt_ports` and the ranges `exempt4` and `exempt6` (the DNS addresses among them) are sorted and do not overlap.
    `own` are the pod's own addresses, which the kernel never sends out of the pod.
    """

    captures_all: bool
    sets: MeshSets
    exempt_ports: tuple[tuple[int, int], ...] = ()
    exempt4: tuple[str, ...] = ()
    exempt6: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


CLOSED = CapturePlan(captures_all=True, sets=MeshSets())
"""Everything is captured: without listeners, everything is refused. For a pod whose declaration is not known yet."""


class ReplaceCapture(msgspec.Struct, frozen=True, tag=True):
    """The whole table, in one transaction."""

    plan: CapturePlan


class EditCapture(msgspec.Struct, frozen=True, tag=True):
    """Elements only: the rules stay. Acts on the next SYN."""

    add: MeshSets
    remove: MeshSets


CaptureChange = ReplaceCapture | EditCapture


def plan_mesh_sets(
    views: Iterable[ServiceView], dialled_pods: Iterable[DialledPod], *, with_tls_routes: frozenset[ServiceId] = _NONE
) -> MeshSets:
    """The sets of one node. Services `with_tls_routes` keep their raw-TCP ports out (rulings B.2)."""
    addresses: set[str] = set()
    pairs: set[tuple[str, int]] = set()
    for view in views:
        addresses.update(view.addresses, view.pod_addresses)
        if view.service not in with_tls_routes:
            raw = [port.number for port in view.ports if port.port_class is PortClass.TCP]
            pairs.update((address, number) for address in view.addresses for number in raw)
    for pod in dialled_pods:
        addresses.add(pod.address)
        pairs.update((pod.address, number) for number, port_class in pod.ports if port_class is PortClass.TCP)
    return MeshSets(
        mesh4=frozenset(address for address in addresses if ":" not in address),
        mesh6=frozenset(address for address in addresses if ":" in address),
        raw4=frozenset(pair for pair in pairs if ":" not in pair[0]),
        raw6=frozenset(pair for pair in pairs if ":" in pair[0]),
    )


def plan_capture(pod: LocalPod, declaration: Declaration, sets: MeshSets, config: MeshConfig) -> CapturePlan:
    """The capture of one managed pod."""
    exempt = [ip_network(text, strict=False) for text in (*declaration.excluded_ranges, *config.dns_addresses)]
    return CapturePlan(
        captures_all=declaration.is_captured,
        sets=sets,
        exempt_ports=_merge(declaration.excluded_ports),
        exempt4=_collapse4(exempt),
        exempt6=_collapse6(exempt),
        own=tuple(sorted(pod.addresses)),
    )


def decide(plan: CapturePlan, address: str, port: int) -> int | None:
    """Where a new TCP dial of the pod's applications goes: a capture listener's port, or None for straight ahead.

    `address` is in canonical text. The proxy's own dials carry its mark and are never captured.
    """
    if _stays_inside(plan, address) or _is_exempt(plan, address, port):
        return None
    is_mesh = address in plan.sets.mesh4 or address in plan.sets.mesh6
    if not plan.captures_all:
        return CAPTURE_PORT if is_mesh and port == PROXY_PORT else None
    is_raw = (address, port) in plan.sets.raw4 or (address, port) in plan.sets.raw6
    return CAPTURE_PORT if is_mesh and not is_raw else CAPTURE_RAW_PORT


def union(old: CapturePlan, new: CapturePlan) -> CapturePlan:
    """`new`, and everything `old` has in its sets besides.

    What is applied between the two: an element stands in the kernel before its port appears in the directory, and until
    after it has left (rulings B.3).
    """
    return msgspec.structs.replace(new, sets=old.sets | new.sets)


def diff_capture(old: CapturePlan | None, new: CapturePlan) -> CaptureChange | None:
    """What turns the table of `old` (None: no table) into `new`'s; None when nothing does."""
    if old is None or msgspec.structs.replace(old, sets=new.sets) != new:
        return ReplaceCapture(new)
    edit = EditCapture(add=new.sets - old.sets, remove=old.sets - new.sets)
    return edit if edit.add or edit.remove else None


def _stays_inside(plan: CapturePlan, address: str) -> bool:
    parsed = ip_address(address)
    return parsed.is_loopback or parsed.is_unspecified or address in plan.own


def _is_exempt(plan: CapturePlan, address: str, port: int) -> bool:
    if any(low <= port <= high for low, high in plan.exempt_ports):
        return True
    parsed = ip_address(address)
    return any(parsed in _network(text) for text in (*plan.exempt4, *plan.exempt6))


@functools.lru_cache(maxsize=256)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _collapse4(networks: Iterable[IPv4Network | IPv6Network]) -> tuple[str, ...]:
    return tuple(str(each) for each in collapse_addresses(each for each in networks if isinstance(each, IPv4Network)))


def _collapse6(networks: Iterable[IPv4Network | IPv6Network]) -> tuple[str, ...]:
    return tuple(str(each) for each in collapse_addresses(each for each in networks if isinstance(each, IPv6Network)))
