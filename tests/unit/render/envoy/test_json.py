"""Resources as JSON data."""

from tests.support.envoy_plans import CONFIG, HTTP_CLUSTER, POD

from aether.model.secret import Secret
from aether.plan.mesh.node import NodePlan
from aether.render.envoy.json import resource_as_json
from aether.render.envoy.secrets import render_certificate
from aether.render.envoy.snapshot import render_snapshot


def test_every_resource_of_a_snapshot_can_be_read_by_people() -> None:
    snapshot = render_snapshot(NodePlan(node="n1", config=CONFIG, pods=(POD,), clusters=(HTTP_CLUSTER,)))
    for resources in snapshot.values():
        for name, resource in resources.items():
            assert name in (data := resource_as_json(resource)).values(), data


def test_a_secret_shows_its_name_and_version_alone() -> None:
    resource = render_certificate("out/shop/cart", b"chain", Secret(b"key"))
    assert resource_as_json(resource) == {"name": "out/shop/cart", "version": resource.version}
