"""Reading requests and writing replies: JSON by msgspec, one value a line when streamed."""

from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from aiohttp import web

from aether.api.problem import BadRequest

T = TypeVar("T")

NDJSON = "application/x-ndjson"


def json_response(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def read_body(request: web.Request, type_: type[T]) -> T:
    """The body as a value. Raises msgspec's errors, which are the client's fault, and HTTPException above the limit."""
    return msgspec.json.decode(await request.read(), type=type_)


def number_in(request: web.Request, name: str) -> int | None:
    """A query parameter that is a natural number; None without it. Raises BadRequest."""
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(f"{name}={text!r} is not a number")
    return int(text)


def flag_in(request: web.Request, name: str) -> bool:
    """A query parameter that is ``true`` or ``false`` (or absent, which is false). Raises BadRequest."""
    text = request.query.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise BadRequest(f"{name}={text!r} is neither true nor false")
    return text == "true"


async def stream(request: web.Request, chunks: AsyncIterator[bytes], content_type: str) -> web.StreamResponse:
    """Send what comes, as it comes; the headers go first, at once."""
    response = web.StreamResponse(headers={"content-type": content_type})
    await response.prepare(request)
    async for chunk in chunks:
        await response.write(chunk)
    await response.write_eof()
    return response
