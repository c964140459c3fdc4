"""The admin client against a server that answers like Envoy; the real one is in tests/conformance."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from aether.adapters.envoy.admin import AdminUnavailable, EnvoyAdmin, ServerInfo

_INFO = """{"state": "LIVE", "version": "abc/1.40.0/Clean", "uptime_current_epoch": "7s", "hot_restart_version": "x",
 "command_line_options": {"restart_epoch": 3, "concurrency": 2}}"""
_STATS = 'cluster.a.membership_healthy: 1\ncluster.b.rq_time: No recorded values\nversion.text: "1.40"\nup: 12\n'


class FakeEnvoy:
    """Answers by path; what it was asked is in `asked`."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, str]] = {}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        status, text = self.answers.get(request.path, (404, "invalid path"))
        return web.Response(status=status, text=text)


@pytest.fixture
def admin(tmp_path: Path) -> EnvoyAdmin:
    return EnvoyAdmin(tmp_path / "admin.sock", timeout_s=2.0)


@pytest_asyncio.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[FakeEnvoy]:
    fake = FakeEnvoy()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "admin.sock")).start()
    yield fake
    await runner.cleanup()


@pytest.mark.parametrize(("status", "text", "is_live"), [(200, "LIVE\n", True), (503, "INITIALIZING\n", False)])
async def test_live_is_what_ready_says(
    envoy: FakeEnvoy, admin: EnvoyAdmin, status: int, text: str, *, is_live: bool
) -> None:
    envoy.answers["/ready"] = (status, text)
    assert await admin.is_live() is is_live


async def test_nobody_at_the_socket_is_not_live_and_everything_else_an_error(admin: EnvoyAdmin) -> None:
    assert not await admin.is_live()
    with pytest.raises(AdminUnavailable, match="/server_info") as caught:
        await admin.server_info()
    assert caught.value.code == "envoy-admin-unavailable"


async def test_server_info_says_state_version_epoch_and_age(envoy: FakeEnvoy, admin: EnvoyAdmin) -> None:
    envoy.answers["/server_info"] = (200, _INFO)
    assert await admin.server_info() == ServerInfo(state="LIVE", version="abc/1.40.0/Clean", epoch=3, uptime_s=7)


@pytest.mark.parametrize("text", ["", "not json", "[]", '{"state": 1}'])
async def test_an_answer_that_is_not_understood_is_an_error(envoy: FakeEnvoy, admin: EnvoyAdmin, text: str) -> None:
    envoy.answers["/server_info"] = (200, text)
    with pytest.raises(AdminUnavailable):
        await admin.server_info()


async def test_gauges_are_the_statistics_with_whole_numbers(envoy: FakeEnvoy, admin: EnvoyAdmin) -> None:
    envoy.answers["/stats"] = (200, _STATS)
    assert await admin.gauges("^cluster") == {"cluster.a.membership_healthy": 1, "up": 12}
    assert envoy.asked == ["GET /stats?filter=%5Ecluster"]


async def test_dumps_are_read_as_json_and_narrowed_by_the_query(envoy: FakeEnvoy, admin: EnvoyAdmin) -> None:
    envoy.answers["/config_dump"] = envoy.answers["/clusters"] = (200, '{"configs": []}')
    assert await admin.config_dump() == {"configs": []}
    assert await admin.config_dump("dynamic_listeners", name_regex="main") == {"configs": []}
    assert await admin.clusters() == {"configs": []}
    assert envoy.asked == [
        "GET /config_dump",
        "GET /config_dump?resource=dynamic_listeners&name_regex=main",
        "GET /clusters?format=json",
    ]
    envoy.answers["/clusters"] = (200, "name::a")
    with pytest.raises(AdminUnavailable, match="JSON"):
        await admin.clusters()


async def test_orders_are_posts_and_a_refused_one_is_an_error(envoy: FakeEnvoy, admin: EnvoyAdmin) -> None:
    envoy.answers["/drain_listeners"] = (200, "OK\n")
    await admin.drain_listeners()
    await admin.drain_listeners(is_graceful=False)
    assert envoy.asked == ["POST /drain_listeners?graceful=", "POST /drain_listeners"]
    with pytest.raises(AdminUnavailable, match="404 invalid path"):
        await admin.set_log_level("loud")
