"""The ADS server and the supervisor against the Envoy that they are for."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence

import aiohttp
import pytest
import pytest_asyncio
from tests.support.ports import free_port
from tests.support.xds_lab import (
    Lab,
    assignment,
    bad_cluster,
    certificate,
    counts,
    eds_cluster,
    invalid_cluster,
    listener,
    phantom_cluster,
    running_lab,
    secret_cluster,
    table,
    tombstone,
    until,
)

from aether.adapters.clock import SystemClock
from aether.adapters.envoy.process import BootstrapRejected, envoy_program, validate
from aether.control.supervisor import Life, Supervisor
from aether.render.envoy.resource import Resource
from aether.wire.xds.delta import WITHHELD
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, SECRET

pytestmark = pytest.mark.envoy

IMMEDIATELY_S = 0.5
"""Far below every timeout of Envoy (1 s and more), far above what a message takes on a busy machine."""


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[Lab]:
    async with running_lab() as lab:
        lab.put(*lab.basics())
        assert await lab.supervisor.wait_serving(20.0), lab.supervisor.report()
        assert await lab.acked(LISTENER)
        assert await lab.acked(ROUTE)
        yield lab


@pytest_asyncio.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_clusters_endpoints_listeners_and_routes_arrive_and_serve(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    assert await lab.request("base", client) == 200
    assert counts(lab) == {"Cluster": 1, "ClusterLoadAssignment": 1, "Listener": 1, "RouteConfiguration": 1}
    assert await lab.acked(CLUSTER)
    assert await lab.acked(ENDPOINT)
    assert lab.server.statistics().of(CLUSTER).held == 1
    assert not lab.server.rejections()


async def test_a_cold_cluster_is_answered_on_demand(lab: Lab, client: aiohttp.ClientSession) -> None:
    asked = lab.answer(lab.live)
    assert [await lab.request("cold", client) for _ in range(3)] == [200, 200, 200]
    assert asked == ["cold"]


async def test_an_unknown_name_is_refused_at_once_again_and_again(lab: Lab, client: aiohttp.ClientSession) -> None:
    lab.answer(tombstone)
    for _ in range(4):
        began = time.monotonic()
        assert await lab.request("nobody", client) == 503
        assert time.monotonic() - began < IMMEDIATELY_S


async def test_a_tombstone_becomes_a_cluster_when_it_is_published(lab: Lab, client: aiohttp.ClientSession) -> None:
    lab.answer(tombstone)
    assert await lab.request("later", client) == 503
    lab.put(*lab.live("later"))
    assert await lab.acked(CLUSTER, "later")
    assert await lab.request("later", client) == 200


async def test_a_declined_name_fails_at_once_the_first_time(lab: Lab, client: aiohttp.ClientSession) -> None:
    began = time.monotonic()
    assert await lab.request("declined", client) == 503
    assert time.monotonic() - began < IMMEDIATELY_S


async def test_fifty_cold_names_at_once_are_all_answered(lab: Lab, client: aiohttp.ClientSession) -> None:
    lab.answer(lab.live)
    assert set(await asyncio.gather(*(lab.request(f"c{n}", client) for n in range(50)))) == {200}


@pytest.mark.parametrize("bad", [bad_cluster, invalid_cluster, phantom_cluster], ids=lambda f: f.__name__)
async def test_a_refused_cluster_is_reported_and_the_others_are_applied(
    lab: Lab, client: aiohttp.ClientSession, bad: Callable[[str], Resource]
) -> None:
    good = [resource for n in range(5) for resource in lab.live(f"g{n}")]
    lab.put(bad("bad"), *good)
    assert await lab.acked(CLUSTER, *(f"g{n}" for n in range(5)))
    assert not await lab.acked(CLUSTER)
    (rejection,) = lab.server.rejections()
    assert (rejection.type_url, rejection.name) == (CLUSTER, "bad")
    assert rejection.text
    assert await lab.request("g3", client) == 200
    lab.put(*lab.live("after"))
    assert await lab.acked(CLUSTER, "after"), "clusters are still acknowledged"
    lab.put(*tombstone("bad"))
    assert await lab.acked(CLUSTER)
    assert not lab.server.rejections()


async def test_the_refused_update_of_a_cluster_leaves_the_old_one_serving(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.put(phantom_cluster("base"))
    assert not await lab.acked(CLUSTER, "base")
    lab.put(*lab.live("after"))
    assert await lab.acked(CLUSTER, "after"), "clusters are still acknowledged"
    assert await lab.request("base", client) == 200


async def test_a_refused_cluster_that_was_asked_for_on_demand_refuses_at_once(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.answer(lambda name: (phantom_cluster(name),))
    for _ in range(3):
        began = time.monotonic()
        assert await lab.request("cold", client) == 503
        assert time.monotonic() - began < IMMEDIATELY_S
    assert [one.name for one in lab.server.rejections()] == ["cold"]


async def test_a_refused_listener_is_reported_in_envoys_words_and_the_others_serve(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.put(listener("taken", lab.port), listener("free", free_port()))
    assert not await lab.acked(LISTENER)
    (rejection,) = lab.server.rejections()
    assert (rejection.type_url, rejection.name) == (LISTENER, "taken")
    assert "duplicate address" in rejection.text
    assert await lab.acked(LISTENER, "free")
    assert await lab.request("base", client) == 200


async def test_a_refused_table_is_reported_and_the_old_one_serves(lab: Lab, client: aiohttp.ClientSession) -> None:
    lab.put(table(hosts=2))
    await until(lambda: _has(lab, ROUTE), "the table is reported")
    assert await lab.request("base", client) == 200


async def test_a_refused_assignment_is_reported_and_the_old_endpoints_serve(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.put(assignment("base", [lab.backend], address="no-address"))
    await until(lambda: _has(lab, ENDPOINT), "the assignment is reported")
    assert await lab.request("base", client) == 200
    lab.put(eds_cluster("base", connect_timeout_s=2.0))
    assert await lab.acked(CLUSTER, "base"), "its cluster can change all the same"
    assert await lab.request("base", client) == 200


async def test_what_envoy_says_of_a_refused_secret_is_withheld(lab: Lab) -> None:
    lab.put(secret_cluster("tls", "leaf"), certificate("leaf", "PRIVATE"))
    await until(lambda: _has(lab, SECRET), "the secret is reported")
    assert [one.text for one in lab.server.rejections()] == [WITHHELD]
    assert await lab.acked(CLUSTER, "tls"), "its cluster does not wait for ever"


async def test_a_secret_nobody_has_holds_nothing_up(lab: Lab) -> None:
    began = time.monotonic()
    lab.put(secret_cluster("tls", "none"))
    assert await lab.acked(CLUSTER, "tls")
    assert time.monotonic() - began < IMMEDIATELY_S


async def test_a_changed_cluster_is_acknowledged_at_once(lab: Lab, client: aiohttp.ClientSession) -> None:
    began = time.monotonic()
    lab.put(eds_cluster("base", connect_timeout_s=2.0))
    assert await lab.acked(CLUSTER, "base")
    assert time.monotonic() - began < IMMEDIATELY_S
    assert await lab.request("base", client) == 200


async def test_changed_endpoints_are_used_once_they_are_acknowledged(lab: Lab, client: aiohttp.ClientSession) -> None:
    sent = counts(lab)
    for ports, status in (([free_port()], 503), ([], 503), ([lab.backend], 200)):
        lab.put(assignment("base", ports))
        assert await lab.acked(ENDPOINT, "base")
        assert await lab.request("base", client) == status
    assert {key: count - sent[key] for key, count in counts(lab).items() if count != sent[key]} == {
        "ClusterLoadAssignment": 3
    }


async def test_what_is_dropped_is_gone(lab: Lab) -> None:
    lab.put(listener("second", free_port(), table="second"), table("second"), eds_cluster("x"), assignment("x", []))
    assert await lab.acked(LISTENER)
    assert await lab.acked(CLUSTER)
    lab.drop(ENDPOINT, "x")
    lab.drop(CLUSTER, "x")
    lab.drop(LISTENER, "second")
    assert await lab.acked(LISTENER, "second")
    assert await lab.acked(CLUSTER, "x")
    dump = json.dumps(await lab.admin.config_dump("dynamic_active_clusters"))
    assert '"base"' in dump
    assert '"x"' not in dump


async def test_restarts_of_the_server_disturb_nobody_and_send_nothing_again(lab: Lab) -> None:
    lab.answer(tombstone)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        load = [group.create_task(_load(lab, stop)) for _ in range(4)]
        for _ in range(3):
            opened = lab.server.statistics().streams_opened
            await lab.restart_server()
            lab.publish()
            await until(lambda: _is_connected(lab), f"Envoy is back after stream {opened}")
            assert await lab.acked(LISTENER)
            assert await lab.acked(CLUSTER)
            await SystemClock().sleep(0.3)
            assert sum(counts(lab).values()) == 0
        stop.set()
    assert sum(task.result() for task in load) > 100


async def test_a_restarted_server_says_nothing_before_it_knows_what_is_wanted(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.answer(tombstone)
    assert await lab.request("asked", client) == 503
    await lab.restart_server()
    known: list[frozenset[str]] = []
    lab.server.on_known_names = known.append
    await until(lambda: _holds(known), "the names are told")
    assert known == [frozenset({"asked"})]
    assert not any(one.messages for one in lab.server.statistics().types)
    asked = lab.answer(lambda _: ())
    lab.drop(CLUSTER, "asked")
    await until(lambda: _holds(asked), "the application is asked for what it forgot")
    lab.put(*tombstone("asked"))
    assert await lab.acked(CLUSTER)
    assert sum(counts(lab).values()) == 0


async def test_after_a_restart_what_changed_and_what_vanished_arrives_at_once(
    lab: Lab, client: aiohttp.ClientSession
) -> None:
    lab.put(*lab.live("gone"))
    assert await lab.acked(CLUSTER)
    await lab.restart_server()
    lab.wanted[CLUSTER] = {"base": eds_cluster("base", connect_timeout_s=3.0)}
    lab.publish()
    await until(lambda: _is_connected(lab), "Envoy is back")
    began = time.monotonic()
    assert await lab.acked(CLUSTER, "base", "gone")
    assert time.monotonic() - began < 2 * IMMEDIATELY_S
    assert counts(lab) == {"Cluster": 1, "ClusterLoadAssignment": 1}
    assert await lab.request("base", client) == 200


async def test_two_envoys_are_served_by_one_server(lab: Lab) -> None:
    command = lab.command
    second = lab.folder / "second.json"
    text = command.bootstrap.read_text().replace("admin.sock", "admin2.sock").replace("node-1", "node-2")
    second.write_text(text)
    lab.drop(LISTENER, "main")
    supervisor = Supervisor(
        envoy_program(type(command)(bootstrap=second, log_path=lab.folder / "second.log")),
        is_ready=_always,
        clock=SystemClock(),
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(supervisor.run())
        await until(lambda: _has_streams(lab, 2), "both are connected")
        lab.put(*tombstone("both"))
        await until(lambda: _all_hold(lab, 2), "both have both clusters")
        running.cancel()
    await until(lambda: _has_streams(lab, 1), "one is gone")
    lab.put(*tombstone("one"))
    assert await lab.acked(CLUSTER)


async def test_a_killed_envoy_serves_again_within_two_seconds(lab: Lab, client: aiohttp.ClientSession) -> None:
    began = time.monotonic()
    os.kill(lab.supervisor.report().pid, signal.SIGKILL)
    await until(lambda: _serves(lab, client), "requests are answered", within_s=2.0)
    assert time.monotonic() - began < 2.0
    assert await lab.supervisor.wait_serving(5.0)
    assert lab.supervisor.report().starts == 2


async def test_the_admin_socket_tells_and_takes_orders(lab: Lab) -> None:
    info = await lab.admin.server_info()
    assert (info.state, info.epoch) == ("LIVE", 0)
    assert "1.40" in info.version
    assert (await lab.admin.gauges(r"^cluster_manager\.active_clusters$"))["cluster_manager.active_clusters"] > 0
    assert "base" in {one["name"] for one in (await lab.admin.clusters())["cluster_statuses"]}
    await lab.admin.set_log_level("warning")
    await lab.admin.drain_listeners()


async def test_the_rendered_bootstrap_is_valid_and_a_wrong_one_is_refused_with_a_reason(lab: Lab) -> None:
    await validate(lab.command)
    lab.command.bootstrap.write_text('{"admin": {"adress": {}}}')
    with pytest.raises(BootstrapRejected, match="adress"):
        await validate(lab.command)


async def test_an_envoy_that_ends_at_once_is_reported_with_the_end_of_its_log() -> None:
    async with running_lab(starts_envoy=False) as lab:
        lab.command.bootstrap.write_text("{")
        async with asyncio.TaskGroup() as group:
            running = group.create_task(lab.supervisor.run())
            await until(lambda: _is_crash_looping(lab), "it is called a crash loop", within_s=20.0)
            running.cancel()
        assert "bootstrap.json" in lab.supervisor.report().problem
        assert lab.supervisor.report().life is Life.STOPPED


async def _load(lab: Lab, stop: asyncio.Event) -> int:
    """Requests until `stop`, one after the other; how many. Each must be answered with 200."""
    done = 0
    async with aiohttp.ClientSession() as session:
        while not stop.is_set():
            assert await lab.request("base", session) == 200
            done += 1
    return done


async def _has(lab: Lab, type_url: str) -> bool:
    return any(one.type_url == type_url for one in lab.server.rejections())


async def _holds(found: Sequence[object]) -> bool:
    return bool(found)


async def _is_connected(lab: Lab) -> bool:
    return lab.server.statistics().streams > 0


async def _has_streams(lab: Lab, count: int) -> bool:
    return lab.server.statistics().streams == count


async def _all_hold(lab: Lab, clusters: int) -> bool:
    return lab.server.statistics().of(CLUSTER).held == clusters


async def _is_crash_looping(lab: Lab) -> bool:
    return lab.supervisor.report().is_crash_looping


async def _serves(lab: Lab, client: aiohttp.ClientSession) -> bool:
    try:
        return await lab.request("base", client, timeout_s=1.0) == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _always() -> bool:
    return True
