"""A whole mesh on one machine: ``python -m aether.app.standalone <WorldOptions as JSON>``, inside a world.

Composition only: the object store, its controllers, the embedded registry, the pod runner, the certificate authority,
the node channels and the local API, in this process; per node an agent, an Envoy and a DNS server, supervised.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import structlog

from aether.adapters.ca import CertificateAuthority
from aether.adapters.clock import Clock, SystemClock
from aether.adapters.kernel.netns import socket_in
from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.state import StateFile
from aether.adapters.paths import WorldPaths
from aether.adapters.pods.launcher import ContainerProcess
from aether.adapters.pods.parts import RunnerParts, RunnerSettings
from aether.adapters.pods.runner import PodRunner
from aether.adapters.rpc.node import NodeServer
from aether.adapters.telemetry.logs import configure_logs
from aether.api.backend import WorldFacts
from aether.api.exec import ExecServer
from aether.api.server import world_api
from aether.app.nodes import AGENT, Nodes
from aether.control.loop import Loop
from aether.control.world.channel import NodeChannels
from aether.control.world.checks import world_checks
from aether.control.world.controllers import Controllers, WorldParts
from aether.control.world.immutable import check_immutable
from aether.control.world.pod_addresses import PodAddresses
from aether.control.world.registry import EmbeddedRegistry
from aether.control.world.roots import LOOK_EVERY_S, RootRotation
from aether.control.world.service_addresses import ServiceAddresses
from aether.errors import Diagnostic
from aether.model.facts import NodeFacts
from aether.model.world import CheckSection, ExecRequest, WorldOptions
from aether.plan.mesh.services import plan_services

STOP_GRACE_S = 5.0
"""What pods get to end when the world ends: a world that is taken down is not a rolling update."""

log = structlog.get_logger()


class Standalone:
    """The world's parts, and the backend of its API."""

    def __init__(self, options: WorldOptions, clock: Clock, *, agent: tuple[str, ...] = AGENT) -> None:
        self._options = options
        self._clock = clock
        self._stop = asyncio.Event()
        self._loaded: tuple[Diagnostic, ...] = ()
        self.paths = WorldPaths(options.name, runtime=Path(options.runtime_root), state=Path(options.state_root))
        config = options.config
        if not options.keeps_applied:
            self.paths.applied.unlink(missing_ok=True)
        addresses = ServiceAddresses(
            config.service_cidrs, reserved=config.dns_addresses, state=StateFile(self.paths.state / "addresses.json")
        )
        self.objects = MemoryStore(
            clock=clock, state=StateFile(self.paths.applied), admissions=(addresses, check_immutable)
        )
        self._addresses = addresses
        self.registry = EmbeddedRegistry()
        self.authority = CertificateAuthority.open(self.paths.ca, config.trust_domain, clock=clock)
        self.nodes = Nodes(options, self.paths, clock=clock, agent=agent)
        self.channels = NodeChannels(
            self.objects, self.registry, self.authority, config=config, sandboxes=self._sandboxes
        )
        self.runner = PodRunner(
            RunnerParts(
                store=self.objects,
                clock=clock,
                network=self.nodes,
                addresses=PodAddresses(self.objects),
                wait_captured=self.channels.wait_captured,
                netns_of=lambda node: self.paths.node(node).netns,
                socket_in=socket_in,
                settings=RunnerSettings(
                    directory=self.paths.pods,
                    nameservers=config.dns_addresses,
                    cluster_domain=config.domains.cluster,
                    hidden=(str(self.paths.netns),),
                    covered=(str(self.paths.runtime), str(self.paths.state)),
                ),
            )
        )
        parts = WorldParts(store=self.objects, registry=self.registry, addresses=addresses, config=config, clock=clock)
        self._controllers = Controllers(parts)
        self._facts = Loop("facts", self.channels.refresh, clock=clock)
        self._rotation = RootRotation(self.authority, clock=clock, changed=self._facts.wake)
        self._roots = Loop("roots", self._rotation.step, clock=clock, every_s=LOOK_EVERY_S)

    async def run(self) -> None:
        """Until `stop`, or SIGTERM: then everything ends in order."""
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        self._addresses.load()
        self._loaded = await self.objects.load()
        for node in self.nodes.names:
            self.channels.add_node(node)
        await self.nodes.build(self.objects)
        self.objects.subscribe(self._facts.wake)
        self.registry.subscribe(self._facts.wake)
        channel = NodeServer(self.paths.node_socket, self.channels)
        await channel.start()
        api = world_api(self.paths.api_socket, self, clock=self._clock)
        executions = ExecServer(self.paths.exec_socket, self, clock=self._clock)
        executions.listen()
        await api.start()
        log.info("world-started", world=self._options.name, nodes=self.nodes.names)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(work)
                    for work in (
                        self._controllers.run(),
                        self._facts.run(),
                        self._roots.run(),
                        self.nodes.run(),
                        self.runner.run(),
                        executions.run(),
                    )
                ]
                await self._stop.wait()
                log.info("world-stopping")
                await self.runner.stop(STOP_GRACE_S)
                for task in tasks:
                    task.cancel()
        finally:
            await api.stop()
            await channel.stop()

    def _sandboxes(self) -> Mapping[str, str]:
        return self.runner.sandboxes()

    @property
    def name(self) -> str:
        return self._options.name

    def facts(self) -> WorldFacts:
        config = self._options.config
        node = self.channels.any_facts() or NodeFacts(node="", node_addresses=(), config=config)
        return WorldFacts(
            config=config,
            nodes=self.nodes.names,
            reports=self.channels.live_reports(),
            views=plan_services(node),
            rows=self.registry.rows(),
            problems=tuple(sorted({*self._loaded, *self._controllers.problems(), *self.nodes.problems()})),
        )

    def agent_socket(self, node: str) -> Path:
        return self.paths.node(node).agent_socket

    async def checks(self) -> tuple[CheckSection, ...]:
        return world_checks(self.authority, self.nodes.states(), now=self._clock.wall())

    def log_path(self, uid: str, container: str) -> Path:
        return self.runner.log_path(uid, container)

    async def execute(self, request: ExecRequest, stdio: tuple[int, int, int]) -> ContainerProcess:
        pod = self.objects.get(ObjectKey("Pod", request.namespace, request.pod))
        uid = pod["metadata"]["uid"] if pod is not None else ""
        env = {"TERM": request.terminal} if request.terminal else {}
        return await self.runner.execute(uid, request.container, request.command, stdio, env=env)

    def rotate_root(self) -> None:
        """Begin with a new root now; it takes over in two phases."""
        self._rotation.ask()
        self._roots.wake()

    def stop(self) -> None:
        self._stop.set()


async def run(options: WorldOptions) -> None:
    await Standalone(options, SystemClock()).run()


def main() -> None:
    configure_logs()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(msgspec.json.decode(sys.argv[1], type=WorldOptions)))


if __name__ == "__main__":
    main()
