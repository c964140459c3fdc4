"""Ask a node's agent over its unix socket."""

import asyncio
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec

from aether.api.problem import AgentAway, BadRequest, NoSuchPod, Problem
from aether.model.world import ExplainRequest, Explanation, NodeScope

TIMEOUT_S = 5.0

T = TypeVar("T")


class AgentClient:
    """Stateless: one connection a question, since agents come and go."""

    async def explain(self, socket: Path, request: ExplainRequest) -> Explanation:
        return await self._ask(socket, "POST", "/explain", reply=Explanation, body=request)

    async def scope(self, socket: Path) -> NodeScope:
        return await self._ask(socket, "GET", "/scope", reply=NodeScope)

    async def _ask(self, socket: Path, method: str, path: str, *, reply: type[T], body: object = None) -> T:
        """Raises AgentAway when there is no answer, NoSuchPod or BadRequest when the agent says so."""
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with (
                asyncio.timeout(TIMEOUT_S),
                aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as session,
                session.request(method, f"http://agent{path}", data=data) as response,
            ):
                answer = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            node = socket.parent.name
            raise AgentAway(f"the agent of {node} does not answer ({type(error).__name__}): {error}") from error
        if response.status >= 400:
            raise _refusal(answer)
        return msgspec.json.decode(answer, type=reply)


def _refusal(answer: bytes) -> Exception:
    problem = msgspec.json.decode(answer, type=Problem)
    match problem.code:
        case "no-such-pod" | "not-found":
            return NoSuchPod(problem.detail)
        case "bad-request":
            return BadRequest(problem.detail)
        case _:
            return AgentAway(problem.detail)
