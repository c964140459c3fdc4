"""Pods as real processes: the order of things. Clean beginnings and ends of objects: test_runner.py."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.support.pods import FastClock, PodBench, script, until

from aether.adapters.objects.kinds import KubeObject
from aether.adapters.objects.store import USER

FOREVER = 'trap "exit 0" TERM; echo up; while :; do sleep 0.02; done'


def bench(folder: Path) -> AbstractAsyncContextManager[PodBench]:
    return PodBench(folder, FastClock()).running()


def config_map(**data: str) -> KubeObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": data}


async def test_no_process_starts_before_the_capture_is_in_place(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.captured.clear()
        uid = await one.apply("p", [script(FOREVER)], initContainers=[script("true", "first")])
        await one.until(lambda: one.condition("p", "PodReadyToStartContainers").get("message"))
        assert one.condition("p", "PodReadyToStartContainers")["message"] == "the pod's capture is not in place yet"
        assert one.status("p")["podIPs"] == [{"ip": "127.0.0.1"}]
        assert dict(one.runner.sandboxes()) == {uid: ""}
        assert one.status("p")["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
        one.captured.set()
        await one.until_ready("p")
        assert one.status("p")["phase"] == "Running"


async def test_init_containers_run_one_after_the_other_before_the_others(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    async with bench(tmp_path) as one:
        inits = [script(f"echo {name} >> {trace}", name) for name in ("one", "two")]
        await one.apply("p", [script(f"echo main >> {trace}")], initContainers=inits, restartPolicy="Never")
        await one.until_phase("p", "Succeeded")
        assert lines_of(trace) == ["one", "two", "main"]


async def test_an_init_container_is_tried_again_until_it_succeeds(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    async with bench(tmp_path) as one:
        first = script(f"test -e {flag} || {{ touch {flag}; exit 1; }}", "first")
        await one.apply("p", [script("true")], initContainers=[first], restartPolicy="OnFailure")
        await one.until_phase("p", "Succeeded")
        assert one.status("p")["initContainerStatuses"][0]["restartCount"] == 1


async def test_an_init_container_that_fails_for_good_fails_the_pod(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script("true")], initContainers=[script("exit 3", "first")], restartPolicy="Never")
        await one.until_phase("p", "Failed")
        assert one.status("p")["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
        assert one.log(uid) == ""


async def test_a_sidecar_starts_before_and_ends_after_the_others(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    side = script(
        f'trap "echo side ends >> {trace}; exit 0" TERM; echo side >> {trace}; while :; do sleep 0.02; done',
        "side",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-e", str(trace)]}, "periodSeconds": 1},
    )
    async with bench(tmp_path) as one:
        await one.apply("p", [script(f"echo main >> {trace}")], initContainers=[side], restartPolicy="Never")
        await one.until_phase("p", "Succeeded")
        await until(lambda: "side ends" in lines_of(trace))
        assert lines_of(trace) == ["side", "main", "side ends"]


async def test_a_pod_succeeds_or_fails_as_its_containers_do(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await one.apply("good", [script("true"), script("exit 0", "b")], restartPolicy="Never")
        await one.apply("bad", [script("true"), script("exit 2", "b")], restartPolicy="Never")
        await one.until_phase("good", "Succeeded")
        await one.until_phase("bad", "Failed")
        await one.until(lambda: not one.runner.sandboxes())
        assert not one.network.pods


async def test_arguments_and_variables_are_expanded(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        env = [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        container = {"name": "main", "image": "host", "command": ["echo"], "args": ["$(WHO)", "$$(WHO)"], "env": env}
        uid = await one.apply("p", [container], restartPolicy="Never")
        await one.until_phase("p", "Succeeded")
        assert one.log(uid) == "p $(WHO)\n"


async def test_a_config_map_that_comes_later_lets_the_pod_go_on(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        volumes = [{"name": "v", "configMap": {"name": "conf"}}]
        uid = await one.apply("p", [script("true")], volumes=volumes, restartPolicy="Never")
        await one.until(lambda: one.condition("p", "PodReadyToStartContainers").get("message"))
        assert one.condition("p", "PodReadyToStartContainers")["message"] == 'FailedMount: configmap "conf" not found'
        await one.store.apply(config_map(key="text"), USER)
        await one.until_phase("p", "Succeeded")
        assert content(tmp_path / "pods" / uid / "volumes" / "v" / "key") == "text"


async def test_files_of_a_config_map_change_while_the_pod_runs(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await one.store.apply(config_map(key="old"), USER)
        uid = await one.apply("p", [script(FOREVER)], volumes=[{"name": "v", "configMap": {"name": "conf"}}])
        await one.until_ready("p")
        await one.store.apply(config_map(key="new"), USER)
        path = tmp_path / "pods" / uid / "volumes" / "v" / "key"
        await until(lambda: content(path) == "new")


async def test_a_missing_config_map_for_the_environment_is_said_at_the_container(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        container = script("true", envFrom=[{"configMapRef": {"name": "conf"}}])
        await one.apply("p", [container], restartPolicy="Never")
        expected = {"reason": "CreateContainerConfigError", "message": 'configmap "conf" not found'}
        await one.until(lambda: one.status("p").get("containerStatuses") and waiting(one) == expected)
        await one.store.apply(config_map(), USER)
        await one.until_phase("p", "Succeeded")


async def test_a_sandbox_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.network.failures.append(OSError(28, "No space left on device"))
        await one.apply("p", [script("true")], restartPolicy="Never")
        await one.until(lambda: "FailedCreatePodSandBox" in str(one.status("p")))
        await one.until_phase("p", "Succeeded")


async def test_a_port_that_is_taken_shows_in_the_applications_own_words(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        serve = f"import socket; socket.create_server(('127.0.0.1', {port}))"
        await one.apply("p", [{"name": "main", "image": "host", "command": ["python3", "-c", serve]}])
        await one.until(lambda: one.status("p").get("containerStatuses") and one.container("p")["restartCount"] >= 1)
        taken.close()
        last = one.container("p")["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"]) == (1, "Error")
        assert "OSError: [Errno 98] Address already in use" in last["message"]


def waiting(one: PodBench) -> Any:
    return one.container("p")["state"].get("waiting", {})


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def content(path: Path) -> str:
    return path.read_text()
