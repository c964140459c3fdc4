"""The administration interface, against a server on a unix socket that answers as Envoy does, or does not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from aether.adapters.envoy.admin import AdminUnavailable, EnvoyAdmin, ServerInfo

INFO = (
    '{"state":"LIVE","version":"9e55/1.40.0/Clean","uptime_current_epoch":"12s",'
    '"command_line_options":{"restart_epoch":3}}'
)
STATS = "cluster.probe_a.membership_healthy: 1\nserver.state: LIVE\nlistener.x: 0\n"


class Envoy:
    """Answers from a table of paths; remembers what it was asked."""

    def __init__(self) -> None:
        self.answers = {"/ready": (200, "LIVE\n"), "/server_info": (200, INFO), "/stats": (200, STATS)}
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.rel_url}")
        status, text = self.answers.get(request.path, (404, "no such page"))
        return web.Response(status=status, text=text)


@pytest.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[Envoy]:
    envoy = Envoy()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", envoy.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "admin")).start()
    yield envoy
    await runner.cleanup()


async def test_live_is_only_what_says_so(envoy: Envoy, tmp_path: Path) -> None:
    admin = EnvoyAdmin(tmp_path / "admin")
    assert await admin.is_live()
    envoy.answers["/ready"] = (503, "INITIALIZING\n")
    assert not await admin.is_live()
    assert not await EnvoyAdmin(tmp_path / "nobody").is_live()


async def test_numbers_are_read_and_other_statistics_left_out(envoy: Envoy, tmp_path: Path) -> None:
    gauges = await EnvoyAdmin(tmp_path / "admin").gauges(r"^cluster\.")
    assert gauges == {"cluster.probe_a.membership_healthy": 1, "listener.x": 0}
    assert envoy.asked == ["GET /stats?filter=%5Ecluster%5C."]


async def test_the_servers_own_account_is_read(envoy: Envoy, tmp_path: Path) -> None:
    info = await EnvoyAdmin(tmp_path / "admin").server_info()
    assert info == ServerInfo(state="LIVE", version="9e55/1.40.0/Clean", epoch=3, uptime_s=12)
    envoy.answers["/server_info"] = (200, "<html>")
    with pytest.raises(AdminUnavailable, match="not understood"):
        await EnvoyAdmin(tmp_path / "admin").server_info()


Call = Callable[[EnvoyAdmin], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "asks"),
    [
        (lambda admin: admin.clusters(), "GET /clusters?format=json"),
        (
            lambda admin: admin.config_dump("listeners", name_regex="x"),
            "GET /config_dump?resource=listeners&name_regex=x",
        ),
        (lambda admin: admin.drain_listeners(), "POST /drain_listeners?graceful="),
        (lambda admin: admin.drain_listeners(is_graceful=False), "POST /drain_listeners"),
        (lambda admin: admin.set_log_level("debug"), "POST /logging?level=debug"),
    ],
)
async def test_each_call_asks_one_page_and_an_error_is_our_own(
    envoy: Envoy, tmp_path: Path, call: Call, asks: str
) -> None:
    with pytest.raises(AdminUnavailable, match="404 no such page"):
        await call(EnvoyAdmin(tmp_path / "admin"))
    assert envoy.asked == [asks]
    envoy.answers[asks.split()[1].partition("?")[0]] = (200, "{}")
    await call(EnvoyAdmin(tmp_path / "admin"))
    with pytest.raises(AdminUnavailable):
        await call(EnvoyAdmin(tmp_path / "nobody"))
