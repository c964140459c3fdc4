"""The product's agent, with a server that bends what Envoy is told.

    python -m tests.support.bent_agent <AgentOptions as JSON>

SIGHUP has it read `bends.json` beside its sockets, publish again, wait for Envoy's answer and write `bends.done`.
Without orders it is the product's agent.
"""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
from tests.support.bends import Snapshot, bend

from aether.adapters.clock import Clock, SystemClock
from aether.adapters.envoy.xds import AdsServer
from aether.adapters.telemetry.logs import configure_logs
from aether.app.agent import Agent, AgentOptions, run

ANSWER_LIMIT_S = 5.0


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What to bend. `serial` tells the answer to one order from the answer to the next."""

    serial: int = 0
    bends: tuple[tuple[str, ...], ...] = ()


class BentAdsServer(AdsServer):
    def __init__(self, socket_path: Path, *, clock: Clock | None = None) -> None:
        super().__init__(socket_path, clock=clock)
        self._folder = socket_path.parent
        self._straight: Snapshot | None = None
        self._bent: Snapshot = {}

    def publish(self, snapshot: Snapshot) -> None:
        self._straight = snapshot
        self._bent = bend(snapshot, self._orders().bends)
        super().publish(self._bent)

    async def obey(self) -> None:
        """Publish by the newest orders, and say so once Envoy has taken or refused each resource that they change."""
        serial, before = self._orders().serial, self._bent
        if self._straight is not None:
            self.publish(self._straight)
        for type_url, resources in self._bent.items():
            known = before.get(type_url, {})
            changed = frozenset(name for name, resource in resources.items() if known.get(name) != resource)
            await self.wait_acked(type_url, changed, ANSWER_LIMIT_S)
        (self._folder / "bends.done").write_text(str(serial))

    def _orders(self) -> Orders:
        try:
            return msgspec.json.decode((self._folder / "bends.json").read_bytes(), type=Orders)
        except FileNotFoundError:
            return Orders()


async def serve(options: AgentOptions) -> None:
    agent = Agent(options, SystemClock(), ads=BentAdsServer)
    assert isinstance(agent.ads, BentAdsServer)
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told.set)
    async with asyncio.TaskGroup() as group:
        obeying = group.create_task(_obey(agent.ads, told))
        await run(agent)
        obeying.cancel()


async def _obey(server: BentAdsServer, told: asyncio.Event) -> None:
    while True:
        await told.wait()
        told.clear()
        await server.obey()


if __name__ == "__main__":
    configure_logs()
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=AgentOptions)))
