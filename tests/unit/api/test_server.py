import socket
import stat
from pathlib import Path

from tests.support.memoryworld import ServedWorld, ask

from aether.api.server import ApiServer


def test_only_the_owner_may_open_the_sockets(served: ServedWorld) -> None:
    for path in (served.paths.api_socket, served.paths.exec_socket, served.paths.node("node-1").agent_socket):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))
    server = ApiServer(path, [])
    await server.start()
    await server.stop()


def test_a_handler_that_fails_answers_and_the_next_request_is_served(served: ServedWorld) -> None:
    served.world.known = None  # type: ignore[assignment]  # what a defect would do
    status, problem = ask(served.paths.api_socket, "GET", "/v1/status")
    assert (status, problem["code"]) == (500, "internal")
    assert ask(served.paths.api_socket, "GET", "/v1/version")[0] == 200
