"""The ServiceAccount `default` that every namespace has."""

from aether.adapters.objects.kinds import ObjectKey, is_terminating
from aether.adapters.objects.manifests import DEFAULT_ACCOUNT
from aether.adapters.objects.store import Conflict, NotFound, ObjectStore

MANAGER = "account-controller"


class DefaultAccounts:
    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    async def step(self) -> None:
        for namespace in self._store.list("Namespace")[0]:
            name = namespace["metadata"]["name"]
            if is_terminating(namespace) or self._store.get(ObjectKey("ServiceAccount", name, DEFAULT_ACCOUNT)):
                continue
            account = {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": DEFAULT_ACCOUNT, "namespace": name},
            }
            try:
                await self._store.apply(account, MANAGER)
            except (NotFound, Conflict):
                continue  # the namespace is going
