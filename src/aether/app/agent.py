"""The node agent as a process: ``python -m aether.app.agent <options as JSON>``.

Composition only: the channel to the control plane, the loops, the ADS server for Envoy, the admin socket. It may be
killed and started again at any time: traffic goes on, and nothing that is unchanged is sent to Envoy again.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from aether.adapters.ca import CsrSource, IdentityCache, SignedChain
from aether.adapters.clock import Clock, SystemClock
from aether.adapters.envoy.admin import EnvoyAdmin
from aether.adapters.envoy.xds import AdsServer
from aether.adapters.kernel.nft import Nft
from aether.adapters.paths import WorldPaths
from aether.adapters.rpc.node import NodeClient, SignRequest
from aether.adapters.telemetry.accesslog import AccessLog
from aether.adapters.telemetry.logs import configure_logs
from aether.api.server import agent_api
from aether.control.agent.backend import AgentBackend
from aether.control.agent.capture import NodeCapture, NodeRouting, Ruleset
from aether.control.agent.cold import ColdRequests
from aether.control.agent.identity import Identities
from aether.control.agent.mesh import MeshLoop
from aether.control.agent.names import ZoneLoop
from aether.control.agent.report import Reporter
from aether.control.agent.state import AgentState
from aether.control.agent.watch import LOOK_EVERY_S, HealthWatch
from aether.control.loop import Loop
from aether.model.facts import NodeFacts
from aether.model.identity import WorkloadIdentity
from aether.render.explain import SeenFailure, seen_failures

log = structlog.get_logger()

REFUSALS_EVERY_S = 0.5
ROTATION_LOOK_EVERY_S = 60.0
TABLES_EVERY_S = 2.0


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose agent this is and where its world keeps its files."""

    node: str
    world: str
    runtime_root: str
    state_root: str


async def run(agent: "Agent") -> None:
    """Until SIGTERM. Envoy keeps what it has; another agent takes over from there."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(agent.run())
        await stop.wait()
        running.cancel()
    await agent.close()


class Agent:
    """Every part of one agent, and who wakes whom.

    `ads` is the kind of server that Envoy is told everything by, `open_ruleset` opens a namespace's ruleset.
    """

    def __init__(
        self,
        options: AgentOptions,
        clock: Clock,
        *,
        ads: type[AdsServer] = AdsServer,
        open_ruleset: Callable[[Path], Ruleset] = Nft,
    ) -> None:
        world = WorldPaths(options.world, runtime=Path(options.runtime_root), state=Path(options.state_root))
        paths = world.node(options.node)
        self._clock = clock
        self._socket = paths.agent_socket
        self.state = AgentState(options.node)
        self.channel = NodeClient(world.node_socket, options.node, clock=clock)
        self.ads = ads(paths.ads_socket, clock=clock)
        self.cold = ColdRequests(self.state, self.ads.publish, file=paths.observed)
        self.capture = NodeCapture(open_ruleset)
        self.routing = NodeRouting(paths.netns, ruleset=open_ruleset(paths.netns))
        self.admin = EnvoyAdmin(paths.admin_socket)
        self.watch = HealthWatch(self.state, self.admin, clock=clock)
        self.access_log = AccessLog(paths.access_log)
        leaves = IdentityCache(paths.identities, CsrSource(self._sign), clock=clock)
        self.identities = Identities(leaves, clock=clock)
        self.zone = ZoneLoop(self.state, zone=paths.zone, reload=paths.zone_reload)
        self.reporter = Reporter(
            self.state,
            rejections=self.ads.rejections,
            refusals=self.access_log.refusals,
            problems=lambda: (*self.identities.problems, *self.capture.problems(), *self.watch.problems()),
        )
        mesh = MeshLoop(
            self.state,
            proxy=self.ads,
            capture=self.capture,
            identities=self.identities,
            access_log=str(paths.access_log),
            clock=clock,
        )
        self.mesh = Loop("mesh", mesh.step, clock=clock, every_s=ROTATION_LOOK_EVERY_S)
        zone = Loop("zone", self.zone.step, clock=clock)
        self.loops = (
            self.mesh,
            zone,
            Loop("routing", self._route, clock=clock),
            Loop("tables", self._check_tables, clock=clock, every_s=TABLES_EVERY_S),
            Loop("health", self.watch.step, clock=clock, every_s=LOOK_EVERY_S),
            Loop("refusals", self._read_refusals, clock=clock, every_s=REFUSALS_EVERY_S),
        )
        self.state.on_change(zone.wake)
        self.state.on_change(self._report)

    async def run(self) -> None:
        self.cold.load()
        self.ads.on_demand = self.cold.ask
        self.ads.on_known_names = self.cold.restore
        self.ads.on_rejections = self._report
        await self.ads.start()
        api = agent_api(self._socket, AgentBackend(self.state, self.ads, seen=self._seen))
        await api.start()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.channel.run(self._on_facts))
                for loop in self.loops:
                    group.create_task(loop.run())
        finally:
            await api.stop()

    async def close(self) -> None:
        await self.channel.close()
        await self.ads.stop()
        self.capture.close()
        self.routing.close()

    def _on_facts(self, facts: NodeFacts) -> None:
        self.state.facts = facts
        for loop in self.loops:
            loop.wake()

    def _seen(self) -> tuple[SeenFailure, ...]:
        return seen_failures(self.access_log.last, self._clock.wall())

    def _report(self) -> None:
        if (report := self.reporter.report()) is not None:
            self.channel.reports.set(report)

    async def _sign(self, identity: WorkloadIdentity, csr_pem: bytes) -> SignedChain:
        request = SignRequest(
            node=self.state.node, namespace=identity.namespace, account=identity.account, csr_pem=csr_pem
        )
        reply = await self.channel.sign(request)
        return SignedChain(chain_pem=reply.chain_pem, bundle_pem=reply.ca_pem)

    async def _route(self) -> None:
        if self.state.facts is not None:
            await self.routing.apply(self.state.facts)

    async def _check_tables(self) -> None:
        """A capture table that is gone is made again (rulings B.7); meanwhile its pod takes no traffic."""
        if missing := await self.capture.missing():
            log.warning("capture-table-missing", pods=sorted(missing))
            self.state.bare |= missing
            self.state.captured -= missing
            self.state.changed()
            self.mesh.wake()

    async def _read_refusals(self) -> None:
        if self.access_log.read():
            self._report()


async def _serve(options: AgentOptions) -> None:
    await run(Agent(options, SystemClock()))


def main() -> None:
    configure_logs()
    asyncio.run(_serve(msgspec.json.decode(sys.argv[1], type=AgentOptions)))


if __name__ == "__main__":
    main()
