"""The nodes of a single machine: their namespaces and links, and three supervised processes each.

Also the pods' network: a `PodNetwork` for the runner.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from aether.adapters.clock import Clock
from aether.adapters.envoy.admin import EnvoyAdmin
from aether.adapters.envoy.process import EnvoyCommand, envoy_program
from aether.adapters.kernel import links
from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.store import ObjectStore
from aether.adapters.paths import NodePaths, WorldPaths
from aether.adapters.process import Program
from aether.app.agent import AgentOptions
from aether.control.supervisor import Life, Supervisor
from aether.errors import Diagnostic
from aether.model.ports import DNS_PORT
from aether.model.world import WorldOptions
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap

MANAGER = "world"
"""Who writes Node objects."""


_PYTHON = (sys.executable, "-P", "-m")
AGENT = (*_PYTHON, "aether.app.agent")
"""The agent's command, without its options."""


class Nodes:
    """Nodes `node-1` to `node-N`, each with the agent that the command `agent` starts. `names` are sorted by number."""

    def __init__(
        self, options: WorldOptions, paths: WorldPaths, *, clock: Clock, agent: tuple[str, ...] = AGENT
    ) -> None:
        self._options = options
        self._agent_command = agent
        self._paths = paths
        self._clock = clock
        self._index = {f"node-{number}": number for number in range(1, options.nodes + 1)}
        self._pods: dict[str, str] = {}
        self.names = tuple(self._index)
        self._supervisors = [supervisor for node in self.names for supervisor in self._supervise(node)]

    async def build(self, store: ObjectStore) -> None:
        """Make the fabric and the nodes, and say in the store that they are there."""
        await asyncio.to_thread(self._build)
        for node, number in self._index.items():
            await store.apply(_node_object(node, number), MANAGER)
            await store.update_status(ObjectKey("Node", "", node), _node_status(number))

    async def run(self) -> None:
        """Keep every node's processes alive until cancelled; then end them."""
        async with asyncio.TaskGroup() as group:
            for supervisor in self._supervisors:
                group.create_task(supervisor.run())

    def states(self) -> Mapping[str, str]:
        """Each process's state in a word, by ``program@node``."""
        return {supervisor.program.name: supervisor.report().life.value for supervisor in self._supervisors}

    def problems(self) -> tuple[Diagnostic, ...]:
        reports = [supervisor.report() for supervisor in self._supervisors]
        return tuple(
            Diagnostic(code="process-down", message=report.problem)
            for report in reports
            if report.problem and report.life is not Life.SERVING
        )

    async def create(self, node: str, uid: str, addresses: tuple[str, ...]) -> str:
        netns = self._paths.netns / f"pod-{uid}"
        sources = links.node_addresses(self._index[node])
        await asyncio.to_thread(links.add_pod, self._paths.node(node).netns, netns, uid, addresses, sources=sources)
        self._pods[uid] = node
        return str(netns)

    async def remove(self, uid: str) -> None:
        if (node := self._pods.pop(uid, None)) is not None:
            netns = self._paths.netns / f"pod-{uid}"
            await asyncio.to_thread(links.remove_pod, self._paths.node(node).netns, netns, uid)

    def _build(self) -> None:
        links.build_fabric()
        for node, number in self._index.items():
            paths = self._paths.node(node)
            paths.directory.mkdir(parents=True, exist_ok=True)
            links.add_node(number, paths.netns)
            settings = BootstrapSettings(
                node=node, ads_socket=str(paths.ads_socket), admin_socket=str(paths.admin_socket)
            )
            paths.bootstrap.write_bytes(msgspec.json.encode(render_bootstrap(settings)))

    def _supervise(self, node: str) -> list[Supervisor]:
        paths = self._paths.node(node)
        admin = EnvoyAdmin(paths.admin_socket)
        envoy = envoy_program(EnvoyCommand(bootstrap=paths.bootstrap, log_path=paths.envoy_log, netns=str(paths.netns)))
        envoy = msgspec.structs.replace(envoy, name=f"envoy@{node}")
        return [
            Supervisor(self._agent(node, paths), is_ready=_exists(paths.agent_socket), clock=self._clock),
            Supervisor(_dns(node, paths), is_ready=_exists(paths.zone_reload), clock=self._clock),
            Supervisor(envoy, is_ready=admin.is_live, clock=self._clock),
        ]

    def _agent(self, node: str, paths: NodePaths) -> Program:
        options = AgentOptions(
            node=node,
            world=self._options.name,
            runtime_root=self._options.runtime_root,
            state_root=self._options.state_root,
        )
        argv = (*self._agent_command, msgspec.json.encode(options).decode())
        return Program(name=f"agent@{node}", argv=argv, netns=str(paths.netns), log_path=paths.agent_log)


def _dns(node: str, paths: NodePaths) -> Program:
    options = ("--zone", str(paths.zone), "--port", str(DNS_PORT), "--reload", str(paths.zone_reload))
    argv = (*_PYTHON, "aether.app.dns", *options)
    return Program(name=f"dns@{node}", argv=argv, netns=str(paths.netns), log_path=paths.dns_log)


def _exists(socket: Path) -> Callable[[], Awaitable[bool]]:
    """Readiness of a program that has its socket once it serves."""

    async def is_there() -> bool:
        return await asyncio.to_thread(socket.exists)

    return is_there


def _node_object(node: str, number: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "spec": {"podCIDRs": list(links.pod_ranges(number))},
    }


def _node_status(number: int) -> dict[str, object]:
    addresses = [{"type": "InternalIP", "address": each} for each in links.node_addresses(number)]
    return {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True", "reason": "Standalone"}]}
