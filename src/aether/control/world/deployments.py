"""The loop that makes and ends the pods of Deployments."""

import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.objects.kinds import KubeObject, ObjectKey, is_terminating, key_of
from aether.adapters.objects.store import Conflict, NotFound, ObjectStore
from aether.adapters.objects.timestamps import format_time, parse_time
from aether.control.world.rollout import Rollout, RolloutPod, plan_rollout
from aether.errors import AetherError
from aether.model.kube import Deployment
from aether.model.kube_parse import parse_deployment

MANAGER = "deployment-controller"
HASH_LABEL = "pod-template-hash"

_NAME_BYTES = 253
_SUFFIX_BYTES = 5


class Deployments:
    """One step moves every Deployment one step; pods that become ready wake it for the next."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def step(self) -> None:
        pods = self._store.list("Pod")[0]
        for object_ in self._store.list("Deployment")[0]:
            if not is_terminating(object_):
                await self._converge(object_, [pod for pod in pods if _is_owned(pod, object_)])

    async def _converge(self, object_: KubeObject, pods: Sequence[KubeObject]) -> None:
        deployment = parse_deployment(object_)
        template_hash = hash_template(object_["spec"]["template"])
        views = [self._view(pod, template_hash, deployment.min_ready_s) for pod in pods]
        rollout = plan_rollout(deployment, views)
        failure = await self._apply(object_, rollout, template_hash)
        await self._write_status(object_, deployment, views, failure)

    async def _apply(self, object_: KubeObject, rollout: Rollout, template_hash: str) -> str:
        """Why pods could not be made, "" if they could."""
        failure = ""
        for _ in range(rollout.create):
            try:
                await self._store.apply(make_pod(object_, template_hash, uuid.uuid4().hex[:_SUFFIX_BYTES]), MANAGER)
            except AetherError as error:
                failure = str(error)
        for name in rollout.delete:
            try:
                await self._store.delete(ObjectKey("Pod", object_["metadata"]["namespace"], name))
            except NotFound:
                continue
        return failure

    def _view(self, pod: KubeObject, template_hash: str, min_ready_s: int) -> RolloutPod:
        conditions = (pod.get("status") or {}).get("conditions") or ()
        ready = next((one for one in conditions if one["type"] == "Ready" and one["status"] == "True"), None)
        since = parse_time(ready["lastTransitionTime"]) if ready is not None else 0.0
        return RolloutPod(
            name=pod["metadata"]["name"],
            is_new=(pod["metadata"].get("labels") or {}).get(HASH_LABEL) == template_hash,
            is_ready=ready is not None,
            is_available=ready is not None and (not min_ready_s or self._clock.wall() - since >= min_ready_s),
            is_terminating=is_terminating(pod),
            born=pod["metadata"]["creationTimestamp"],
        )

    async def _write_status(
        self, object_: KubeObject, deployment: Deployment, views: Sequence[RolloutPod], failure: str
    ) -> None:
        live = [view for view in views if not view.is_terminating]
        available = sum(1 for view in live if view.is_available)
        updated = sum(1 for view in live if view.is_new)
        is_done = updated == available == len(live) == deployment.replicas
        progress = "NewReplicaSetAvailable" if is_done else "ReplicaSetUpdated"
        is_enough = available >= deployment.replicas
        verdicts = {
            "Available": (
                _spell(is_enough),
                "MinimumReplicasAvailable" if is_enough else "MinimumReplicasUnavailable",
                "",
            ),
            "Progressing": ("True", progress, ""),
            "ReplicaFailure": (_spell(failure), "FailedCreate" if failure else "PodsCreated", failure),
        }
        status = {
            "observedGeneration": deployment.meta.generation,
            "replicas": len(live),
            "updatedReplicas": updated,
            "readyReplicas": sum(1 for view in live if view.is_ready),
            "availableReplicas": available,
            "unavailableReplicas": max(0, deployment.replicas - available),
            "conditions": [self._condition(object_, name, *verdict) for name, verdict in verdicts.items()],
        }
        try:
            await self._store.update_status(key_of(object_), status, uid=object_["metadata"]["uid"])
        except (NotFound, Conflict):
            return  # it is gone

    def _condition(
        self,
        object_: KubeObject,
        name: str,
        status: str,
        reason: str,
        message: str,
    ) -> dict[str, str]:
        before = (object_.get("status") or {}).get("conditions") or ()
        same = next((one for one in before if one["type"] == name and one["status"] == status), None)
        since = same["lastTransitionTime"] if same is not None else format_time(self._clock.wall())
        return {"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def _spell(value: object) -> str:
    return "True" if value else "False"


def hash_template(template: KubeObject) -> str:
    """Ten letters that tell pod templates apart."""
    return hashlib.sha256(msgspec.json.encode(template, order="sorted")).hexdigest()[:10]


def make_pod(deployment: KubeObject, template_hash: str, suffix: str) -> KubeObject:
    """A pod of the Deployment's template, owned by it."""
    metadata = deployment["metadata"]
    template: dict[str, Any] = deployment["spec"]["template"]
    tail = f"-{template_hash}-{suffix}"
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {**(template["metadata"].get("labels") or {}), HASH_LABEL: template_hash}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": metadata["name"][: _NAME_BYTES - len(tail)].rstrip("-.") + tail,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": dict(template["metadata"].get("annotations") or {}),
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def _is_owned(pod: KubeObject, deployment: KubeObject) -> bool:
    uid = deployment["metadata"]["uid"]
    return any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
