"""The status of a world, from what its control plane knows: what `aether status` prints and `aether up` waits for."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aether.adapters.objects.kinds import is_terminating
from aether.api.backend import WorldFacts
from aether.api.lookup import is_ready
from aether.model.annotations import is_managed
from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import MeshConfig, NodeReport
from aether.model.names import Domains, FullName, ServiceId, parse_authority, parse_name
from aether.model.world import NodeStatus, PodProblem, PortStatus, ReasonCount, ServiceStatus, WorldStatus
from aether.plan.mesh.services import ServiceView

Pod = Mapping[str, Any]
Deployment = Mapping[str, Any]


def world_status(
    name: str, version: str, facts: WorldFacts, pods: Sequence[Pod], deployments: Sequence[Deployment] = ()
) -> WorldStatus:
    """Everything, sorted by name. Refusals of names that are no known service's full name are in `other_refusals`."""
    wanted = _wanted_pods(pods, deployments)
    refusals = _refusals(facts.reports, facts.config.domains, {view.service for view in facts.views})
    return WorldStatus(
        world=name,
        version=version,
        mesh_domain=facts.config.domains.mesh,
        pods_wanted=sum(count for _, count in wanted),
        endpoints_wanted=sum(count for pod, count in wanted if is_of_mesh(pod, facts.config)),
        services=tuple(_service(view, facts.rows, refusals[view.service]) for view in sorted(facts.views)),
        nodes=tuple(_node(node, facts.reports, pods) for node in sorted(facts.nodes)),
        pod_problems=tuple(sorted(_pod_problem(pod) for pod in pods if not is_ready(pod) and not _is_done(pod))),
        problems=tuple(sorted({*facts.problems, *(p for report in facts.reports for p in report.problems)})),
        other_refusals=_reason_counts(refusals[None]),
    )


def why_not_ready(pod: Pod) -> str:
    """One line: what a pod that is not ready waits for, as far as its status tells."""
    if is_terminating(pod):
        return "terminating"
    status = pod.get("status", {})
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in ("waiting", "terminated"):
            detail = container.get("state", {}).get(state)
            if detail and detail.get("reason") not in {None, "Completed", "PodInitializing"}:
                before = container.get("lastState", {}).get("terminated") or {}
                words = (detail["reason"], _one_line(detail), _one_line(before))
                return ": ".join((f"container {container['name']}", *dict.fromkeys(word for word in words if word)))
    for condition in status.get("conditions", ()):
        if condition["status"] != "True" and condition.get("message"):
            return str(condition["message"])
    return str(status.get("message") or status.get("reason") or status.get("phase") or "Pending")


def _one_line(detail: Mapping[str, Any]) -> str:
    """What a container's state says: its first line, and its last, which are the container's own last words."""
    lines = str(detail.get("message") or "").splitlines()
    return ": ".join(dict.fromkeys((*lines[:1], *lines[-1:])))


def is_of_mesh(pod: Pod, config: MeshConfig) -> bool:
    """Whether the mesh manages the pod: its namespace is not ignored and its annotations do not say no."""
    metadata = pod["metadata"]
    return is_managed(metadata.get("annotations") or {}) and metadata["namespace"] not in config.ignored_namespaces


def _wanted_pods(pods: Iterable[Pod], deployments: Iterable[Deployment]) -> list[tuple[Pod, int]]:
    """Single pods, and Deployments' templates as pods, each with how many there should be."""
    singles = [(pod, 1) for pod in pods if not pod["metadata"].get("ownerReferences") and not _is_done(pod)]
    return singles + [_wanted_of(deployment) for deployment in deployments]


def _wanted_of(deployment: Deployment) -> tuple[Pod, int]:
    template = deployment["spec"]["template"]
    metadata = {**(template.get("metadata") or {}), "namespace": deployment["metadata"]["namespace"]}
    return {"metadata": metadata}, deployment["spec"].get("replicas", 1)


def _service(view: ServiceView, rows: Iterable[EndpointRow], refusals: Counter[str]) -> ServiceStatus:
    mine = [row for row in rows if row.service == view.service]
    return ServiceStatus(
        namespace=view.service.namespace,
        name=view.service.name,
        ports=tuple(PortStatus(number=p.number, port_class=p.port_class, target=p.target) for p in view.ports),
        addresses=view.addresses,
        healthy=sum(row.health is Health.HEALTHY for row in mine),
        endpoints=len(mine),
        refusals=_reason_counts(refusals),
        is_user_owned=view.is_user_owned,
        is_headless=view.is_headless,
    )


def _node(node: str, reports: Iterable[NodeReport], pods: Iterable[Pod]) -> NodeStatus:
    mine = [pod for pod in pods if pod.get("spec", {}).get("nodeName") == node and not _is_done(pod)]
    report = next((report for report in reports if report.node == node), None)
    return NodeStatus(
        name=node,
        is_agent_connected=report is not None,
        is_proxy_live=report is not None and report.is_proxy_live,
        pods_ready=sum(is_ready(pod) for pod in mine),
        pods=len(mine),
        problems=report.problems if report else (),
        rejections=tuple(f"{r.name}: {r.text}" for r in report.rejections) if report else (),
    )


def _pod_problem(pod: Pod) -> PodProblem:
    metadata = pod["metadata"]
    return PodProblem(namespace=metadata["namespace"], name=metadata["name"], reason=why_not_ready(pod))


def _is_done(pod: Pod) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Succeeded")


def _refusals(
    reports: Iterable[NodeReport], domains: Domains, services: set[ServiceId]
) -> defaultdict[ServiceId | None, Counter[str]]:
    counts: defaultdict[ServiceId | None, Counter[str]] = defaultdict(Counter)
    for report in reports:
        for refusal in report.refusals:
            name = parse_name(parse_authority(refusal.authority).host, domains)
            service = name.service if isinstance(name, FullName) and name.service in services else None
            counts[service][refusal.reason] += refusal.count
    return counts


def _reason_counts(counts: Counter[str]) -> tuple[ReasonCount, ...]:
    return tuple(ReasonCount(reason=reason, count=count) for reason, count in sorted(counts.items()))
