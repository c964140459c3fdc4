"""What a node's proxy counted and logged: the outside evidence of how a connection travelled."""

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.world import RunningWorld

from aether.adapters.envoy.admin import EnvoyAdmin


def nodes_of(mesh: RunningWorld) -> list[str]:
    return sorted(entry.name for entry in mesh.paths.runtime.joinpath("nodes").iterdir())


def gauges(mesh: RunningWorld, pattern: str) -> dict[str, int]:
    """Counters and gauges whose name matches, summed over the nodes."""
    total: dict[str, int] = {}
    for node in nodes_of(mesh):
        for name, value in asyncio.run(EnvoyAdmin(mesh.paths.node(node).admin_socket).gauges(pattern)).items():
            total[name] = total.get(name, 0) + value
    return total


def routes(mesh: RunningWorld) -> list[Any]:
    """Every route table of every node with its version and the time of its last update."""
    found = []
    for node in nodes_of(mesh):
        admin = EnvoyAdmin(mesh.paths.node(node).admin_socket)
        dump: Mapping[str, Any] = asyncio.run(admin.config_dump("dynamic_route_configs"))
        found += [(node, one["route_config"]["name"], one["last_updated"]) for one in dump["configs"]]
    return sorted(found)


def access_lines(mesh: RunningWorld) -> list[dict[str, Any]]:
    """Every node's access log, a node after the other."""
    logs = [mesh.paths.node(node).access_log for node in nodes_of(mesh)]
    return [json.loads(line) for log in logs if log.exists() for line in log.read_text().splitlines()]


@contextlib.contextmanager
def over_mesh_tls(mesh: RunningWorld, *stat_keys: str) -> Iterator[None]:
    """The block opens connections of these clusters, each over the mesh's TLS, and none passes through or fails.

    A mesh cluster has one transport socket, which presents the caller's certificate and pins the service's identity:
    a handshake that succeeded is the proof of both.
    """
    before = gauges(mesh, _HOPS)
    yield
    after = gauges(mesh, _HOPS)
    grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    for key in stat_keys:
        assert grown.get(f"cluster.{key}.ssl.handshake", 0) > 0, grown
        assert grown[f"cluster.{key}.ssl.handshake"] == grown[f"cluster.{key}.upstream_cx_total"], grown
    assert "cluster.passthrough.upstream_cx_total" not in grown, grown


_HOPS = r"^cluster\..*\.(ssl\.handshake|upstream_cx_total)$"
