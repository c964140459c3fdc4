"""Which node a pod runs on: spread, within what the pod asks for.

A pod goes to the node that has the fewest pods of the same owner, then the fewest pods, then the first by name. What it
asks for: `spec.nodeName` (then there is nothing to decide) and `spec.nodeSelector`, by the nodes' labels.
"""

from collections.abc import Sequence

from aether.adapters.clock import Clock
from aether.adapters.objects.kinds import KubeObject, is_terminating, key_of, labels_of
from aether.adapters.objects.store import Conflict, NotFound, ObjectStore
from aether.adapters.objects.timestamps import format_time

MANAGER = "scheduler"
HOSTNAME_LABEL = "kubernetes.io/hostname"

_ENDED = frozenset({"Succeeded", "Failed"})


class Scheduler:
    """One step gives every waiting pod a node, or says in its status why it has none."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def step(self) -> None:
        nodes = self._store.list("Node")[0]
        names = {node["metadata"]["name"] for node in nodes}
        placed = [pod for pod in self._store.list("Pod")[0] if pod["spec"].get("nodeName") in names]
        for pod in self._store.list("Pod")[0]:
            if is_terminating(pod) or pod["spec"].get("nodeName") in names:
                continue
            why, node = _choose(pod, nodes, placed)
            try:
                if node:
                    await self._store.apply(_binding(pod, node), MANAGER)
                    placed.append({**pod, "spec": {**pod["spec"], "nodeName": node}})
                else:
                    await self._say(pod, why)
            except (NotFound, Conflict):
                continue  # it changed meanwhile, and woke us

    async def _say(self, pod: KubeObject, why: str) -> None:
        status = pod.get("status") or {}
        told = [item.get("message") for item in status.get("conditions", ()) if item["type"] == "PodScheduled"]
        if told == [why]:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": format_time(self._clock.wall()),
        }
        wanted = {**status, "phase": "Pending", "conditions": [condition]}
        await self._store.update_status(key_of(pod), wanted, uid=pod["metadata"]["uid"])


def _choose(pod: KubeObject, nodes: Sequence[KubeObject], placed: Sequence[KubeObject]) -> tuple[str, str]:
    """(why not, node): one of them is empty."""
    named = pod["spec"].get("nodeName")
    if named:
        return f"node {named!r} does not exist", ""
    if not nodes:
        return "there are no nodes", ""
    wanted = (pod["spec"].get("nodeSelector") or {}).items()
    fitting = [node for node in nodes if not is_terminating(node) and wanted <= _labels(node).items()]
    if not fitting:
        return f"no node has the labels {dict(wanted)}", ""
    owner = _owner(pod)
    live = [other for other in placed if (other.get("status") or {}).get("phase") not in _ENDED]

    def crowd(node: KubeObject) -> tuple[int, int, str]:
        name = node["metadata"]["name"]
        here = [other for other in live if other["spec"]["nodeName"] == name]
        return sum(1 for other in here if owner and _owner(other) == owner), len(here), name

    return "", min(crowd(node) for node in fitting)[2]


def _labels(node: KubeObject) -> dict[str, str]:
    return {HOSTNAME_LABEL: node["metadata"]["name"], **labels_of(node)}


def _owner(pod: KubeObject) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _binding(pod: KubeObject, node: str) -> KubeObject:
    metadata = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
        "spec": {"nodeName": node},
    }
