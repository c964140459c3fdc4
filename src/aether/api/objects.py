"""Objects over HTTP: list, get, watch, apply, delete. A thin edge around the object store's interface.

GET    /v1/kinds
GET    /v1/objects/{kind}?namespace=NS            a list, with the revision it is of
GET    /v1/objects/{kind}?watch=true              then every change, one event a line
GET    /v1/objects/{kind}/{namespace}/{name}      one; the namespace of kinds without one is "-"
DELETE /v1/objects/{kind}/{namespace}/{name}?grace_s=N
POST   /v1/apply                                  manifests in, report out; bad documents do not stop good ones
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import web

from aether.adapters.objects.kinds import KINDS, Kind, KubeObject, ObjectKey
from aether.adapters.objects.store import EventType, NotFound, ObjectStore, WatchEvent
from aether.api.apply import apply_manifests
from aether.api.backend import WorldBackend
from aether.api.lookup import SHORT_NAMES, find_kind
from aether.api.replies import NDJSON, flag_in, json_response, number_in, read_body, stream
from aether.model.world import Manifest

NO_NAMESPACE = "-"


class ObjectList(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    revision: int
    items: tuple[KubeObject, ...]


class KindInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    plural: str
    short: str
    is_namespaced: bool


def object_routes(backend: WorldBackend) -> list[web.RouteDef]:
    """The handlers, bound to their backend."""

    async def list_kinds(_: web.Request) -> web.Response:
        short = {kind: name for name, kind in SHORT_NAMES.items()}
        return json_response(
            [
                KindInfo(name=k.name, plural=k.plural, short=short.get(k.name, ""), is_namespaced=k.is_namespaced)
                for k in KINDS.values()
            ]
        )

    async def list_objects(request: web.Request) -> web.StreamResponse:
        kind = find_kind(request.match_info["kind"])
        namespace = request.query.get("namespace") or None
        if flag_in(request, "watch"):
            return await stream(request, _events(backend.objects, kind, namespace), NDJSON)
        items, revision = backend.objects.list(kind.name, namespace)
        return json_response(ObjectList(kind=kind.name, revision=revision, items=tuple(items)))

    async def get_object(request: web.Request) -> web.Response:
        key = _key(request)
        if (found := backend.objects.get(key)) is None:
            raise NotFound(key)
        return json_response(found)

    async def delete_object(request: web.Request) -> web.Response:
        key = _key(request)
        await backend.objects.delete(key, grace_s=number_in(request, "grace_s"))
        return json_response({"deleted": str(key)})

    async def apply(request: web.Request) -> web.Response:
        manifests = await read_body(request, tuple[Manifest, ...])
        ignored = backend.facts().config.ignored_namespaces
        return json_response(await apply_manifests(manifests, backend.objects, ignored=ignored))

    return [
        web.get("/v1/kinds", list_kinds),
        web.get("/v1/objects/{kind}", list_objects, name="stream-objects"),
        web.get("/v1/objects/{kind}/{namespace}/{name}", get_object),
        web.delete("/v1/objects/{kind}/{namespace}/{name}", delete_object),
        web.post("/v1/apply", apply),
    ]


def _key(request: web.Request) -> ObjectKey:
    kind = find_kind(request.match_info["kind"])
    return ObjectKey(
        kind.name, request.match_info["namespace"] if kind.is_namespaced else "", request.match_info["name"]
    )


async def _events(objects: ObjectStore, kind: Kind, namespace: str | None) -> AsyncIterator[bytes]:
    """What is there as ADDED, a bookmark, then every change."""
    items, revision = objects.list(kind.name, namespace)
    for item in items:
        yield _line(WatchEvent(type=EventType.ADDED, revision=revision, object=item))
    yield _line(WatchEvent(type=EventType.BOOKMARK, revision=revision))
    async for event in objects.watch(revision, kind.name):
        if event.object is not None and namespace in {None, _namespace(event.object)}:
            yield _line(event)


def _namespace(object_: dict[str, Any]) -> str | None:
    namespace: str | None = object_["metadata"].get("namespace")
    return namespace


def _line(event: WatchEvent) -> bytes:
    return msgspec.json.encode(event) + b"\n"
