"""The DNS of one node, a process of its own: it serves its last zone while the agent is away (rulings F).

    python -m aether.app.dns --zone FILE --reload SOCKET [--port 18054] [--upstream ADDRESS]…

Runs in the node's network namespace until SIGTERM or SIGINT.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import structlog

from aether.adapters.clock import SystemClock
from aether.adapters.dns import DnsServer, Resolver, Upstreams, ZoneFile, parse_upstream
from aether.errors import AetherError
from aether.model.ports import DNS_PORT

log = structlog.get_logger()


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse_options(argv)
    try:
        upstreams = Upstreams(tuple(parse_upstream(text) for text in options.upstream))
        asyncio.run(_serve(options.zone, options.reload, options.port, upstreams))
    except AetherError as error:
        log.error("dns-failed", code=error.code, error=str(error))
        return 1
    return 0


async def _serve(zone: Path, reload_socket: Path, port: int, upstreams: Upstreams) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    resolver = Resolver(upstreams)
    with (
        DnsServer(resolver, port, clock=SystemClock()) as server,
        ZoneFile(zone, reload_socket, resolver) as zone_file,
    ):
        log.info("dns-serving", port=port)
        async with asyncio.TaskGroup() as group:
            running = (group.create_task(zone_file.run()), group.create_task(server.run()))
            await stopping.wait()
            for task in running:
                task.cancel()


def _parse_options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m aether.app.dns", description="The DNS of one node.")
    parser.add_argument("--zone", type=Path, required=True, help="the file with the names that are the mesh's")
    parser.add_argument("--reload", type=Path, required=True, help="a unix socket: a datagram to it reloads the zone")
    parser.add_argument("--port", type=int, default=DNS_PORT)
    parser.add_argument("--upstream", action="append", default=[], help="who is asked for all other names")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
