"""The gRPC side of the ADS server, with a client that is no Envoy."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
from tests.support.ads_client import AdsClient, ads_client, names_in

from aether.adapters.clock import ManualClock
from aether.adapters.envoy.frames import Snapshot
from aether.adapters.envoy.xds import TICK_S, AdsServer
from aether.model.facts import Rejection
from aether.render.envoy.resource import Resource, resource_of
from aether.wire.xds.delta import STALL_S, WITHHELD
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, SECRET

WAIT_S = 5.0


def _resources(type_url: str, *names: str, body: bytes = b"1") -> dict[str, Resource]:
    return {name: resource_of(name, type_url, body) for name in names}


def _clusters(*names: str) -> Snapshot:
    return {CLUSTER: _resources(CLUSTER, *names)}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def server(tmp_path: Path, clock: ManualClock) -> AsyncIterator[AdsServer]:
    server = AdsServer(tmp_path / "ads.sock", clock=clock)
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def client(server: AdsServer, tmp_path: Path) -> AsyncIterator[AdsClient]:
    async with ads_client(tmp_path / "ads.sock") as client:
        yield client


async def test_what_is_published_is_sent_and_its_acknowledgement_known(server: AdsServer, client: AdsClient) -> None:
    server.publish(_clusters("a"))
    await client.say(CLUSTER)
    response = await client.hear_and_ack()
    assert names_in(response) == ["a"]
    assert response.resources[0].resource.value == b"1"
    assert await server.wait_acked(CLUSTER, frozenset({"a"}), WAIT_S)
    assert server.statistics().of(CLUSTER).held == 1


async def test_nothing_is_acknowledged_while_nobody_is_connected(server: AdsServer) -> None:
    server.publish(_clusters("a"))
    assert not await server.wait_acked(CLUSTER, frozenset({"a"}), 0.0)


async def test_a_publication_wakes_an_open_stream(server: AdsServer, client: AdsClient) -> None:
    server.publish({})
    await client.say(CLUSTER)
    assert names_in(await client.hear_and_ack()) == []
    server.publish(_clusters("a"))
    assert names_in(await client.hear_and_ack()) == ["a"]
    server.publish(_clusters())
    await client.say(LISTENER)
    assert names_in(await client.hear_and_ack()) == []


async def test_on_demand_names_are_asked_of_the_application(server: AdsServer, client: AdsClient) -> None:
    asked = []

    def publish(name: str) -> bool:
        asked.append(name)
        server.publish(_clusters("a", name))
        return True

    server.on_demand = publish
    server.publish(_clusters("a"))
    await client.say(CLUSTER)
    await client.hear_and_ack()
    await client.say(CLUSTER, "cold")
    assert names_in(await client.hear_and_ack()) == ["cold"]
    assert asked == ["cold"]


async def test_a_declined_name_is_answered_as_removed(server: AdsServer, client: AdsClient) -> None:
    server.publish(_clusters("a"))
    await client.say(CLUSTER)
    await client.hear_and_ack()
    await client.say(CLUSTER, "unknown")
    assert names_in(await client.hear_and_ack()) == ["-unknown"]
    await client.say(SECRET, "out/none")
    assert names_in(await client.hear_and_ack()) == ["-out/none"]


async def test_a_name_that_an_earlier_answer_published_is_not_asked_again(server: AdsServer, client: AdsClient) -> None:
    asked = []

    def publish(name: str) -> bool:
        asked.append(name)
        server.publish(_clusters("x", "y"))
        return True

    server.on_demand = publish
    server.publish({})
    await client.say(CLUSTER, "*", "x", "y")
    assert names_in(await client.hear_and_ack()) == ["x", "y"]
    assert asked == ["x"]


async def test_names_that_a_reconnecting_envoy_knows_are_told_before_the_first_publication(
    server: AdsServer, client: AdsClient
) -> None:
    told: asyncio.Queue[frozenset[str]] = asyncio.Queue()
    server.on_known_names = told.put_nowait
    (version,) = (one.version for one in _resources(CLUSTER, "x").values())
    await client.say(CLUSTER, "*", "x", x=version)
    async with asyncio.timeout(WAIT_S):
        assert await told.get() == {"x"}
    server.publish(_clusters("x", "y"))
    assert names_in(await client.hear_and_ack()) == ["y"]
    assert await server.wait_acked(CLUSTER, frozenset({"x", "y"}), WAIT_S)


async def test_refusals_are_reported_until_the_content_changes(server: AdsServer, client: AdsClient) -> None:
    changes: asyncio.Queue[tuple[Rejection, ...]] = asyncio.Queue()
    server.on_rejections = lambda: changes.put_nowait(server.rejections())
    server.publish({LISTENER: _resources(LISTENER, "l")})
    await client.say(LISTENER)
    response = await client.hear()
    await client.say(LISTENER, nonce=response.nonce, error="no netns")
    assert not await server.wait_acked(LISTENER, frozenset({"l"}), WAIT_S)
    assert await changes.get() == (Rejection(type_url=LISTENER, name="l", text="no netns"),)
    server.publish({LISTENER: _resources(LISTENER, "l", body=b"2")})
    assert await changes.get() == ()
    assert names_in(await client.hear_and_ack()) == ["l"]
    assert server.statistics().of(LISTENER).nacked == 1


async def test_what_is_said_of_a_secret_is_not_repeated(server: AdsServer, client: AdsClient) -> None:
    server.publish({SECRET: _resources(SECRET, "s")})
    await client.say(SECRET, "s")
    response = await client.hear()
    await client.say(SECRET, nonce=response.nonce, error="BEGIN PRIVATE KEY")
    assert not await server.wait_acked(SECRET, frozenset({"s"}), WAIT_S)
    assert [one.text for one in server.rejections()] == [WITHHELD]


async def test_two_streams_each_get_everything_and_the_newest_counts(
    server: AdsServer, client: AdsClient, tmp_path: Path
) -> None:
    server.publish(_clusters("a"))
    await client.say(CLUSTER)
    await client.hear_and_ack()
    assert await server.wait_acked(CLUSTER, frozenset({"a"}), WAIT_S)
    async with ads_client(tmp_path / "ads.sock") as second:
        await second.say(CLUSTER)
        assert names_in(await second.hear()) == ["a"]
        assert not await server.wait_acked(CLUSTER, frozenset({"a"}), 0.0)
        assert server.statistics().streams == 2
    assert await server.wait_acked(CLUSTER, frozenset({"a"}), WAIT_S), "the first is the newest again"


async def test_silence_is_noticed_by_the_clock(server: AdsServer, client: AdsClient, clock: ManualClock) -> None:
    server.publish({**_clusters("a"), ENDPOINT: _resources(ENDPOINT, "a")})
    await client.say(CLUSTER)
    await client.hear()
    await client.say(ENDPOINT, "a")
    assert names_in(await client.hear_and_ack()) == ["a"]
    for _ in range(int(STALL_S / TICK_S) + 1):
        clock.advance(TICK_S)
        await asyncio.sleep(0)  # noqa: TID251 -- lets the tick run; no time passes
    assert (await client.hear()).type_url == ENDPOINT, "the assignment is sent again"


async def test_bytes_that_are_no_request_end_the_stream_only(
    server: AdsServer, client: AdsClient, tmp_path: Path
) -> None:
    await client.say_bytes(b"\xff\xff\xff")
    assert await client.status() is grpc.StatusCode.INVALID_ARGUMENT
    server.publish(_clusters("a"))
    async with ads_client(tmp_path / "ads.sock") as second:
        await second.say(CLUSTER)
        assert names_in(await second.hear()) == ["a"]


async def test_a_socket_that_an_earlier_server_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "left.sock").touch()
    server = AdsServer(tmp_path / "left.sock")
    await server.start()
    server.publish(_clusters("a"))
    async with ads_client(tmp_path / "left.sock") as client:
        await client.say(CLUSTER)
        assert names_in(await client.hear()) == ["a"]
    await server.stop()
    await server.stop()
