"""Snapshots written as Envoy's own YAML, for tests of the evaluator."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from google.protobuf import json_format

import aether.render.envoy.evaluate  # noqa: F401 - registers every message that the evaluator reads
from aether.render.envoy.names import CLUSTER, ENDPOINT, LISTENER, ROUTE
from aether.render.envoy.resource import Resource, encode, resource_of
from aether.render.envoy.snapshot import Snapshot

_KINDS = {
    "listeners": (LISTENER, listener_pb2.Listener, "name"),
    "routes": (ROUTE, route_pb2.RouteConfiguration, "name"),
    "clusters": (CLUSTER, cluster_pb2.Cluster, "name"),
    "endpoints": (ENDPOINT, endpoint_pb2.ClusterLoadAssignment, "cluster_name"),
}


def message_of(kind: Any, text: str) -> Any:
    """One message from YAML."""
    return json_format.ParseDict(yaml.safe_load(text) or {}, kind())


def snapshot_of(text: str) -> Snapshot:
    """A snapshot from YAML with the lists `listeners`, `routes`, `clusters` and `endpoints`."""
    return snapshot_from(yaml.safe_load(text))


def snapshot_from(sections: Mapping[str, Sequence[dict[str, Any]]]) -> Snapshot:
    """The same from values of Envoy's JSON."""
    snapshot: dict[str, dict[str, Resource]] = {}
    for section, items in sections.items():
        type_url, kind, key = _KINDS[section]
        for item in items:
            body = encode(json_format.ParseDict(item, kind()))
            snapshot.setdefault(type_url, {})[item[key]] = resource_of(item[key], type_url, body)
    return snapshot
