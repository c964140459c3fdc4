"""Containers and pods as real processes of this machine, without namespaces, and ways to wait for what they do."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aether.adapters.clock import Clock, SystemClock
from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import USER
from aether.adapters.pods.container import ContainerParts, ContainerWorker
from aether.adapters.pods.launcher import ContainerOrder
from aether.adapters.pods.lifecycle import BackOff, ContainerState, Life, RestartRule
from aether.adapters.pods.parts import RunnerParts, RunnerSettings
from aether.adapters.pods.probes import Target
from aether.adapters.pods.runner import PodRunner
from aether.adapters.pods.waiting import Signal
from aether.model.kube import Container

PATIENCE_S = 20.0
"""How long a test waits for a process of this machine."""

POLL_S = 0.01

ENV = {"PATH": "/usr/bin:/bin"}
LOCALHOST = "127.0.0.1"


def socket_in(_netns: Path, family: int, kind: int) -> socket.socket:
    """A socket of this process's own namespace, whatever the path."""
    return socket.socket(family, kind)


def order(folder: Path, *argv: str, **fields: Any) -> ContainerOrder:
    """A container without namespaces whose log is `log` in the folder."""
    defaults = {"env": ENV, "log": str(folder / "log"), "log_limit_bytes": 1 << 20, "is_isolated": False}
    return ContainerOrder(argv=argv, **{**defaults, **fields})


def shell(folder: Path, script: str, **fields: Any) -> ContainerOrder:
    return order(folder, "sh", "-c", script, **fields)


class FastClock:
    """Time that passes 50 times as fast: back-offs and grace periods of real processes, without waiting for them."""

    FACTOR = 50.0

    def __init__(self) -> None:
        self._system = SystemClock()
        self._began = self._system.now()

    def now(self) -> float:
        return (self._system.now() - self._began) * self.FACTOR

    def wall(self) -> float:
        return 1_700_000_000.0 + self.now()

    async def sleep(self, seconds: float) -> None:
        await self._system.sleep(seconds / self.FACTOR)


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds: for what nobody tells, like the content of a file."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await SystemClock().sleep(POLL_S)


class WatchedContainer:
    """A container worker, every state it was in, and waiting for one."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        script: str,
        *,
        container: Container | None = None,
        rule: RestartRule = RestartRule.NEVER,
        grace_s: float = 30.0,
    ) -> None:
        self.folder = folder
        self.states: list[ContainerState] = []
        self.times: list[float] = []
        self.config = Signal()
        self.make_order: Callable[[], ContainerOrder] = lambda: shell(folder, script)
        self._changed = Signal()
        self.worker = ContainerWorker(
            ContainerParts(
                container=container or Container(name="main", argv=("sh",)),
                rule=rule,
                grace_s=grace_s,
                clock=clock,
                back_off=BackOff(first_s=10.0, limit_s=300.0),
                make_order=self._make_order,
                config=self.config,
                make_target=self._target,
                on_change=self._note,
            )
        )

    async def until(self, condition: Callable[[ContainerState], bool]) -> ContainerState:
        """The state in which the condition holds."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                changed = self._changed.next()
                if condition(self.worker.state):
                    return self.worker.state
                await changed.wait()

    async def until_life(self, life: Life) -> ContainerState:
        return await self.until(lambda state: state.life is life)

    def lives(self) -> list[Life]:
        """The lives it went through, in order."""
        lives = [state.life for state in self.states]
        return [life for life, before in zip(lives, [None, *lives], strict=False) if life is not before]

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def _make_order(self) -> ContainerOrder:
        return self.make_order()

    def _note(self) -> None:
        self.states.append(self.worker.state)
        self.times.append(self.worker.parts.clock.now())
        self._changed.fire()

    def _target(self, worker: ContainerWorker) -> Target:
        return Target(
            container=worker.parts.container,
            address=LOCALHOST,
            node_netns=Path(),
            socket_in=socket_in,
            execute=worker.run_command,
        )


