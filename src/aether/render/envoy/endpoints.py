"""Load assignments, and addresses as Envoy spells them.

Every endpoint of the mesh hop is the pod's inbound listener. A locality and its weight are always given: Envoy needs
neither, but a gRPC client that reads the same resources does.
"""

from collections.abc import Iterable, Mapping

from envoy.config.core.v3 import address_pb2, base_pb2, health_check_pb2
from envoy.config.endpoint.v3 import endpoint_components_pb2, endpoint_pb2
from envoy.type.v3 import percent_pb2
from google.protobuf import wrappers_pb2

from aether.model.endpoint import Health
from aether.model.ports import INBOUND_PORT
from aether.plan.mesh.node import EndpointPlan

_HEALTH: Mapping[Health, int] = {
    Health.HEALTHY: health_check_pb2.HEALTHY,
    Health.UNHEALTHY: health_check_pb2.UNHEALTHY,
    Health.DRAINING: health_check_pb2.DRAINING,
}


def load_assignment(name: str, endpoints: Iterable[EndpointPlan]) -> endpoint_pb2.ClusterLoadAssignment:
    """The endpoints of cluster `name`."""
    spelled = [_endpoint(endpoint) for endpoint in endpoints]
    if not spelled:
        return empty_assignment(name)
    locality = endpoint_components_pb2.LocalityLbEndpoints(
        locality=base_pb2.Locality(), load_balancing_weight=wrappers_pb2.UInt32Value(value=1), lb_endpoints=spelled
    )
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=name, endpoints=[locality])


def empty_assignment(name: str) -> endpoint_pb2.ClusterLoadAssignment:
    """No endpoints. All load is dropped by name, which tells `no-endpoint` from endpoints that are all unhealthy."""
    drop_all = endpoint_pb2.ClusterLoadAssignment.Policy.DropOverload(
        category="no-endpoint", drop_percentage=percent_pb2.FractionalPercent(numerator=100)
    )
    policy = endpoint_pb2.ClusterLoadAssignment.Policy(drop_overloads=[drop_all])
    return endpoint_pb2.ClusterLoadAssignment(cluster_name=name, policy=policy)


def socket_address(address: str, port: int, *, netns: str = "") -> address_pb2.SocketAddress:
    """An address and port, in the network namespace at path `netns` if given."""
    return address_pb2.SocketAddress(address=address, port_value=port, network_namespace_filepath=netns)


def _endpoint(endpoint: EndpointPlan) -> endpoint_components_pb2.LbEndpoint:
    address = address_pb2.Address(socket_address=socket_address(endpoint.address, INBOUND_PORT))
    return endpoint_components_pb2.LbEndpoint(
        endpoint=endpoint_components_pb2.Endpoint(address=address),
        health_status=_HEALTH[endpoint.health],
        load_balancing_weight=wrappers_pb2.UInt32Value(value=endpoint.weight),
    )
