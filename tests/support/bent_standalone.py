"""The product's standalone process, with agents that can be told to bend what their Envoy is told.

    python -m tests.support.bent_standalone <WorldOptions as JSON>

SIGHUP begins a root rotation.
"""

import asyncio
import signal
import sys

import msgspec

from aether.adapters.clock import SystemClock
from aether.adapters.telemetry.logs import configure_logs
from aether.app.standalone import Standalone
from aether.model.world import WorldOptions

AGENT = (sys.executable, "-P", "-m", "tests.support.bent_agent")


async def serve(options: WorldOptions) -> None:
    world = Standalone(options, SystemClock(), agent=AGENT)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, world.rotate_root)
    await world.run()


if __name__ == "__main__":
    configure_logs()
    asyncio.run(serve(msgspec.json.decode(sys.argv[1], type=WorldOptions)))
