import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.pods import FastClock, PodBench, script
from tests.unit.control.world.bench import CONTAINER, StoreBench

from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.store import USER
from aether.adapters.objects.timestamps import format_time
from aether.control.loop import Loop
from aether.control.world.deployments import HASH_LABEL, Deployments, hash_template, make_pod
from aether.control.world.scheduler import Scheduler


def template(**annotations: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": annotations},
        "spec": {"containers": [CONTAINER], "terminationGracePeriodSeconds": 0},
    }


class DeployBench:
    """A Deployment `web`, its controller, and pods whose status the test writes."""

    def __init__(self, bench: StoreBench) -> None:
        self.bench = bench
        self.controller = Deployments(bench.store, bench.clock)

    async def apply(self, replicas: int, annotation: str = "one", **spec: Any) -> None:
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(version=annotation),
            **spec,
        }
        await self.bench.apply("Deployment", "web", "default", spec=spec)
        await self.controller.step()

    def pods(self) -> list[KubeObject]:
        return [pod for pod in self.bench.store.list("Pod")[0] if "deletionTimestamp" not in pod["metadata"]]

    def versions(self) -> list[str]:
        return sorted(pod["metadata"]["annotations"]["version"] for pod in self.pods())

    async def make_ready(self) -> None:
        since = format_time(self.bench.clock.wall())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        for pod in self.pods():
            if not pod.get("status"):
                await self.bench.say(pod["metadata"]["name"], conditions=[ready])
        await self.controller.step()

    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.bench.get("Deployment", "web")["status"]
        return status


@pytest.fixture
def deploy(bench: StoreBench) -> DeployBench:
    return DeployBench(bench)


async def test_a_deployment_makes_its_pods(deploy: DeployBench) -> None:
    await deploy.apply(2)
    first, second = deploy.pods()
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert first["metadata"]["name"].startswith(f"web-{hash_template(template(version='one'))}-")
    assert first["metadata"]["labels"] == {"app": "web", HASH_LABEL: hash_template(template(version="one"))}
    assert first["spec"] == template()["spec"]
    (owner,) = first["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Deployment", "web", True)


async def test_it_makes_what_is_missing_and_ends_what_is_too_much(deploy: DeployBench) -> None:
    await deploy.apply(2)
    await deploy.bench.store.delete(ObjectKey("Pod", "default", deploy.pods()[0]["metadata"]["name"]))
    await deploy.controller.step()
    assert len(deploy.pods()) == 2
    await deploy.apply(1)
    assert len(deploy.pods()) == 1
    await deploy.apply(3)
    assert len(deploy.pods()) == 3


async def test_a_new_template_rolls_out_pod_by_pod(deploy: DeployBench) -> None:
    await deploy.apply(2)
    await deploy.make_ready()
    await deploy.apply(2, "two")
    assert deploy.versions() == ["one", "one", "two"]
    await deploy.controller.step()
    assert deploy.versions() == ["one", "one", "two"]
    await deploy.make_ready()
    assert deploy.versions() == ["one", "two"]
    await deploy.controller.step()
    assert deploy.versions() == ["one", "two", "two"]
    await deploy.make_ready()
    assert deploy.versions() == ["two", "two"]


async def test_a_rollout_that_is_taken_back_ends_the_new_pods(deploy: DeployBench) -> None:
    await deploy.apply(2)
    await deploy.make_ready()
    await deploy.apply(2, "two")
    await deploy.apply(2, "one")
    assert deploy.versions() == ["one", "one"]


async def test_a_restart_annotation_rolls_everything(deploy: DeployBench) -> None:
    await deploy.apply(1)
    await deploy.make_ready()
    (before,) = deploy.pods()
    restarted = {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}
    await deploy.bench.apply("Deployment", "web", "default", manager="restart", spec=restarted)
    await deploy.controller.step()
    await deploy.make_ready()
    (after,) = deploy.pods()
    assert after["metadata"]["name"] != before["metadata"]["name"]


async def test_labels_of_the_deployment_itself_roll_nothing(deploy: DeployBench) -> None:
    await deploy.apply(1)
    await deploy.make_ready()
    before = deploy.pods()
    await deploy.bench.apply("Deployment", "web", "default", manager="other", metadata={"labels": {"a": "b"}})
    await deploy.controller.step()
    assert deploy.pods() == before


async def test_a_pod_counts_once_it_was_ready_for_long_enough(deploy: DeployBench) -> None:
    await deploy.apply(1, minReadySeconds=30)
    await deploy.make_ready()
    assert (deploy.status()["readyReplicas"], deploy.status()["availableReplicas"]) == (1, 0)
    deploy.bench.clock.advance(30)
    await deploy.controller.step()
    assert deploy.status()["availableReplicas"] == 1


