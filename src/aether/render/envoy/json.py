"""Resources as JSON data, for people: what `aether` prints of the live snapshot."""

from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from google.protobuf import json_format
from google.protobuf.message import Message

from aether.render.envoy import names
from aether.render.envoy.resource import Resource

_MESSAGES: dict[str, type[Message]] = {
    names.CLUSTER: cluster_pb2.Cluster,
    names.ENDPOINT: endpoint_pb2.ClusterLoadAssignment,
    names.LISTENER: listener_pb2.Listener,
    names.ROUTE: route_pb2.RouteConfiguration,
}


def resource_as_json(resource: Resource) -> dict[str, Any]:
    """The message as JSON data. Of a secret only its name and version: it may hold a key."""
    if (message := _MESSAGES.get(resource.type_url)) is None:
        return {"name": resource.name, "version": resource.version}
    data: dict[str, Any] = json_format.MessageToDict(message.FromString(resource.body))
    return data
