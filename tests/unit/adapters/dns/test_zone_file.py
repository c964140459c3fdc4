import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from aether.adapters.dns import (
    ReloadUnavailable,
    Resolver,
    Upstreams,
    ZoneFile,
    ZoneNotWritten,
    ZoneUnreadable,
    write_zone,
)
from aether.adapters.dns.zone_file import read_zone
from aether.plan.mesh.dns import Zone, ZoneName

CART = b"\x04cart\x04shop\x06aether\x08internal\x00"


def planned(*names: str) -> Zone:
    return Zone(
        domains=("aether.internal", "cluster.local"),
        names=tuple(ZoneName(name=name, ipv4=("10.96.0.5",), ipv6=("fd96::5",)) for name in names),
    )


def test_what_was_planned_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dns.json"
    assert write_zone(path, tmp_path / "dns.sock", planned("cart.shop.aether.internal"))
    directory = read_zone(path)
    assert directory.addresses(CART, is_ipv6=False) == (b"\x0a\x60\x00\x05",)
    assert directory.domain_offset(b"\x07cluster\x05local\x00") == 0
    assert [file.name for file in tmp_path.iterdir()] == ["dns.json"]


def test_the_same_zone_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "dns.json"
    assert write_zone(path, tmp_path / "dns.sock", planned("a.b"))
    assert not write_zone(path, tmp_path / "dns.sock", planned("a.b"))
    assert write_zone(path, tmp_path / "dns.sock", planned("a.c"))


def test_a_server_with_a_full_queue_has_been_told(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "dns.sock"))
        for number in range(600):
            assert write_zone(tmp_path / "dns.json", tmp_path / "dns.sock", planned(f"a{number}.b"))


def test_a_zone_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZoneNotWritten) as raised:
        write_zone(tmp_path / "nowhere" / "dns.json", tmp_path / "dns.sock", planned())
    assert raised.value.code == "zone-not-written"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff\xff",
        b'{"domains":[],"names":[{"name":"a..b"}]}',
        b'{"domains":[],"names":[{"name":"a","ipv4":["nowhere"]}]}',
        b'{"domains":["\xff"],"names":[]}',
    ],
)
def test_a_broken_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "dns.json").write_bytes(data)
    with pytest.raises(ZoneUnreadable) as raised:
        read_zone(tmp_path / "dns.json")
    assert raised.value.code == "zone-unreadable"


@contextlib.asynccontextmanager
async def following(folder: Path, resolver: Resolver) -> AsyncIterator[None]:
    with ZoneFile(folder / "dns.json", folder / "dns.sock", resolver) as zone_file:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(zone_file.run())
            try:
                yield
            finally:
                running.cancel()


async def wait_serves(resolver: Resolver, name: str) -> None:
    wire = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\x00"
    await wait_for(lambda: resolver.directory is not None and resolver.directory.exists(wire))


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.to_thread(int)  # the loop's other work has its turn


def rewrite(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def tell(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        teller.sendto(b"reload", str(path))


async def test_the_zone_is_served_from_the_start_and_after_every_change(tmp_path: Path) -> None:
    resolver = Resolver(Upstreams(()))
    path, reload_socket = tmp_path / "dns.json", tmp_path / "dns.sock"
    write_zone(path, reload_socket, planned("a.b"))
    async with following(tmp_path, resolver):
        await wait_serves(resolver, "a.b")
        for number in range(30):
            write_zone(path, reload_socket, planned(f"a{number}.b"))
        await wait_serves(resolver, "a29.b")


async def test_a_zone_that_comes_later_is_served_then(tmp_path: Path) -> None:
    resolver = Resolver(Upstreams(()))
    async with following(tmp_path, resolver):
        write_zone(tmp_path / "dns.json", tmp_path / "dns.sock", planned("a.b"))
        await wait_serves(resolver, "a.b")


async def test_a_broken_file_keeps_the_zone_before_it(tmp_path: Path) -> None:
    resolver = Resolver(Upstreams(()))
    path, reload_socket = tmp_path / "dns.json", tmp_path / "dns.sock"
    write_zone(path, reload_socket, planned("a.b"))
    async with following(tmp_path, resolver):
        await wait_serves(resolver, "a.b")
        before = resolver.directory
        with capture_logs() as logs:
            rewrite(path, msgspec.json.encode(planned("a.c"))[:-5])
            tell(reload_socket)
            await wait_for(lambda: "zone-refused" in [entry["event"] for entry in logs])
        assert resolver.directory is before
        write_zone(path, reload_socket, planned("a.d"))
        await wait_serves(resolver, "a.d")


async def test_a_socket_left_behind_is_replaced(tmp_path: Path) -> None:
    resolver = Resolver(Upstreams(()))
    for name in ("a.b", "a.c"):
        write_zone(tmp_path / "dns.json", tmp_path / "dns.sock", planned(name))
        async with following(tmp_path, resolver):
            await wait_serves(resolver, name)


def test_a_reload_socket_that_cannot_be_had_is_an_error(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere" / "dns.sock"
    with pytest.raises(ReloadUnavailable) as raised, ZoneFile(tmp_path / "dns.json", nowhere, Resolver(Upstreams(()))):
        pass
    assert raised.value.code == "reload-unavailable"