async def test_the_status_says_how_far_it_is(deploy: DeployBench) -> None:
    await deploy.apply(2)
    await deploy.controller.step()
    status = deploy.status()
    assert (status["observedGeneration"], status["replicas"], status["updatedReplicas"]) == (1, 2, 2)
    assert (status["readyReplicas"], status["unavailableReplicas"]) == (0, 2)
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    assert conditions["Available"] == ("False", "MinimumReplicasUnavailable")
    assert conditions["Progressing"] == ("True", "ReplicaSetUpdated")
    await deploy.make_ready()
    conditions = {one["type"]: (one["status"], one["reason"]) for one in deploy.status()["conditions"]}
    assert conditions["Available"] == ("True", "MinimumReplicasAvailable")
    assert conditions["Progressing"] == ("True", "NewReplicaSetAvailable")


async def test_a_second_look_changes_nothing(deploy: DeployBench) -> None:
    await deploy.apply(2)
    await deploy.make_ready()
    revision = deploy.bench.store.list("Pod")[1]
    deploy.bench.clock.advance(100)
    await deploy.controller.step()
    assert deploy.bench.store.list("Pod")[1] == revision


async def test_pods_of_another_owner_are_not_ours(deploy: DeployBench) -> None:
    await deploy.bench.pod("stray", metadata={"labels": {"app": "web"}})
    await deploy.apply(1)
    assert len(deploy.pods()) == 2


async def test_why_pods_cannot_be_made_is_in_the_status(deploy: DeployBench) -> None:
    await deploy.bench.apply("Namespace", "shop")
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    await deploy.bench.apply("Deployment", "web", "shop", metadata={"finalizers": ["x/y"]}, spec=spec)
    await deploy.bench.pod("held", "shop", nodeName="n")
    live = deploy.bench.get("Deployment", "web", "shop")
    await deploy.bench.store.delete(ObjectKey("Namespace", "", "shop"))
    assert "deletionTimestamp" in deploy.bench.get("Deployment", "web", "shop")["metadata"]
    await deploy.controller.step()
    assert [pod["metadata"]["name"] for pod in deploy.bench.store.list("Pod", "shop")[0]] == ["held"]
    assert live["spec"] == spec


async def test_a_rollout_of_real_pods_always_has_enough_ready_ones(tmp_path: Path) -> None:
    clock = FastClock()
    pods = PodBench(tmp_path, clock)
    ready: list[int] = []

    async def step() -> None:
        await Deployments(pods.store, clock).step()
        await Scheduler(pods.store, clock).step()

    def look() -> None:
        conditions = [(pod.get("status") or {}).get("conditions", ()) for pod in pods.store.list("Pod")[0]]
        ready.append(sum(1 for each in conditions if {"Ready": "True"}.items() <= _by_type(each).items()))

    def apply(version: str) -> KubeObject:
        main = script('trap "exit 0" TERM; while :; do sleep 0.02; done', env=[{"name": "VERSION", "value": version}])
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [main]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    def is_rolled_out() -> bool:
        live = pods.store.get(ObjectKey("Deployment", "default", "web"))
        status = (live or {}).get("status") or {}
        wanted = {"updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}
        generation = (live or {})["metadata"]["generation"]
        return wanted.items() <= status.items() and status["observedGeneration"] == generation

    async with pods.running():
        loop = Loop("deployments", step, clock=clock)
        pods.store.subscribe(loop.wake, {"Deployment", "Pod"})
        async with asyncio.TaskGroup() as group:
            running = group.create_task(loop.run())
            await pods.store.apply(apply("one"), USER)
            await pods.until(is_rolled_out)
            pods.store.subscribe(look, {"Pod"})
            await pods.store.apply(apply("two"), USER)
            await pods.until(is_rolled_out)
            await pods.until(lambda: len(pods.store.list("Pod")[0]) == 2)
            running.cancel()
        versions = [pod["spec"]["containers"][0]["env"][0]["value"] for pod in pods.store.list("Pod")[0]]
    assert versions == ["two", "two"]
    assert min(ready) >= 2


def _by_type(conditions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in conditions}


def test_a_long_name_leaves_room_for_the_suffix() -> None:
    metadata = {"name": "a" * 253, "namespace": "shop", "uid": "u"}
    pod = make_pod({"metadata": metadata, "spec": {"template": template()}}, "0123456789", "abcde")
    assert len(pod["metadata"]["name"]) == 253
    assert pod["metadata"]["name"].endswith("-0123456789-abcde")


def test_a_hash_does_not_depend_on_the_order_of_fields() -> None:
    one = {"a": 1, "b": {"c": 2, "d": 3}}
    assert hash_template(one) == hash_template({"b": {"d": 3, "c": 2}, "a": 1})
    assert hash_template(one) != hash_template({"a": 1})
