"""What this node registers: one row for each of its served pods (spec sections 8 and 10)."""

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import LocalPod, NodeFacts
from aether.plan.mesh.pods import declared_pods


def plan_rows(facts: NodeFacts, *, healthy: frozenset[str]) -> tuple[EndpointRow, ...]:
    """The node's rows, sorted. `healthy` are the uids of pods that passed liveness and the inbound's readiness.

    A pod that is refused, or that declares no port, has no row; why is in the node plan's problems.
    """
    return tuple(
        sorted(
            EndpointRow(
                service=declared.service,
                pod=declared.pod.name,
                node=facts.node,
                address=declared.pod.addresses[0],
                addresses=declared.pod.addresses,
                ports=declared.declaration.ports,
                health=_health(declared.pod, healthy),
                weight=declared.declaration.weight,
            )
            for declared in declared_pods(facts)
            if declared.declaration.ports
        )
    )


def _health(pod: LocalPod, healthy: frozenset[str]) -> Health:
    if pod.is_terminating:
        return Health.DRAINING
    return Health.HEALTHY if pod.uid in healthy else Health.UNHEALTHY
