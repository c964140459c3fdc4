"""The pod runner: every pod of the store that has a node, run on this machine.

Owns: which pods run, and when their objects are really gone. Leaves to others: the pod itself (`pod`).
"""

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

import structlog

from aether.adapters.objects.kinds import KubeObject, ObjectKey, is_terminating, key_of
from aether.adapters.objects.store import Conflict, NotFound
from aether.adapters.pods.launcher import ContainerProcess
from aether.adapters.pods.parts import RunnerParts
from aether.adapters.pods.pod import PodWorker
from aether.adapters.pods.waiting import Signal
from aether.errors import AetherError
from aether.model.kube_parse import parse_pod

log = structlog.get_logger()

_ENDED_PHASES = frozenset({"Succeeded", "Failed"})


class NotRunning(AetherError):
    code = "not-running"


class PodRunner:
    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts
        self._workers: dict[str, PodWorker] = {}
        self._woken = Signal()
        self._is_stopping = False
        self._directories: set[str] = set()

    async def run(self) -> None:
        """Run pods until cancelled; then every process of theirs is gone."""
        self._directories |= await asyncio.to_thread(_names_in, self._parts.settings.directory)
        cancel = self._parts.store.subscribe(self._woken.fire, {"Pod", "Node"})
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    woken = self._woken.next()
                    await self._look(group)
                    await woken.wait()
        finally:
            cancel()

    async def stop(self, grace_s: float) -> None:
        """Terminate every pod, orderly, within `grace_s`; no more are started. The objects stay as they are."""
        self._is_stopping = True
        while self._workers:
            woken = self._woken.next()
            for worker in self._workers.values():
                worker.stop(grace_s)
            await woken.wait()

    def sandboxes(self) -> Mapping[str, str]:
        """The paths of the pods' network namespaces by uid. The store is written to after every change of it."""
        return {uid: worker.netns for uid, worker in self._workers.items() if worker.netns is not None}

    def log_path(self, uid: str, container: str) -> Path:
        """Where the container's output is; an older part of it beside, with `.1` after the name."""
        return self._parts.settings.directory / uid / f"{container}.log"

    async def execute(
        self, uid: str, container: str, argv: tuple[str, ...], stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> ContainerProcess:
        """Start a command in a running container ("" for the first), with its environment and `env`.

        Raises:
            NotRunning: there is no such pod or container, or it does not run now.
            CannotStart: the command does not start.
        """
        pod = self._workers.get(uid)
        worker = pod.worker(container) if pod is not None else None
        if worker is None:
            raise NotRunning(f"container {container!r} does not exist" if pod is not None else "the pod does not run")
        process = await worker.execute(argv, stdio, dict(env))
        if process is None:
            raise NotRunning(f"container {worker.name!r} does not run now")
        return process

    async def _look(self, group: asyncio.TaskGroup) -> None:
        live = {pod["metadata"]["uid"]: pod for pod in self._parts.store.list("Pod")[0]}
        for uid, worker in self._workers.items():
            if uid not in live:
                worker.stop(0)
            elif is_terminating(live[uid]):
                worker.stop(live[uid]["metadata"]["deletionGracePeriodSeconds"])
        for uid, pod in live.items():
            if uid not in self._workers and self._is_ours(pod):
                if is_terminating(pod):
                    await self._forget(key_of(pod), uid)
                elif (pod.get("status") or {}).get("phase") not in _ENDED_PHASES and not self._is_stopping:
                    self._start(pod, uid, group)
        for uid in self._directories - live.keys() - self._workers.keys():
            self._directories.discard(uid)
            await asyncio.to_thread(shutil.rmtree, self._parts.settings.directory / uid, ignore_errors=True)

    def _is_ours(self, pod: KubeObject) -> bool:
        node = pod["spec"].get("nodeName")
        return bool(node) and self._parts.store.get(ObjectKey("Node", "", node)) is not None

    def _start(self, pod: KubeObject, uid: str, group: asyncio.TaskGroup) -> None:
        worker = PodWorker(parse_pod(pod), self._parts)
        self._workers[uid] = worker
        self._directories.add(uid)
        group.create_task(self._run(uid, worker))

    async def _run(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception as error:  # a defect of ours ends this pod, not the world
            log.exception("pod-failed", pod=str(worker.key))
            await self._say_failed(worker, error)
        finally:
            del self._workers[uid]
            self._woken.fire()

    async def _say_failed(self, worker: PodWorker, error: BaseException) -> None:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        status = {"phase": "Failed", "reason": "InternalError", "message": f"{type(error).__name__}: {error}"}
        try:
            await self._parts.store.update_status(worker.key, status, uid=worker.pod.meta.uid)
        except (NotFound, Conflict):
            return

    async def _forget(self, key: ObjectKey, uid: str) -> None:
        """The pod is really gone: so is its object, now."""
        try:
            await self._parts.store.delete(key, grace_s=0, uid=uid)
        except (NotFound, Conflict):
            return


def _names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()} if directory.is_dir() else set()
