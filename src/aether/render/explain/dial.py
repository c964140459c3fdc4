"""Where a pod's connection goes before any proxy sees it: the name's address, then the pod's capture.

Owns: what the pod's resolver answers and what its capture table decides, in words.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import msgspec

from aether.model.facts import LocalPod
from aether.model.names import Domains
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT
from aether.model.world import ExplainStep
from aether.plan.capture import CapturePlan, decide, plan_capture, plan_mesh_sets
from aether.plan.mesh.clusters import MeshContext
from aether.plan.mesh.dns import ZoneName, plan_zone_in
from aether.plan.mesh.pods import declared_pods
from aether.render.explain.target import Target

ALIKE = 0.92
"""How alike two names are of which one may be a slip of the other: a letter or two of a full name."""
NDOTS = 5
"""Names with fewer dots go through the search list first (resolv.conf of a pod, as kubelet writes it)."""

LOOPBACK = "127.0.0.1"


class Dialled(msgspec.Struct, frozen=True, kw_only=True):
    """A connection on its way. `listener` is the port of the pod's listener that takes it, None: straight ahead."""

    address: str
    listener: int | None
    steps: tuple[ExplainStep, ...]


class Nowhere(msgspec.Struct, frozen=True, kw_only=True):
    """There is no address to dial. `is_outside`: the name is for other resolvers to answer."""

    steps: tuple[ExplainStep, ...]
    is_outside: bool


def dial(pod: LocalPod, target: Target, context: MeshContext) -> Dialled | Nowhere:
    """Resolve the target's host as the pod's resolver does, then decide as its capture table does."""
    found = _resolve(pod, target.host, context)
    if isinstance(found, Nowhere):
        return found
    address, steps = found
    listener, why = _capture(pod, address, target.port, context)
    says = f"{Target.__str__(msgspec.structs.replace(target, host=address))} {why}"
    return Dialled(address=address, listener=listener, steps=(*steps, ExplainStep(stage="capture", says=says)))


def dial_proxy(pod: LocalPod) -> Dialled:
    """A connection to the HTTP proxy port, which every managed pod has on its loopback address."""
    says = f"{LOOPBACK}:{PROXY_PORT}, the mesh's HTTP proxy port in {pod.namespace}/{pod.name}"
    return Dialled(address=LOOPBACK, listener=PROXY_PORT, steps=(ExplainStep(stage="proxy port", says=says),))


def candidates(host: str, namespace: str, domains: Domains) -> Sequence[str]:
    """The names that a pod's resolver asks for, in order (resolv.conf(5): search, ndots)."""
    name = host.lower()
    if name.endswith("."):
        return (name[:-1],)
    searched = [
        f"{name}.{end}" for end in (f"{namespace}.svc.{domains.cluster}", f"svc.{domains.cluster}", domains.cluster)
    ]
    return (*searched, name) if name.count(".") < NDOTS else (name, *searched)


def _resolve(pod: LocalPod, host: str, context: MeshContext) -> tuple[str, tuple[ExplainStep, ...]] | Nowhere:
    try:
        return str(ipaddress.ip_address(host)), ()
    except ValueError:
        if host == "localhost":
            return LOOPBACK, ()
    zone = plan_zone_in(context)
    by_name: Mapping[str, ZoneName] = {each.name: each for each in zone.names}
    asked = candidates(host, pod.namespace, context.facts.config.domains)
    for name in asked:
        if (found := by_name.get(name)) is not None:
            addresses = (*found.ipv4, *found.ipv6)
            if addresses:
                more = f" and {len(addresses) - 1} more" if len(addresses) > 1 else ""
                step = ExplainStep(stage="name", says=f"{name} has the address {addresses[0]}{more} (mesh DNS)")
                return addresses[0], (step,)
            says = f"{name} exists and has no address: its Service has none yet, or no endpoint"
            return Nowhere(steps=(ExplainStep(stage="name", says=says, is_ok=False),), is_outside=False)
        if "." in name and not any(name == domain or name.endswith(f".{domain}") for domain in zone.domains):
            says = f"{name} is not the mesh's: mesh DNS asks the host's resolver{_alike(asked, by_name)}"
            return Nowhere(steps=(ExplainStep(stage="name", says=says),), is_outside=True)
    says = f"mesh DNS knows no {host}{_alike(asked, by_name)}"
    return Nowhere(steps=(ExplainStep(stage="name", says=says, is_ok=False),), is_outside=False)


def _alike(asked: Iterable[str], known: Iterable[str]) -> str:
    """The known names that are spelled nearly like one that was asked for."""
    found = {name for one in asked for name in get_close_matches(one, known, n=1, cutoff=ALIKE)}
    return f"; it knows {' and '.join(sorted(found))}" if found else ""


def _capture(pod: LocalPod, address: str, port: int, context: MeshContext) -> tuple[int | None, str]:
    if (address, port) == (LOOPBACK, PROXY_PORT):
        return PROXY_PORT, "is the mesh's HTTP proxy port of this pod"
    declared = next((one for one in declared_pods(context.facts) if one.pod.uid == pod.uid), None)
    if declared is None:
        return None, "is not captured: this pod is not in the mesh"
    sets = plan_mesh_sets(context.services.views, context.dialled_pods)
    plan = plan_capture(pod, declared.declaration, sets, context.facts.config)
    listener = decide(plan, address, port)
    return listener, _why(plan, address, listener)


def _why(plan: CapturePlan, address: str, listener: int | None) -> str:
    if listener == CAPTURE_PORT:
        return f"is a mesh address: diverted to {CAPTURE_PORT}, where protocols are recognised"
    if listener == CAPTURE_RAW_PORT:
        is_mesh = address in plan.sets.mesh4 or address in plan.sets.mesh6
        what = "is a declared raw-TCP port of the mesh" if is_mesh else "is not a mesh address"
        return f"{what}: diverted to {CAPTURE_RAW_PORT}, whatever its bytes"
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or address in plan.own:
        return "stays inside the pod: never captured"
    if not plan.captures_all:
        return "is not captured: the pod says capture.aether.io/redirect-all: false"
    return "is not captured: the pod's annotations (or the DNS address) exclude it"
