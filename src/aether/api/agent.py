"""The admin API of a node's agent.

GET  /status
GET  /scope
GET  /resources                         type, name and version of everything its Envoy is told
GET  /resources/one?type_url=&name=     one of them as JSON
POST /explain
"""

from aiohttp import web

from aether.api.backend import AgentBackend
from aether.api.problem import NoSuchResource
from aether.api.replies import json_response, read_body
from aether.model.world import ExplainRequest


def agent_routes(backend: AgentBackend) -> list[web.RouteDef]:
    """The handlers, bound to their backend."""

    async def get_status(_: web.Request) -> web.Response:
        return json_response(backend.status())

    async def get_scope(_: web.Request) -> web.Response:
        return json_response(backend.scope())

    async def list_resources(_: web.Request) -> web.Response:
        return json_response(backend.resources())

    async def get_resource(request: web.Request) -> web.Response:
        type_url, name = request.query.get("type_url", ""), request.query.get("name", "")
        if (found := backend.resource(type_url, name)) is None:
            raise NoSuchResource(f"no {type_url or 'resource'} {name!r} in the live snapshot")
        return json_response(found)

    async def explain(request: web.Request) -> web.Response:
        return json_response(backend.explain(await read_body(request, ExplainRequest)))

    return [
        web.get("/status", get_status),
        web.get("/scope", get_scope),
        web.get("/resources", list_resources),
        web.get("/resources/one", get_resource),
        web.post("/explain", explain),
    ]
