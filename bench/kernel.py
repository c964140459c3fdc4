"""What the kernel side costs: worlds, pods, capture tables, service routing. Needs root; touches nothing of the host.

Absolute times hold only side by side in one run.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from tests.netns.lab import Lab, LabNode, LabPod

from aether.adapters.kernel import links
from aether.adapters.kernel.conntrack import delete_udp_flows
from aether.adapters.kernel.nft import Nft
from aether.adapters.kernel.world import spawn_world, wait_world
from aether.model.ports import Transport
from aether.plan.capture import CLOSED, CapturePlan, MeshSets, diff_capture
from aether.plan.routing import Backend, RoutingPlan, ServiceRoute, UdpFlow, diff_routing
from aether.render.nft import CAPTURE_NAME, render_capture, render_capture_change, render_routing, render_routing_change
from bench.figures import once


def main(smoke: bool) -> None:  # noqa: FBT001
    """Print one figure a line. With `smoke`, sizes are tiny: it only shows that everything runs."""
    _bench_world(2 if smoke else 10)
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        node = lab.add_node(1)
        pod = _bench_pods(lab, node, 3 if smoke else 30)
        _bench_capture(lab.nft(pod.netns), services=30 if smoke else 3_000, pods=50 if smoke else 20_000)
        _bench_refusal(lab, pod, 20 if smoke else 500)
        _bench_routing(lab.nft(node.netns), services=20 if smoke else 5_000)
        _bench_conntrack(lab, node, pod, 20 if smoke else 1_500)


def _bench_world(rounds: int) -> None:
    def live() -> None:
        with tempfile.TemporaryDirectory() as folder:
            wait_world(spawn_world(("true",), name="bench", netns_dir=Path(folder)))

    _repeat("world: spawn, run `true`, end", rounds, live)


def _bench_pods(lab: Lab, node: LabNode, rounds: int) -> LabPod:
    pods: list[LabPod] = []
    _repeat("pod: namespace, link, addresses, routes, rules", rounds, lambda: pods.append(lab.add_pod(node)))

    def table() -> None:
        with lab.run(Nft, pods[0].netns) as nft:
            nft.apply(render_capture(CLOSED))

    _repeat("pod: a ruleset opened, the closed table, closed again", rounds, table)
    gone = iter(pods[1:])

    def remove() -> None:
        pod = next(gone)
        lab.run(links.remove_pod, node.netns, pod.netns, pod.uid)

    _repeat("pod: removed", rounds - 1, remove)
    return pods[0]


def _bench_capture(nft: Nft, *, services: int, pods: int) -> None:
    sets = MeshSets(
        mesh4=frozenset([*_addresses("10.96", services), *_addresses("10.244", pods)]),
        mesh6=frozenset([*_addresses6("fd96", services), *_addresses6("fd00:244", pods)]),
        raw4=frozenset((address, 9000) for address in _addresses("10.96", services // 10)),
        raw6=frozenset((address, 9000) for address in _addresses6("fd96", services // 10)),
    )
    small = CapturePlan(captures_all=True, sets=MeshSets(mesh4=frozenset(_addresses("10.96", 30))))
    _repeat("capture: whole table, 30 services", 50, lambda: nft.apply(render_capture(small)))
    plan = CapturePlan(captures_all=True, sets=sets)
    with once(f"capture: text of {services} services and {pods} pods, both families"):
        text = render_capture(plan)
    with once(f"capture: whole table, {services} services and {pods} pods ({len(text) >> 10} KiB)"):
        nft.apply(text)
    more = msgspec.structs.replace(plan, sets=sets | MeshSets(raw4=frozenset({("10.96.0.1", 9001)})))
    with once("capture: the difference of two such plans"):
        forth, back = diff_capture(plan, more), diff_capture(more, plan)
    assert forth is not None
    assert back is not None
    changes = [render_capture_change(forth), render_capture_change(back)]
    _repeat("capture: one element added and deleted", 50, lambda: _apply_all(nft, changes))
    _repeat("capture: a look whether the table is there", 50, lambda: nft.has_table("inet", CAPTURE_NAME))


def _bench_refusal(lab: Lab, pod: LabPod, rounds: int) -> None:
    def dial() -> None:
        with suppress(ConnectionRefusedError):
            lab.dial(pod.netns, "192.0.2.1", 80)

    _repeat("capture: a dial refused for want of a listener", rounds, dial)


def _bench_routing(nft: Nft, *, services: int) -> None:
    def route(address: str, count: int) -> ServiceRoute:
        backends = tuple(Backend(f"10.244.1.{number + 2}", 5300) for number in range(count))
        return ServiceRoute(address, Transport.UDP, 53, backends)

    routes = {address: route(address, 10) for address in _addresses("10.96", services)}
    plan = RoutingPlan(routes=tuple(sorted(routes.values())), refused=("10.96.0.0/16", "fd96::/112"))
    with once(f"routing: text of {services} services with 10 endpoints"):
        text = render_routing(plan)
    with once(f"routing: whole table ({len(text) >> 10} KiB)"):
        nft.apply(text)
    first = next(iter(routes))
    fewer = msgspec.structs.replace(plan, routes=tuple(sorted({**routes, first: route(first, 9)}.values())))
    with once("routing: the difference of two such plans"):
        forth, back = diff_routing(plan, fewer), diff_routing(fewer, plan)
    assert forth is not None
    assert back is not None
    changes = [render_routing_change(forth), render_routing_change(back)]
    _repeat("routing: one endpoint gone and back", 30, lambda: _apply_all(nft, changes))


def _bench_conntrack(lab: Lab, node: LabNode, pod: LabPod, flows: int) -> None:
    target = Backend(pod.v4, 5300)
    lab.nft(pod.netns).apply("delete table inet aether_capture")
    plan = RoutingPlan(routes=(ServiceRoute("10.96.0.1", Transport.UDP, 53, (target,)),), refused=("10.96.0.0/16",))
    lab.nft(node.netns).apply(render_routing(plan))
    sender = lab.bind_udp(pod.netns, pod.v4, 0)
    for number in range(flows):
        with lab.bind_udp(pod.netns, pod.v4, 20_000 + number) as sock:
            sock.sendto(b"x", ("10.96.0.1", 53))
    sender.close()
    with once(f"conntrack: {flows} flows of an endpoint deleted"):
        deleted = lab.run(delete_udp_flows, node.netns, [UdpFlow("10.96.0.1", 53, target)])
    sys.stdout.write(f"  {deleted} of {flows} deleted\n")


def _apply_all(nft: Nft, changes: list[str]) -> None:
    for change in changes:
        nft.apply(change)


def _addresses(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}.{number >> 8}.{number & 255}" for number in range(1, count + 1))


def _addresses6(prefix: str, count: int) -> Iterator[str]:
    return (f"{prefix}::{number:x}" for number in range(1, count + 1))


def _repeat(what: str, rounds: int, action: Callable[[], object]) -> None:
    times_ms = []
    for _ in range(rounds):
        began_s = time.perf_counter()
        action()
        times_ms.append((time.perf_counter() - began_s) * 1e3)
    sys.stdout.write(f"{what}: median {statistics.median(times_ms):.2f} ms, worst {max(times_ms):.2f} ms ({rounds}x)\n")


if __name__ == "__main__":
    main(smoke="--smoke" in sys.argv)
