"""Serve an API on a unix socket that only its owner may open."""

from collections.abc import Iterable
from pathlib import Path

from aiohttp import web

from aether.adapters.clock import Clock
from aether.api.agent import agent_routes
from aether.api.agent_client import AgentClient
from aether.api.backend import AgentBackend, WorldBackend
from aether.api.objects import object_routes
from aether.api.operations import operation_routes, pod_routes
from aether.api.problem import answer_with_problems

BODY_LIMIT_BYTES = 16 * 1024 * 1024
"""Manifests of ten thousand services fit; more in one request is a mistake."""

ANSWER_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 0.5
"""How long open requests may go on once the API stops."""


class ApiServer:
    """One API on one socket: mode 0600, a stale socket at the path is replaced."""

    def __init__(self, socket: Path, routes: Iterable[web.RouteDef]) -> None:
        self._socket = socket
        app = web.Application(middlewares=[answer_with_problems(ANSWER_TIMEOUT_S)], client_max_size=BODY_LIMIT_BYTES)
        app.add_routes(routes)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=STOP_TIMEOUT_S)

    async def start(self) -> None:
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self._socket)).start()
        self._socket.chmod(0o600)

    async def stop(self) -> None:
        await self._runner.cleanup()


def world_api(socket: Path, backend: WorldBackend, *, clock: Clock) -> ApiServer:
    """The API of a world (api.sock)."""
    return ApiServer(
        socket, [*object_routes(backend), *operation_routes(backend, AgentClient()), *pod_routes(backend, clock)]
    )


def agent_api(socket: Path, backend: AgentBackend) -> ApiServer:
    """The admin API of a node's agent (agent.sock)."""
    return ApiServer(socket, agent_routes(backend))
