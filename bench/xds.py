"""The xDS stream with a real Envoy: a push until its acknowledgement, cold names, a restarted server, a killed Envoy.

Absolute times hold only side by side in one run.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable

import aiohttp
from tests.support.xds_lab import Lab, assignment, eds_cluster, running_lab, until

from aether.adapters.telemetry.logs import configure_logs
from aether.render.envoy.resource import Resource
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER
from bench.figures import show, show_times

SIZES = (200, 2_000)
SMOKE_SIZES = (10,)
ROUNDS = 500
SMOKE_ROUNDS = 5
ENDPOINTS = 30


def main(smoke: bool) -> None:  # noqa: FBT001
    configure_logs(level=40)
    asyncio.run(_main(SMOKE_SIZES if smoke else SIZES, SMOKE_ROUNDS if smoke else ROUNDS))


async def _main(sizes: tuple[int, ...], rounds: int) -> None:
    for size in sizes:
        async with running_lab() as lab, aiohttp.ClientSession() as client:
            lab.put(*lab.basics())
            await lab.supervisor.wait_serving(20.0)
            await lab.acked(LISTENER)
            await _bench_push(lab, size)
            await _bench_changes(lab, size, rounds)
            await _bench_cold(lab, client, size, min(rounds, 50))
            await _bench_restart(lab, size)
            await _bench_kill(lab, client, size)


async def _bench_push(lab: Lab, size: int) -> None:
    """Everything at once: clusters with three endpoints each, until every acknowledgement."""
    resources = [one for n in range(size) for one in (eds_cluster(f"s{n}"), assignment(f"s{n}", [lab.backend] * 3))]
    cpu_s = time.process_time()

    async def push() -> None:
        lab.put(*resources)
        assert await lab.acked(CLUSTER, within_s=60.0)
        assert await lab.acked(ENDPOINT, within_s=60.0)

    seconds = await _timed(push())
    show(f"{size} clusters pushed to ack", seconds=seconds, server_cpu_s=time.process_time() - cpu_s)


async def _bench_changes(lab: Lab, size: int, rounds: int) -> None:
    endpoints = [
        await _timed(_put(lab, ENDPOINT, assignment("s0", [lab.backend] * (1 + n % ENDPOINTS)))) for n in range(rounds)
    ]
    show_times(f"endpoint change to ack, {size} clusters", endpoints)
    clusters = [
        await _timed(_put(lab, CLUSTER, eds_cluster("s0", connect_timeout_s=1 + n % 2))) for n in range(rounds // 5 + 1)
    ]
    show_times(f"cluster change to ack, {size} clusters", clusters)
    began = time.perf_counter()
    for number in range(rounds):
        lab.put(assignment(f"s{number % size}", [lab.backend] * (1 + number % ENDPOINTS)))
    await lab.acked(ENDPOINT)
    show(f"{rounds} endpoint changes, pipelined", seconds=time.perf_counter() - began)


async def _bench_cold(lab: Lab, client: aiohttp.ClientSession, size: int, rounds: int) -> None:
    lab.answer(lab.live)
    cold = [await _timed(lab.request(f"cold{n}", client)) for n in range(rounds)]
    warm = [await _timed(lab.request(f"cold{n}", client)) for n in range(rounds)]
    show_times(f"cold request, {size} clusters", cold)
    show_times(f"warm request, {size} clusters", warm)


async def _bench_restart(lab: Lab, size: int) -> None:
    """Another server that publishes the same: from its start until it knows that Envoy has everything."""

    async def restart() -> bool:
        await lab.restart_server()
        lab.publish()
        return await lab.acked(CLUSTER) and await lab.acked(ENDPOINT)

    seconds = await _timed(restart())
    sent = sum(one.resources for one in lab.server.statistics().types)
    show(f"restart of the server, {size} clusters", seconds=seconds, resources_sent=sent)


async def _bench_kill(lab: Lab, client: aiohttp.ClientSession, size: int) -> None:
    async def serves() -> bool:
        try:
            return await lab.request("base", client, timeout_s=5.0) == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    os.kill(lab.supervisor.report().pid, signal.SIGKILL)
    seconds = await _timed(until(serves, "requests are answered", within_s=60.0))
    show(f"Envoy killed until it serves, {size} clusters", seconds=seconds)


async def _put(lab: Lab, type_url: str, *resources: Resource) -> None:
    lab.put(*resources)
    assert await lab.acked(type_url, *(one.name for one in resources), within_s=60.0)


async def _timed(act: Awaitable[object]) -> float:
    began = time.perf_counter()
    await act
    return time.perf_counter() - began
