"""One pod, from its sandbox to its end.

Owns: the order of things: addresses, sandbox, capture, init containers, containers; and backwards. Leaves to others:
each container's life (`container`), the object's (`runner`).

Rule: no process of a pod starts before its capture is in place.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.store import Conflict, NotFound
from aether.adapters.pods.container import ContainerParts, ContainerWorker
from aether.adapters.pods.deadline import Deadline
from aether.adapters.pods.environment import (
    ConfigMaps,
    MissingConfig,
    PodFiles,
    PodPlace,
    container_env,
    expand,
    host_name,
)
from aether.adapters.pods.launcher import ContainerOrder
from aether.adapters.pods.lifecycle import BackOff, restart_rule
from aether.adapters.pods.parts import RunnerParts
from aether.adapters.pods.probes import Target
from aether.adapters.pods.status import PodView, render_status
from aether.adapters.pods.waiting import Signal, first_of
from aether.errors import AetherError
from aether.model.kube import Container, Pod
from aether.model.kube_parse import parse_node

SANDBOX_RETRY_S = 5.0
"""Seconds before a sandbox that could not be made is tried again."""

log = structlog.get_logger()


class PodWorker:
    """`run` takes the pod through its whole life; `stop` ends it. `netns` is its sandbox's path while it has one."""

    def __init__(self, pod: Pod, parts: RunnerParts) -> None:
        self.pod = pod
        self.key = ObjectKey("Pod", pod.meta.namespace, pod.meta.name)
        self.netns: str | None = None
        self._parts = parts
        self._files = PodFiles(parts.settings, pod)
        self._maps = ConfigMaps(parts.store, pod.meta.namespace)
        self._place = PodPlace(addresses=(), node_addresses=())
        self._stopping = asyncio.Event()
        self._deadline = Deadline(parts.clock)
        self._changed = Signal()
        self._config = Signal()
        self._is_captured = False
        self._waiting_for = ""
        self._started_at = parts.clock.wall()
        self._inits = tuple(self._make_worker(one, is_init=True) for one in pod.spec.init_containers)
        self._mains = tuple(self._make_worker(one, is_init=False) for one in pod.spec.containers)
        self._are_mains_over = False

    async def run(self) -> None:
        """Return when nothing of the pod is left, neither process nor sandbox, and its status says how it ended."""
        cancel = self._parts.store.subscribe(self._config.fire, {"ConfigMap"})
        try:
            async with asyncio.TaskGroup() as group:
                keeping = (group.create_task(self._keep_status()), group.create_task(self._keep_files()))
                try:
                    await self._live()
                finally:
                    for task in keeping:
                        task.cancel()
        finally:
            cancel()
            await self._remove_sandbox()
        await self._write_status()

    def stop(self, grace_s: float) -> None:
        """End it within `grace_s`. Asked again, it can only end sooner. Sidecars end after everything else."""
        self._deadline.set(grace_s)
        self._stopping.set()
        for worker in (*self._inits, *self._mains):
            if self._are_mains_over or not worker.parts.container.is_sidecar:
                worker.stop(self._deadline.left_s())

    def worker(self, container: str) -> ContainerWorker | None:
        """The container of that name, the first for "", None if there is none."""
        if not container:
            return self._mains[0]
        return next((worker for worker in (*self._mains, *self._inits) if worker.name == container), None)

    async def _live(self) -> None:
        await self._make_sandbox()
        if self._stopping.is_set():
            return
        self._is_captured = True
        self._changed.fire()
        async with asyncio.TaskGroup() as sidecars:
            if await self._run_inits(sidecars):
                async with asyncio.TaskGroup() as mains:
                    for worker in self._mains:
                        mains.create_task(worker.run())
            self._are_mains_over = True
            for worker in reversed(self._inits):
                worker.stop(self._deadline.left_s() if self._stopping.is_set() else self.pod.spec.grace_s)

    async def _run_inits(self, sidecars: asyncio.TaskGroup) -> bool:
        """Whether all of them are through: then the containers start."""
        for worker in self._inits:
            if self._stopping.is_set():
                return False
            if worker.parts.container.is_sidecar:
                sidecars.create_task(worker.run())
                await first_of(self._wait_started(worker), self._stopping.wait())
                continue
            await worker.run()
            if worker.state.last is None or worker.state.last.exit_code != 0:
                return False
        return not self._stopping.is_set()

    async def _wait_started(self, worker: ContainerWorker) -> None:
        changed = self._changed.next()
        while not worker.state.is_started:
            await changed.wait()
            changed = self._changed.next()

    async def _make_sandbox(self) -> None:
        await self._retry("FailedCreatePodSandBox", self._create_netns)
        await self._retry("FailedMount", self._make_files)
        if self._stopping.is_set():
            return
        self._waiting_for = "the pod's capture is not in place yet"
        self._changed.fire()
        await first_of(self._parts.wait_captured(self.pod.meta.uid), self._stopping.wait())
        self._waiting_for = ""

    async def _create_netns(self) -> None:
        uid, node = self.pod.meta.uid, self.pod.spec.node
        addresses = self._parts.addresses.take(node, uid)
        self.netns = await self._parts.network.create(node, uid, addresses)
        live = self._parts.store.get(ObjectKey("Node", "", node))
        node_addresses = parse_node(live).addresses if live is not None else ()
        self._place = PodPlace(addresses=addresses, node_addresses=node_addresses)

    async def _make_files(self) -> None:
        await asyncio.to_thread(self._files.make, self._place, self._maps)

    async def _retry(self, what: str, step: Callable[[], Awaitable[None]]) -> None:
        """Take the step until it succeeds or the pod is to stop. A step once begun is not interrupted."""
        while not self._stopping.is_set():
            config = self._config.next()
            try:
                await step()
            except (AetherError, OSError) as error:
                self._waiting_for = f"{what}: {error}"
                self._changed.fire()
                log.warning("pod-waits", pod=str(self.key), what=what, error=str(error))
                await first_of(self._parts.clock.sleep(SANDBOX_RETRY_S), config.wait(), self._stopping.wait())
            else:
                self._waiting_for = ""
                return

    async def _remove_sandbox(self) -> None:
        uid = self.pod.meta.uid
        self.netns = None
        self._is_captured = False
        await self._parts.network.remove(uid)
        self._parts.addresses.give_back(uid)

    async def _keep_files(self) -> None:
        """Keep the files of ConfigMaps as the ConfigMaps are; one that went away leaves its files."""
        config = self._config.next()
        while True:
            await config.wait()
            config = self._config.next()
            if self._is_captured:
                try:
                    await self._make_files()
                except (MissingConfig, OSError) as error:
                    log.warning("files-not-refreshed", pod=str(self.key), error=str(error))

    async def _keep_status(self) -> None:
        while True:
            changed = self._changed.next()
            await self._write_status()
            await changed.wait()

    async def _write_status(self) -> None:
        live = self._parts.store.get(self.key)
        if live is None:
            return
        status = render_status(self._view(), now=self._parts.clock.wall(), before=live.get("status") or {})
        try:
            await self._parts.store.update_status(self.key, status, uid=self.pod.meta.uid)
        except (NotFound, Conflict):
            return  # deleted without grace: the runner sees that too

    def _view(self) -> PodView:
        return PodView(
            pod=self.pod,
            place=self._place,
            started_at=self._started_at,
            init_states=tuple(worker.state for worker in self._inits),
            states=tuple(worker.state for worker in self._mains),
            is_captured=self._is_captured,
            waiting_for=self._waiting_for,
        )

    def _make_worker(self, container: Container, *, is_init: bool) -> ContainerWorker:
        settings = self._parts.settings
        rule = restart_rule(self.pod.spec.restart_policy, is_init=is_init, is_sidecar=container.is_sidecar)
        return ContainerWorker(
            ContainerParts(
                container=container,
                rule=rule,
                grace_s=self.pod.spec.grace_s,
                clock=self._parts.clock,
                back_off=BackOff(first_s=settings.first_back_off_s, limit_s=settings.back_off_limit_s),
                make_order=lambda: self._order(container),
                config=self._config,
                make_target=self._target,
                on_change=self._changed.fire,
            )
        )

    def _order(self, container: Container) -> ContainerOrder:
        settings = self._parts.settings
        env = container_env(container, self.pod, self._place, self._maps)
        return ContainerOrder(
            argv=tuple(expand(word, env) for word in container.argv),
            env=env,
            log=str(self._files.log(container.name)),
            log_limit_bytes=settings.log_limit_bytes,
            netns=self.netns or "",
            is_isolated=settings.is_isolated,
            working_dir=container.working_dir,
            hostname=host_name(self.pod),
            run_as=container.run_as,
            mounts=self._files.mounts(container),
            hidden=settings.hidden,
            covered=settings.covered,
            staging=self._files.staging(container.name),
        )

    def _target(self, worker: ContainerWorker) -> Target:
        return Target(
            container=worker.parts.container,
            address=self._place.addresses[0],
            node_netns=self._parts.netns_of(self.pod.spec.node),
            socket_in=self._parts.socket_in,
            execute=worker.run_command,
        )
