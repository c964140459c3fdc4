from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from aether.api.agent_client import AgentClient
from aether.api.problem import AgentAway, BadRequest, NoSuchPod
from aether.api.server import ApiServer
from aether.errors import AetherError
from aether.model.world import ExplainRequest

QUESTION = ExplainRequest(namespace="shop", pod="cart-1", target="web:80")


class Strange(AetherError):
    code = "strange"


@pytest.mark.parametrize(
    ("raised", "expected"), [(NoSuchPod("x"), NoSuchPod), (BadRequest("x"), BadRequest), (Strange("x"), AgentAway)]
)
async def test_what_the_agent_refuses_is_refused_alike(
    tmp_path: Path, raised: AetherError, expected: type[AetherError]
) -> None:
    async def refuse(_: Any) -> web.Response:
        raise raised

    server = ApiServer(tmp_path / "agent.sock", [web.post("/explain", refuse)])
    await server.start()
    with pytest.raises(expected, match="x"):
        await AgentClient().explain(tmp_path / "agent.sock", QUESTION)
    await server.stop()


async def test_a_socket_without_an_agent_is_an_agent_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "node-7").mkdir()
    with pytest.raises(AgentAway, match="node-7"):
        await AgentClient().scope(tmp_path / "node-7" / "agent.sock")
