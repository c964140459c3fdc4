"""What the agent's admin socket is answered from: the live plan and snapshot."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from aether.adapters.envoy.tally import AdsStatistics
from aether.control.agent.state import AgentState
from aether.model.facts import Rejection
from aether.model.names import ServiceId
from aether.model.world import AgentStatus, ExplainRequest, Explanation, NodeScope, ResourceVersion, ScopeEntry
from aether.plan.mesh.demand import wanted_services
from aether.plan.mesh.node import MeshCluster
from aether.plan.mesh.pods import declared_pods
from aether.render.envoy.json import resource_as_json
from aether.render.explain import SeenFailure, explain


class ProxyWord(Protocol):
    """What Envoy was told and took, as the ADS server counts it."""

    def statistics(self) -> AdsStatistics: ...

    def rejections(self) -> tuple[Rejection, ...]: ...


class AgentBackend:
    """Answers from what is in force now; changes nothing. `seen` tells what failed of late, the newest first."""

    def __init__(self, state: AgentState, ads: ProxyWord, *, seen: Callable[[], Iterable[SeenFailure]]) -> None:
        self._state = state
        self._ads = ads
        self._seen = seen

    def status(self) -> AgentStatus:
        statistics = self._ads.statistics()
        plan = self._state.plan
        return AgentStatus(
            node=self._state.node,
            is_control_connected=self._state.facts is not None,
            is_proxy_live=self._state.is_proxy_live,
            resources=sum(len(resources) for resources in self._state.snapshot.values()),
            acknowledged=sum(one.held for one in statistics.types),
            sent=sum(one.resources for one in statistics.types),
            rejections=tuple(f"{each.name}: {each.text}" for each in self._ads.rejections()),
            problems=plan.problems if plan is not None else (),
        )

    def scope(self) -> NodeScope:
        """The services whose clusters this node holds, and why."""
        plan, facts = self._state.plan, self._state.facts
        if plan is None or facts is None:
            return NodeScope(node=self._state.node, directory=0)
        names: dict[ServiceId, list[str]] = defaultdict(list)
        for cluster in self._state.clusters():
            if isinstance(cluster, MeshCluster):
                names[cluster.service].append(cluster.name)
        pods = declared_pods(facts)
        own = {pod.service for pod in pods}
        declared = wanted_services(pods) - own
        return NodeScope(
            node=self._state.node,
            directory=len(plan.directory),
            misses=self._state.misses,
            entries=tuple(
                ScopeEntry(
                    namespace=service.namespace,
                    name=service.name,
                    because="own" if service in own else "declared" if service in declared else "observed",
                    clusters=tuple(sorted(found)),
                )
                for service, found in sorted(names.items())
            ),
        )

    def resources(self) -> tuple[ResourceVersion, ...]:
        return tuple(
            sorted(
                ResourceVersion(type_url=type_url, name=name, version=resource.version)
                for type_url, by_name in self._state.snapshot.items()
                for name, resource in by_name.items()
            )
        )

    def resource(self, type_url: str, name: str) -> Any | None:
        resource = self._state.snapshot.get(type_url, {}).get(name)
        return resource_as_json(resource) if resource is not None else None

    def explain(self, request: ExplainRequest) -> Explanation:
        return explain(request, self._state.context, self._state.snapshot, seen=self._seen())
