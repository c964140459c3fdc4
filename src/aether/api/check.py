"""The checks of a running world: what must be true, one fact each, with what to do when it is not.

The command line adds what can be seen from outside only: the host and the world's socket.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aether.adapters.objects.kinds import is_terminating
from aether.api.backend import WorldFacts
from aether.api.lookup import is_ready
from aether.api.status import is_of_mesh, why_not_ready
from aether.errors import Diagnostic
from aether.model.world import Check, CheckSection, CheckVerdict, NodeStatus, ServiceStatus, WorldStatus

Pod = Mapping[str, Any]


def world_checks(status: WorldStatus, facts: WorldFacts, pods: Sequence[Pod]) -> tuple[CheckSection, ...]:
    """Sections for nodes, pods, services and declarations. A section without facts is left out."""
    sections = (
        CheckSection(title="nodes", checks=tuple(check for node in status.nodes for check in _node_checks(node))),
        CheckSection(title="pods", checks=_pod_checks(pods)),
        CheckSection(title="capture", checks=_capture_checks(facts, pods)),
        CheckSection(title="services", checks=tuple(_service_check(service) for service in status.services)),
        CheckSection(title="declarations", checks=_problem_checks(status.problems)),
    )
    return tuple(section for section in sections if section.checks)


def _node_checks(node: NodeStatus) -> Iterable[Check]:
    yield _fact(
        f"{node.name}: the agent is connected",
        holds=node.is_agent_connected,
        why="it is not running, or cannot reach the control plane",
        advice=f"look at nodes/{node.name}/agent.log in the world's runtime directory",
    )
    yield _fact(
        f"{node.name}: Envoy is live",
        holds=node.is_proxy_live,
        why="it has not started, or ended and is being started again",
        advice=f"look at nodes/{node.name}/envoy.log in the world's runtime directory",
    )
    yield _fact(
        f"{node.name}: Envoy accepted every resource",
        holds=not node.rejections,
        why="; ".join(node.rejections),
        advice="everything else is served; report this with the text of Envoy: it is a defect of Aether",
    )


def _pod_checks(pods: Sequence[Pod]) -> tuple[Check, ...]:
    expected = [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded" and not is_terminating(pod)]
    ready = [pod for pod in expected if is_ready(pod)]
    checks = [Check(fact=f"{len(ready)} of {len(expected)} pods are ready")] if len(ready) == len(expected) else []
    for pod in expected:
        if not is_ready(pod):
            name = _name(pod)
            advice = f"aether describe pod {name}; aether logs {name}"
            checks.append(_fact(f"{name} is ready", holds=False, why=why_not_ready(pod), advice=advice))
    return tuple(checks) if expected else ()


def _capture_checks(facts: WorldFacts, pods: Sequence[Pod]) -> tuple[Check, ...]:
    """Whether every running pod that the mesh manages has its capture table and listeners."""
    captured = {uid for report in facts.reports for uid in report.captured}
    managed = [pod for pod in pods if is_of_mesh(pod, facts.config) and pod.get("status", {}).get("phase") == "Running"]
    missing = [_name(pod) for pod in managed if pod["metadata"].get("uid") not in captured]
    if not managed:
        return ()
    return (
        _fact(
            f"{len(managed) - len(missing)} of {len(managed)} running pods of the mesh are captured",
            holds=not missing,
            why=f"without their table or their listeners: {', '.join(missing)}",
            advice="the agent restores them; if this stays, look at its log",
        ),
    )


def _service_check(service: ServiceStatus) -> Check:
    """A service of which nothing is registered was scaled down or is leaving; its name is kept for a while."""
    name = f"{service.namespace}/{service.name}"
    if service.healthy:
        return Check(fact=f"{name} has {service.healthy} of {service.endpoints} endpoints healthy")
    advice = f"the pods of ServiceAccount {name}: aether get pods -n {service.namespace}"
    fact = f"{name} has a healthy endpoint"
    if not service.endpoints:
        return Check(fact=fact, verdict=CheckVerdict.WARNING, why="no endpoint is registered", advice=advice)
    return Check(fact=fact, verdict=CheckVerdict.FAILED, why="none of its endpoints is healthy", advice=advice)


def _problem_checks(problems: Iterable[Diagnostic]) -> tuple[Check, ...]:
    return tuple(
        Check(
            fact=": ".join(part for part in (problem.where, problem.subject, problem.field) if part) or problem.code,
            verdict=CheckVerdict.WARNING,
            why=problem.message,
            advice=f"docs/reference/errors.md has {problem.code}",
        )
        for problem in problems
    ) or (Check(fact="every declaration was understood"),)


def _fact(fact: str, *, holds: bool, why: str, advice: str) -> Check:
    return Check(fact=fact) if holds else Check(fact=fact, verdict=CheckVerdict.FAILED, why=why, advice=advice)


def _name(pod: Pod) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