class NoNetwork:
    """A `PodNetwork` that gives every pod the machine's own network, and remembers what it was asked.

    `failures` are raised, last first, instead of making a sandbox.
    """

    def __init__(self) -> None:
        self.pods: dict[str, tuple[str, ...]] = {}
        self.failures: list[Exception] = []

    async def create(self, node: str, uid: str, addresses: tuple[str, ...]) -> str:
        if self.failures:
            raise self.failures.pop()
        self.pods[uid] = addresses
        return ""

    async def remove(self, uid: str) -> None:
        self.pods.pop(uid, None)


class OneAddress:
    """An `AddressPool` of which every pod has the machine's own address."""

    def take(self, node: str, uid: str) -> tuple[str, ...]:
        return (LOCALHOST,)

    def give_back(self, uid: str) -> None:
        return


class PodBench:
    """A store with one node and a runner of real processes. Pods are captured while `captured` is set."""

    def __init__(self, folder: Path, clock: Clock, **parts: Any) -> None:
        """`parts` replace what the runner is given; without any, pods share this machine's namespaces."""
        self.store = MemoryStore(clock=clock)
        self.network = NoNetwork()
        self.captured = asyncio.Event()
        self.captured.set()
        defaults = {
            "store": self.store,
            "clock": clock,
            "network": self.network,
            "addresses": OneAddress(),
            "wait_captured": self._wait_captured,
            "netns_of": lambda _: Path(),
            "socket_in": socket_in,
            "settings": RunnerSettings(directory=folder / "pods", is_isolated=False),
        }
        self.runner = PodRunner(RunnerParts(**{**defaults, **parts}))

    @asynccontextmanager
    async def running(self) -> "AsyncIterator[PodBench]":
        """The bench with its runner at work, and its end."""
        await self._load()
        async with asyncio.timeout(2 * PATIENCE_S), asyncio.TaskGroup() as group:
            task = group.create_task(self.runner.run())
            try:
                yield self
            finally:
                task.cancel()

    async def _load(self) -> None:
        await self.store.load()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}, "spec": {}}
        await self.store.apply(node, "test")

    async def apply(self, name: str, containers: list[dict[str, Any]], **spec: Any) -> str:
        """Apply a pod for the node; its uid."""
        metadata = {"name": name, "namespace": "default"}
        spec = {"nodeName": "node-1", "containers": containers, **spec}
        await self.store.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, USER)
        return str(self.pod(name)["metadata"]["uid"])

    def pod(self, name: str) -> KubeObject:
        live = self.store.get(ObjectKey("Pod", "default", name))
        assert live is not None
        return live

    def status(self, name: str) -> Mapping[str, Any]:
        return self.pod(name).get("status") or {}

    def container(self, name: str, position: int = 0) -> Mapping[str, Any]:
        """The status of one of the pod's containers."""
        found: Mapping[str, Any] = self.status(name)["containerStatuses"][position]
        return found

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds, looked at after every change of the store."""
        changed = Signal()
        cancel = self.store.subscribe(changed.fire)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    happened = changed.next()
                    if condition():
                        return
                    await happened.wait()
        finally:
            cancel()

    async def until_phase(self, name: str, phase: str) -> None:
        await self.until(lambda: self.status(name).get("phase") == phase)

    async def until_ready(self, name: str, *, is_ready: bool = True) -> None:
        await self.until(lambda: self.condition(name, "Ready").get("status") == str(is_ready))

    async def until_gone(self, name: str) -> None:
        await self.until(lambda: self.store.get(ObjectKey("Pod", "default", name)) is None)

    def condition(self, name: str, kind: str) -> Mapping[str, Any]:
        return next((one for one in self.status(name).get("conditions", ()) if one["type"] == kind), {})

    def log(self, uid: str, container: str = "main") -> str:
        path = self.runner.log_path(uid, container)
        return path.read_text() if path.exists() else ""

    async def _wait_captured(self, uid: str) -> None:
        await self.captured.wait()


def script(text: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell script."""
    return {"name": name, "image": "host", "command": ["sh", "-c", text], **fields}
