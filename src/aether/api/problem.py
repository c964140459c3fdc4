"""Errors to HTTP: one table of statuses, one body (RFC 9457) with the code and every diagnostic."""

import asyncio
from collections.abc import Mapping

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from aether.errors import AetherError, Diagnostic, Rejected

CONTENT_TYPE = "application/problem+json"

log = structlog.get_logger()


class BadRequest(AetherError):
    """The request is not one of this API's."""

    code = "bad-request"


class NoSuchPath(AetherError):
    code = "no-such-path"


class NoSuchPod(AetherError):
    code = "no-such-pod"


class SeveralPods(AetherError):
    """A name without a namespace that pods of several namespaces answer to."""

    code = "several-pods"


class NoSuchContainer(AetherError):
    code = "no-such-container"


class NoSuchNode(AetherError):
    code = "no-such-node"


class NoSuchResource(AetherError):
    code = "no-such-resource"


class AgentAway(AetherError):
    """The node's agent does not answer."""

    code = "agent-away"


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457, section 3.1, with two members of our own: `code` and `diagnostics`."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    diagnostics: tuple[Diagnostic, ...] = ()


STATUS_BY_CODE: Mapping[str, int] = {
    "bad-request": 400,
    "unknown-kind": 400,
    "several-pods": 400,
    "not-found": 404,
    "no-such-path": 404,
    "no-such-pod": 404,
    "no-such-container": 404,
    "no-such-node": 404,
    "no-such-resource": 404,
    "method-not-allowed": 405,
    "conflict": 409,
    "gone": 410,
    "body-too-large": 413,
    "rejected": 422,
    "internal": 500,
    "agent-away": 503,
    "timed-out": 504,
    "storage-failed": 507,
}
"""Codes that are not here are failures of the world: 500."""

_CODE_BY_STATUS = {404: "no-such-path", 405: "method-not-allowed", 413: "body-too-large"}


def problem_of(error: Exception) -> Problem:
    """What a client is told of `error`. Those not raised on purpose are `internal`: class only."""
    match error:
        case AetherError():
            diagnostics = error.diagnostics if isinstance(error, Rejected) else ()
            return _problem(error.code, str(error), diagnostics)
        case web.HTTPException():
            code = _CODE_BY_STATUS.get(error.status, "bad-request")
            return _problem(code, error.text or error.reason)
        case msgspec.MsgspecError() | UnicodeDecodeError():
            return _problem("bad-request", f"the body was not understood: {error}")
        case TimeoutError():
            return _problem("timed-out", "the answer took too long")
        case _:
            return _problem("internal", f"{type(error).__name__}; the world's log has the rest")


def problem_response(problem: Problem) -> web.Response:
    return web.Response(status=problem.status, body=msgspec.json.encode(problem), content_type=CONTENT_TYPE)


def answer_with_problems(timeout_s: float) -> Middleware:
    """A middleware: errors become problems, and an answer that has not begun after `timeout_s` becomes `timed-out`.

    Handlers whose route is named ``stream-…`` have no time limit.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        is_stream = (request.match_info.route.name or "").startswith("stream-")
        try:
            async with asyncio.timeout(None if is_stream else timeout_s):
                return await handler(request)
        except ConnectionError:
            raise  # the client is gone; there is nobody to tell
        except Exception as error:
            problem = problem_of(error)
            if problem.code == "internal":
                log.exception("api-failed", method=request.method, path=request.path)
            return problem_response(problem)

    return middleware


def _problem(code: str, detail: str, diagnostics: tuple[Diagnostic, ...] = ()) -> Problem:
    status = STATUS_BY_CODE.get(code, 500)
    title = code.replace("-", " ").capitalize()
    return Problem(
        type=f"urn:aether:error:{code}", title=title, status=status, detail=detail, code=code, diagnostics=diagnostics
    )
