"""The loop that keeps the generated Services as the registry says they should be."""

from aether.adapters.objects.kinds import ObjectKey, is_terminating
from aether.adapters.objects.store import Conflict, NotFound, ObjectStore
from aether.control.world.facts import Rows
from aether.errors import Diagnostic, Rejected
from aether.model.facts import MeshConfig
from aether.model.kube_parse import parse_service
from aether.model.names import ServiceId
from aether.plan.publish import PublishFacts, plan_publish
from aether.render.kube import render_service

MANAGER = "publisher"


class Publisher:
    """One step converges every generated Service; `problems` is what it has to say about those it could not."""

    def __init__(self, store: ObjectStore, registry: Rows, config: MeshConfig) -> None:
        self.problems: tuple[Diagnostic, ...] = ()
        self._store = store
        self._registry = registry
        self._config = config

    async def step(self) -> None:
        plan = plan_publish(self._observe())
        problems = list(plan.problems)
        for generated in plan.services:
            try:
                await self._store.apply(render_service(generated), MANAGER)
            except Rejected as rejected:
                problems += rejected.diagnostics
            except (NotFound, Conflict):
                continue  # its namespace is going
        for service in plan.surplus:
            try:
                await self._store.delete(ObjectKey("Service", service.namespace, service.name))
            except NotFound:
                continue
        self.problems = tuple(sorted(problems))

    def _observe(self) -> PublishFacts:
        accounts = self._store.list("ServiceAccount")[0]
        return PublishFacts(
            rows=self._registry.rows(),
            existing=tuple(parse_service(service) for service in self._store.list("Service")[0]),
            accounts=frozenset(ServiceId(one["metadata"]["namespace"], one["metadata"]["name"]) for one in accounts),
            namespaces=frozenset(
                namespace["metadata"]["name"]
                for namespace in self._store.list("Namespace")[0]
                if not is_terminating(namespace)
            ),
            ignored_namespaces=frozenset(self._config.ignored_namespaces),
        )
