"""Plan to Envoy resources: each case's clusters, load assignments, listeners and tables; and the bootstrap."""

from pathlib import Path

import msgspec
import pytest
import yaml
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from google.protobuf import json_format
from google.protobuf.message import Message
from tests.support.golden import Golden, cases

from aether.plan.mesh.node import NodePlan
from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.snapshot import Snapshot, consistency, render_snapshot

CASES = Path(__file__).parent / "envoy"
WIDTH = 118


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole input of a case."""

    plan: NodePlan
    access_log: str = ""


def read(folder: Path) -> Snapshot:
    case = msgspec.convert(yaml.safe_load((folder / "in.yaml").read_text()), Case)
    return render_snapshot(case.plan, access_log=case.access_log)


@pytest.mark.parametrize("folder", cases(CASES), ids=lambda folder: folder.name)
def test_a_plan_gives_the_committed_resources(folder: Path, golden: Golden) -> None:
    snapshot = read(folder)
    golden.check(folder / "clusters.yaml", _spelled(snapshot, names.CLUSTER, cluster_pb2.Cluster))
    golden.check(folder / "endpoints.yaml", _spelled(snapshot, names.ENDPOINT, endpoint_pb2.ClusterLoadAssignment))
    golden.check(folder / "listeners.yaml", _spelled(snapshot, names.LISTENER, listener_pb2.Listener))
    golden.check(folder / "routes.yaml", _spelled(snapshot, names.ROUTE, route_pb2.RouteConfiguration))
    golden.check(folder / "versions.txt", _versions(snapshot))


@pytest.mark.parametrize("folder", cases(CASES), ids=lambda folder: folder.name)
def test_every_committed_snapshot_is_sound(folder: Path) -> None:
    assert consistency(read(folder)) == []


def test_the_bootstrap_is_the_committed_one(golden: Golden) -> None:
    settings = BootstrapSettings(node="n1", ads_socket="/run/n1/ads.sock", admin_socket="/run/n1/admin.sock")
    golden.check(CASES / "bootstrap.yaml", _yaml(render_bootstrap(settings)))


def test_there_are_cases() -> None:
    assert cases(CASES)


def _spelled(snapshot: Snapshot, type_url: str, kind: type[Message]) -> str:
    return "".join(
        f"--- # {name}\n{_yaml(json_format.MessageToDict(kind.FromString(resource.body)))}"
        for name, resource in snapshot[type_url].items()
    )


def _versions(snapshot: Snapshot) -> str:
    """Committed, since they must be the same in every process: a node that restarts sends nothing anew."""
    return "".join(
        f"{resource.version} {name}\n" for resources in snapshot.values() for name, resource in resources.items()
    )


def _yaml(value: object) -> str:
    plain = msgspec.json.decode(msgspec.json.encode(value, order="sorted"))
    return yaml.safe_dump(plain, sort_keys=False, width=WIDTH, default_flow_style=None)
