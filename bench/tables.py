"""The route tables and snapshots: bytes and build times by services and by distinct port sets (shapes).

Compare with the architecture's targets: at 2,000 services of one shape ≤ 400 KB and ≤ 2 ms for a change.
"""

import time

import msgspec

from aether.model.facts import MeshConfig
from aether.model.names import ServiceId
from aether.model.ports import PortClass
from aether.plan.mesh.node import NodePlan
from aether.plan.mesh.services import ServicePort, ServiceView
from aether.render.envoy.names import CAPTURE_TABLE, PROXY_TABLE, ROUTE
from aether.render.envoy.snapshot import RenderCache, render_snapshot
from bench.figures import show

NAMESPACES = 40
SIZES = ((60, 1), (200, 1), (2_000, 1), (2_000, 50), (2_000, 2_000), (10_000, 1))
SMOKE_SIZES = ((20, 1), (20, 5))


def main(smoke: bool) -> None:  # noqa: FBT001
    for services, shapes in SMOKE_SIZES if smoke else SIZES:
        _measure(services, shapes)


def _measure(services: int, shapes: int) -> None:
    plan = NodePlan(
        node="bench", config=MeshConfig(), directory=tuple(sorted(_view(number, shapes) for number in range(services)))
    )
    cache = RenderCache()
    started = time.perf_counter()
    snapshot = render_snapshot(plan, cache=cache)
    cold_s = time.perf_counter() - started
    changes = [_time_change(plan, cache, number) for number in range(min(5, services))]
    tables = snapshot[ROUTE]
    show(
        f"{services} services, {shapes} shapes",
        capture_bytes=len(tables[CAPTURE_TABLE].body),
        proxy_bytes=len(tables[PROXY_TABLE].body),
        cold_ms=cold_s * 1000,
        change_ms=sorted(changes)[len(changes) // 2] * 1000,
    )


def _time_change(plan: NodePlan, cache: RenderCache, number: int) -> float:
    """Seconds to render after one service got another set of ports, from a warm cache."""
    changed = msgspec.structs.replace(plan.directory[number], ports=_ports(7_000), declared=_ports(7_000))
    directory = (*plan.directory[:number], changed, *plan.directory[number + 1 :])
    render_snapshot(plan, cache=cache)
    started = time.perf_counter()
    render_snapshot(msgspec.structs.replace(plan, directory=directory), cache=cache)
    return time.perf_counter() - started


def _view(number: int, shapes: int) -> ServiceView:
    ports = _ports(8_080 + number % shapes)
    return ServiceView(
        service=ServiceId(f"ns-{number % NAMESPACES}", f"service-{number}"),
        ports=ports,
        declared=ports,
        addresses=(f"10.96.{number // 250}.{number % 250 + 1}", f"fd96::{number + 0x100:x}"),
    )


def _ports(first: int) -> tuple[ServicePort, ...]:
    return tuple(ServicePort(number, PortClass.HTTP, number) for number in (first, first + 20_000))
