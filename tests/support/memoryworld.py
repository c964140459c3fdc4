"""A world without a kernel behind it: the backend of the local API in memory, and its API on real sockets in a folder.

Commands "in pods" run on this machine, logs are files in the folder.
"""

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.support.http import over_unix

from aether.adapters.clock import SystemClock
from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.paths import WorldPaths
from aether.api.backend import WorldFacts
from aether.api.exec import ExecServer
from aether.api.server import agent_api, world_api
from aether.model.facts import MeshConfig
from aether.model.world import (
    AgentStatus,
    CheckSection,
    ExecRequest,
    ExplainRequest,
    Explanation,
    NodeScope,
    ResourceVersion,
    ScopeEntry,
)


class LocalExecution:
    """A process of this machine."""

    def __init__(self, command: Sequence[str], stdio: tuple[int, int, int]) -> None:
        stdin, stdout, stderr = stdio
        self._process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr)
        self._pidfd = os.pidfd_open(self._process.pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        await self._ended.wait()
        return self._process.returncode if self._process.returncode >= 0 else 128 - self._process.returncode

    def end(self) -> None:
        """What a world's end does to every process in it."""
        if not self._ended.is_set():
            self._process.kill()
            self._on_end()

    def _on_end(self) -> None:
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()


class MemoryWorld:
    """A `WorldBackend` whose facts are whatever a test says."""

    def __init__(self, paths: WorldPaths) -> None:
        self.name = paths.name
        self.objects = MemoryStore(clock=SystemClock())
        self.known = WorldFacts(config=MeshConfig(), nodes=("node-1",))
        self.sections: tuple[CheckSection, ...] = ()
        self.executed: list[ExecRequest] = []
        self.executions: list[LocalExecution] = []
        self.is_stopped = threading.Event()
        self._paths = paths

    def facts(self) -> WorldFacts:
        return self.known

    def agent_socket(self, node: str) -> Path:
        return self._paths.node(node).agent_socket

    async def checks(self) -> tuple[CheckSection, ...]:
        return self.sections

    def log_path(self, uid: str, container: str) -> Path:
        return self._paths.pods / uid / f"{container}.log"

    async def execute(self, request: ExecRequest, stdio: tuple[int, int, int]) -> LocalExecution:
        self.executed.append(request)
        self.executions.append(LocalExecution(request.command, stdio))
        return self.executions[-1]

    def stop(self) -> None:
        self.is_stopped.set()


class MemoryAgent:
    """An `AgentBackend` that has one resource and answers every question alike."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.asked: list[ExplainRequest] = []

    def status(self) -> AgentStatus:
        return AgentStatus(node=self.node, is_control_connected=True, is_proxy_live=True, resources=1, acknowledged=1)

    def scope(self) -> NodeScope:
        entry = ScopeEntry(namespace="shop", name="cart", because="own", clusters=("cart.shop.aether.internal:8080",))
        return NodeScope(node=self.node, directory=3, misses=4, entries=(entry,))

    def resources(self) -> tuple[ResourceVersion, ...]:
        return (ResourceVersion(type_url="type.x/Cluster", name="cart", version="0a"),)

    def resource(self, type_url: str, name: str) -> Any | None:
        return {"name": name} if (type_url, name) == ("type.x/Cluster", "cart") else None

    def explain(self, request: ExplainRequest) -> Explanation:
        self.asked.append(request)
        return Explanation(outcome="deliver", summary=f"{request.target} from {request.namespace}/{request.pod}")


class ServedWorld:
    """A memory world whose API, exec socket and one agent answer, served by a thread with a loop of its own."""

    def __init__(self, paths: WorldPaths) -> None:
        self.paths = paths
        self.world: MemoryWorld
        self.agent: MemoryAgent
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))

    def __enter__(self) -> "ServedWorld":
        self._thread.start()
        assert self._is_ready.wait(10), "the memory world did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(10)
        self._loop.close()

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine in the world's loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        for object_ in objects:
            self.call(self.world.objects.apply(object_, "test"))

    def set_status(self, key: ObjectKey, status: Mapping[str, Any]) -> None:
        self.call(self.world.objects.update_status(key, status))

    def know(self, **facts: Any) -> None:
        self.world.known = msgspec.structs.replace(self.world.known, **facts)

    async def _serve(self) -> None:
        self.paths.runtime.mkdir(parents=True)
        self.paths.node("node-1").directory.mkdir(parents=True)
        self.world, self.agent = MemoryWorld(self.paths), MemoryAgent("node-1")
        await self.world.objects.load()
        api = world_api(self.paths.api_socket, self.world, clock=SystemClock())
        admin = agent_api(self.paths.node("node-1").agent_socket, self.agent)
        exec_server = ExecServer(self.paths.exec_socket, self.world, clock=SystemClock())
        exec_server.listen()
        await api.start()
        await admin.start()
        self._is_ready.set()
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(exec_server.run())
            await self._stopping.wait()
            serving.cancel()
        for execution in self.world.executions:
            execution.end()
        await admin.stop()
        await api.stop()


@contextmanager
def served_world(folder: Path, name: str = "default") -> Iterator[ServedWorld]:
    """A world in `folder`, which is what AETHER_RUNTIME_DIR must name for the command line to find it."""
    with ServedWorld(WorldPaths(name, runtime=folder / "run", state=folder / "state")) as served:
        yield served


def pod(place: str, *, is_ready: bool = True, node: str = "node-1", labels: Mapping[str, str] | None = None) -> Any:
    """A Pod object of ``shop/cart-1`` with one container, and the status to go with it (`pod_status`)."""
    namespace, name = place.split("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "nodeName": node,
            "serviceAccountName": name.split("-", maxsplit=1)[0],
            "containers": [{"name": "main", "image": "host", "command": ["true"]}],
        },
        "status": pod_status(is_ready=is_ready),
    }


def pod_status(*, is_ready: bool = True, reason: str = "") -> dict[str, Any]:
    state = {"running": {}} if not reason else {"waiting": {"reason": reason}}
    return {
        "phase": "Running",
        "podIPs": [{"ip": "10.244.1.2"}],
        "conditions": [{"type": "Ready", "status": "True" if is_ready else "False"}],
        "containerStatuses": [{"name": "main", "ready": is_ready, "restartCount": 2, "state": state}],
    }


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def deployment(place: str, *, replicas: int = 1, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    namespace_, name = place.split("/")
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace_},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": dict(annotations or {})},
                "spec": {"containers": [{"name": "main", "image": "host", "command": ["true"]}]},
            },
        },
    }


def ask(socket_path: Path, method: str, target: str, body: bytes | None = None) -> tuple[int, Any]:
    """One HTTP exchange over a unix socket: the status, and the answer as JSON data."""
    with over_unix(socket_path) as connection:
        connection.request(method, target, body=body)
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())
