"""How far a starting world is: phases in order, and when waiting for more is useless.

Pure: status and time come in, words come out.
"""

from collections.abc import Iterator, Sequence

import msgspec

from aether.model.world import ServiceStatus, WorldStatus

SETTLED_S = 15.0
"""Nothing became ready for so long: what is not ready now waits for somebody. Longer than a first restart waits."""


class Phase(msgspec.Struct, frozen=True):
    """One thing that is waited for, `done` of `total`."""

    name: str
    done: int
    total: int

    @property
    def is_done(self) -> bool:
        return self.done >= self.total

    def __str__(self) -> str:
        return f"{self.name} {self.done}/{self.total}"


def phases_of(status: WorldStatus) -> tuple[Phase, ...]:
    """Agents, proxies, pods, endpoints: in the order in which they come."""
    nodes = len(status.nodes)
    return (
        Phase("nodes", sum(node.is_agent_connected for node in status.nodes), nodes),
        Phase("envoy", sum(node.is_proxy_live for node in status.nodes), nodes),
        Phase("pods ready", status.pods_ready, status.pods_wanted),
        Phase("endpoints healthy", sum(service.healthy for service in status.services), status.endpoints_wanted),
    )


class Readiness:
    """Watches statuses until everything is ready, nothing has moved for `SETTLED_S`, or the time is up."""

    def __init__(self, *, timeout_s: float, now: float) -> None:
        self._deadline = now + timeout_s
        self._moved_at = now
        self._phases: tuple[Phase, ...] = ()
        self._said = 0
        self.is_over = False

    def observe(self, status: WorldStatus, *, now: float) -> None:
        phases = phases_of(status)
        if phases != self._phases:
            self._moved_at = now
        self._phases = phases
        is_ready = all(phase.is_done for phase in phases)
        self.is_over = is_ready or now >= self._deadline or now - self._moved_at >= SETTLED_S

    def newly_done(self) -> Iterator[str]:
        """Phases that are done and were not said to be, as long as all before them are."""
        while self._said < len(self._phases) and self._phases[self._said].is_done:
            yield str(self._phases[self._said])
            self._said += 1

    @property
    def waiting_for(self) -> str:
        return ", ".join(str(phase) for phase in self._phases if not phase.is_done)

    def unfinished(self, status: WorldStatus) -> tuple[str, ...]:
        """What is not ready, and why as far as is known; empty if everything is."""
        missing = [str(phase) for phase in self._phases if not phase.is_done]
        if not missing:
            return ()
        return (
            f"not everything is ready: {', '.join(missing)}",
            *(f"pod {pod.namespace}/{pod.name}: {pod.reason}" for pod in status.pod_problems),
            *(str(problem) for problem in status.problems),
        )


def next_commands(status: WorldStatus, *, world: str) -> Sequence[str]:
    """Three commands worth trying, with names that exist here."""
    option = "" if world == "default" else f" --world {world}"
    candidates = [service for service in status.services if service.healthy and _http_port(service)]
    if not candidates:
        return (f"aether status{option}", f"aether check{option}", f"aether apply -f DIR{option}")
    target = max(candidates, key=lambda service: service.healthy)
    port = _http_port(target)
    others = [each for each in candidates if each != target]
    caller = min(others or [target], key=lambda each: each.namespace != target.namespace)
    url = f"http://{target.name}.{target.namespace}:{port}/"
    return (
        f"aether status{option}",
        f"aether explain{option} {caller.namespace}/{caller.name} {url}",
        f"aether exec{option} {caller.namespace}/{caller.name} -- curl -s {url}",
    )


def _http_port(service: ServiceStatus) -> int | None:
    return next((port.number for port in service.ports if port.port_class == "http"), None)
