from typing import Any

import msgspec

from aether.cli.world.readiness import SETTLED_S, Readiness, next_commands, phases_of
from aether.model.world import NodeStatus, PodProblem, PortStatus, ServiceStatus, WorldStatus


def status(*, agents: int = 1, proxies: int = 1, ready: int = 2, healthy: int = 2, **more: Any) -> WorldStatus:
    """One node, two pods wanted, one service."""
    node = NodeStatus(name="n1", is_agent_connected=bool(agents), is_proxy_live=bool(proxies), pods_ready=ready, pods=2)
    service = ServiceStatus(
        namespace="shop",
        name="cart",
        ports=(PortStatus(number=80, port_class="http", target=80),),
        addresses=(),
        healthy=healthy,
        endpoints=2,
    )
    fields: dict[str, Any] = {"services": (service,)} | more
    return WorldStatus(
        world="w", version="1", mesh_domain="d", pods_wanted=2, endpoints_wanted=2, nodes=(node,), **fields
    )


def test_phases_are_said_once_and_in_order() -> None:
    readiness = Readiness(timeout_s=60, now=0)
    readiness.observe(status(proxies=0), now=1)
    assert list(readiness.newly_done()) == ["nodes 1/1"]
    assert readiness.waiting_for == "envoy 0/1"
    readiness.observe(status(), now=2)
    assert list(readiness.newly_done()) == ["envoy 1/1", "pods ready 2/2", "endpoints healthy 2/2"]
    assert readiness.is_over
    assert readiness.unfinished(status()) == ()


def test_waiting_ends_when_nothing_moves_any_more() -> None:
    readiness = Readiness(timeout_s=600, now=0)
    stuck = status(ready=1, healthy=1, pod_problems=(PodProblem(namespace="shop", name="web", reason="no command"),))
    readiness.observe(stuck, now=1)
    readiness.observe(stuck, now=1 + SETTLED_S - 0.1)
    assert not readiness.is_over
    readiness.observe(stuck, now=1 + SETTLED_S)
    assert readiness.is_over
    assert readiness.unfinished(stuck) == (
        "not everything is ready: pods ready 1/2, endpoints healthy 1/2",
        "pod shop/web: no command",
    )


def test_waiting_ends_when_the_time_is_up() -> None:
    readiness = Readiness(timeout_s=5, now=0)
    for second in range(6):
        readiness.observe(status(ready=second % 2), now=second)
    assert readiness.is_over


def test_an_empty_world_is_ready_with_its_nodes() -> None:
    empty = msgspec.structs.replace(status(), services=(), pods_wanted=0, endpoints_wanted=0)
    assert all(phase.is_done for phase in phases_of(empty))


def test_the_next_commands_name_what_exists() -> None:
    assert next_commands(status(), world="default") == (
        "aether status",
        "aether explain shop/cart http://cart.shop:80/",
        "aether exec shop/cart -- curl -s http://cart.shop:80/",
    )
    assert "--world x" in next_commands(status(healthy=0), world="x")[2]
