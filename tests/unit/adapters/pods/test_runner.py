"""Which pods run, and when their objects are gone. Real processes of this machine."""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.support.pods import FastClock, PodBench, script, until

from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.pods.launcher import CannotStart
from aether.adapters.pods.runner import NotRunning

FOREVER = 'trap "exit 0" TERM; echo up; while :; do sleep 0.02; done'
STUBBORN = "trap '' TERM; echo up $$$$; while :; do sleep 0.02; done"


def bench(folder: Path) -> AbstractAsyncContextManager[PodBench]:
    return PodBench(folder, FastClock()).running()


def key(name: str) -> ObjectKey:
    return ObjectKey("Pod", "default", name)


async def test_a_pod_of_a_node_that_does_not_exist_is_left_alone(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        await one.apply("elsewhere", [script("true")], nodeName="node-9")
        await one.apply("here", [script("true")], restartPolicy="Never")
        await one.until_phase("here", "Succeeded")
        assert one.status("elsewhere") == {}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-9"}, "spec": {}}
        await one.store.apply(node, "test")
        await one.until(lambda: one.status("elsewhere"))


async def test_a_deleted_pod_ends_in_order_and_then_its_object_goes(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        hook = {"preStop": {"exec": {"command": ["sh", "-c", f"echo hook >> {tmp_path}/trace"]}}}
        ends = f'trap "echo term >> {tmp_path}/trace; exit 0" TERM; echo up; while :; do sleep 0.02; done'
        uid = await one.apply("p", [script(ends, lifecycle=hook)])
        await until(lambda: "up" in one.log(uid))
        await one.until_ready("p")
        await one.store.delete(key("p"))
        assert one.pod("p")["metadata"]["deletionGracePeriodSeconds"] == 30
        await one.until_gone("p")
        assert lines_of(tmp_path / "trace") == ["hook", "term"]
        assert not one.network.pods
        await until(lambda: not (tmp_path / "pods" / uid).exists())


async def test_a_pod_that_does_not_listen_is_gone_after_its_grace_period(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script(STUBBORN)], terminationGracePeriodSeconds=20)
        await until(lambda: "up" in one.log(uid))
        pid = int(one.log(uid).split()[1])
        await one.store.delete(key("p"))
        await one.until_gone("p")
        await until(lambda: not is_alive(pid))


async def test_a_pod_deleted_without_grace_is_killed(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script(STUBBORN)], terminationGracePeriodSeconds=3600)
        await until(lambda: "up" in one.log(uid))
        pid = int(one.log(uid).split()[1])
        await one.store.delete(key("p"), grace_s=0)
        assert one.store.get(key("p")) is None
        await until(lambda: not Path(f"/proc/{pid}").exists() and not one.network.pods)


async def test_a_second_delete_may_cut_the_grace_period_short(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script(STUBBORN)], terminationGracePeriodSeconds=36000)
        await until(lambda: "up" in one.log(uid))
        await one.store.delete(key("p"))
        await one.store.delete(key("p"), grace_s=1)
        await one.until_gone("p")


async def test_a_pod_that_waits_for_its_capture_can_be_deleted(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.captured.clear()
        await one.apply("p", [script(FOREVER)])
        await one.until(lambda: one.status("p").get("podIP"))
        await one.store.delete(key("p"))
        await one.until_gone("p")
        assert not one.network.pods


async def test_a_pod_that_waits_for_its_sandbox_can_be_deleted(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.network.failures += [OSError(28, "No space left on device")] * 10_000
        await one.apply("p", [script(FOREVER)])
        await one.until(lambda: "FailedCreatePodSandBox" in str(one.status("p")))
        await one.store.delete(key("p"))
        await one.until_gone("p")


async def test_a_pod_that_has_ended_is_not_run_again(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script("echo once")], restartPolicy="Never")
        await one.until_phase("p", "Succeeded")
        await one.until(lambda: not one.runner.sandboxes())
        await one.apply("q", [script("true")], restartPolicy="Never")
        await one.until_phase("q", "Succeeded")
        assert one.log(uid) == "once\n"
        await one.store.delete(key("p"))
        await until(lambda: not (tmp_path / "pods" / uid).exists())


async def test_a_pod_of_the_same_name_is_another_pod(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        first = await one.apply("p", [script(STUBBORN)])
        await until(lambda: "up" in one.log(first))
        await one.store.delete(key("p"), grace_s=0)
        second = await one.apply("p", [script(FOREVER)])
        await one.until_ready("p")
        assert first != second
        await until(lambda: set(one.runner.sandboxes()) == {second})


async def test_commands_run_in_a_pod_on_given_descriptors(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        env = [{"name": "WHO", "value": "cart"}]
        uid = await one.apply("p", [script(FOREVER, env=env), script(FOREVER, "other")])
        await one.until_ready("p")
        output, sink = os.pipe()
        process = await one.runner.execute(
            uid, "", ("sh", "-c", 'echo "$WHO $TERM"; exit 6'), (0, sink, sink), env={"TERM": "xterm"}
        )
        assert await process.wait() == 6
        assert os.read(output, 100) == b"cart xterm\n"
        process = await one.runner.execute(uid, "other", ("false",), (0, sink, sink), env={})
        assert await process.wait() == 1
        with pytest.raises(NotRunning, match="container 'none' does not exist"):
            await one.runner.execute(uid, "none", ("true",), (0, sink, sink), env={})
        with pytest.raises(NotRunning, match="the pod does not run"):
            await one.runner.execute("nobody", "", ("true",), (0, sink, sink), env={})
        with pytest.raises(CannotStart, match='exec: "foo": not found'):
            await one.runner.execute(uid, "", ("foo",), (0, sink, sink), env={})
        os.close(output)
        os.close(sink)


async def test_a_container_that_waits_takes_no_commands(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.captured.clear()
        uid = await one.apply("p", [script(FOREVER)])
        await one.until(lambda: one.status("p").get("podIP"))
        with pytest.raises(NotRunning, match="container 'main' does not run now"):
            await one.runner.execute(uid, "", ("true",), (0, 1, 2), env={})


async def test_stop_ends_every_pod_and_keeps_the_objects(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        for name in ("a", "b"):
            await one.apply(name, [script(FOREVER)])
            await one.until_ready(name)
        await one.runner.stop(30)
        assert not one.network.pods
        await one.apply("c", [script(FOREVER)])
        await one.until(lambda: True)
        assert one.status("c") == {}
        assert one.store.get(key("a")) is not None


async def test_a_runner_that_is_cancelled_leaves_no_process_and_no_sandbox(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        uid = await one.apply("p", [script(STUBBORN)])
        await until(lambda: "up" in one.log(uid))
        pid = int(one.log(uid).split()[1])
    await until(lambda: not is_alive(pid))
    assert not one.network.pods


async def test_a_defect_of_ours_fails_one_pod_and_not_the_others(tmp_path: Path) -> None:
    async with bench(tmp_path) as one:
        one.network.failures.append(ZeroDivisionError("a defect"))
        await one.apply("p", [script(FOREVER)])
        await one.until_phase("p", "Failed")
        assert one.status("p")["message"] == "ZeroDivisionError: a defect"
        await one.apply("q", [script(FOREVER)])
        await one.until_ready("q")


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_directories_of_pods_of_another_life_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "pods" / "old-uid"
    old.mkdir(parents=True)
    async with bench(tmp_path):
        await until(lambda: not old.exists())
