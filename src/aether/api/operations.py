"""What is asked of a running world besides its objects: status, check, explain, scope, logs, stop.

GET  /v1/version                 who answers
GET  /v1/status  /v1/check       derived anew from the control plane's facts on every request
POST /v1/explain                 answered by the agent of the pod's node, from what its Envoy was told
GET  /v1/scope/{node}            answered by the node's agent
GET  /v1/logs?pod=&namespace=&kind=&container=&tail=&follow=
GET  /v1/pod?pod=&namespace=&kind=    the pod that a name means
POST /v1/stop                    begin the end
"""

from functools import partial
from importlib.metadata import version

import msgspec
from aiohttp import web

from aether.adapters.clock import Clock
from aether.adapters.objects.kinds import ObjectKey, key_of
from aether.adapters.objects.store import ObjectStore
from aether.api.agent_client import AgentClient
from aether.api.backend import WorldBackend
from aether.api.check import world_checks
from aether.api.logtail import tail_log
from aether.api.lookup import PodQuery, find_container, find_pod
from aether.api.problem import BadRequest, NoSuchNode
from aether.api.replies import flag_in, json_response, number_in, read_body, stream
from aether.api.status import world_status
from aether.model.world import ExplainRequest, WorldStatus

VERSION = version("aether")


class VersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    world: str
    version: str


def operation_routes(backend: WorldBackend, agents: AgentClient) -> list[web.RouteDef]:
    """The handlers, bound to what answers them."""

    async def get_version(_: web.Request) -> web.Response:
        return json_response(VersionInfo(world=backend.name, version=VERSION))

    async def get_status(_: web.Request) -> web.Response:
        return json_response(_status(backend))

    async def get_check(_: web.Request) -> web.Response:
        pods, _revision = backend.objects.list("Pod")
        return json_response((*world_checks(_status(backend), backend.facts(), pods), *await backend.checks()))

    async def explain(request: web.Request) -> web.Response:
        asked = await read_body(request, ExplainRequest)
        pod = find_pod(backend.objects, PodQuery(namespace=asked.namespace, kind=asked.kind, name=asked.pod))
        metadata = pod["metadata"]
        exact = msgspec.structs.replace(asked, namespace=metadata["namespace"], pod=metadata["name"], kind="pod")
        return json_response(await agents.explain(backend.agent_socket(_node_of(pod)), exact))

    async def get_scope(request: web.Request) -> web.Response:
        node = request.match_info["node"]
        if node not in backend.facts().nodes:
            raise NoSuchNode(f"no node {node!r}; there are {', '.join(sorted(backend.facts().nodes))}")
        return json_response(await agents.scope(backend.agent_socket(node)))

    async def stop(_: web.Request) -> web.Response:
        backend.stop()
        return json_response({"stopping": backend.name})

    return [
        web.get("/v1/version", get_version),
        web.get("/v1/status", get_status),
        web.get("/v1/check", get_check),
        web.post("/v1/explain", explain),
        web.get("/v1/scope/{node}", get_scope),
        web.post("/v1/stop", stop),
    ]


def pod_routes(backend: WorldBackend, clock: Clock) -> list[web.RouteDef]:
    """The handlers of what is asked about one pod, by any of its names."""

    async def get_logs(request: web.Request) -> web.StreamResponse:
        pod = find_pod(backend.objects, _query(request))
        uid = pod["metadata"]["uid"]
        path = backend.log_path(uid, find_container(pod, request.query.get("container", "")))
        is_following = partial(_exists, backend.objects, key_of(pod), uid) if flag_in(request, "follow") else None
        chunks = tail_log(path, lines=number_in(request, "tail"), is_following=is_following, clock=clock)
        return await stream(request, chunks, "application/octet-stream")

    async def get_pod(request: web.Request) -> web.Response:
        return json_response(find_pod(backend.objects, _query(request)))

    return [web.get("/v1/logs", get_logs, name="stream-logs"), web.get("/v1/pod", get_pod)]


def _status(backend: WorldBackend) -> WorldStatus:
    pods, _ = backend.objects.list("Pod")
    deployments, _ = backend.objects.list("Deployment")
    return world_status(backend.name, VERSION, backend.facts(), pods, deployments)


def _exists(objects: ObjectStore, key: ObjectKey, uid: str) -> bool:
    """Whether the pod of that uid is still there (another one may have its name by now)."""
    found = objects.get(key)
    return found is not None and found["metadata"]["uid"] == uid


def _query(request: web.Request) -> PodQuery:
    name = request.query.get("pod", "")
    if not name:
        raise BadRequest("pod= is missing")
    return PodQuery(namespace=request.query.get("namespace", ""), kind=request.query.get("kind", ""), name=name)


def _node_of(pod: dict[str, object]) -> str:
    spec = pod.get("spec")
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    if not node:
        raise NoSuchNode("the pod has no node yet")
    return str(node)
