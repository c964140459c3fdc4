"""Load assignments."""

from envoy.config.core.v3 import health_check_pb2

from aether.model.endpoint import Health
from aether.plan.mesh.node import EndpointPlan
from aether.render.envoy.endpoints import empty_assignment, load_assignment, socket_address


def test_every_endpoint_is_a_pods_inbound_listener() -> None:
    endpoints = (EndpointPlan(address="10.244.1.2", health=Health.HEALTHY, weight=3),)
    found = load_assignment("a", endpoints).endpoints[0].lb_endpoints[0]
    address = found.endpoint.address.socket_address
    assert (address.address, address.port_value) == ("10.244.1.2", 18008)
    assert found.load_balancing_weight.value == 3


def test_health_is_what_the_endpoints_own_agent_said() -> None:
    endpoints = [EndpointPlan(address=f"10.244.1.{n}", health=health) for n, health in enumerate(Health)]
    spelled = load_assignment("a", endpoints).endpoints[0].lb_endpoints
    wanted = {
        Health.HEALTHY: health_check_pb2.HEALTHY,
        Health.UNHEALTHY: health_check_pb2.UNHEALTHY,
        Health.DRAINING: health_check_pb2.DRAINING,
    }
    assert [each.health_status for each in spelled] == [wanted[health] for health in Health]


def test_a_locality_with_a_weight_is_given_for_grpc_clients() -> None:
    locality = load_assignment("a", [EndpointPlan(address="10.244.1.2", health=Health.HEALTHY)]).endpoints[0]
    assert locality.HasField("locality")
    assert locality.load_balancing_weight.value == 1


def test_no_endpoints_drop_all_load_which_tells_no_endpoint_from_unhealthy() -> None:
    drop = empty_assignment("a").policy.drop_overloads[0].drop_percentage
    assert drop.numerator == 100
    assert load_assignment("a", ()) == empty_assignment("a")
    assert not load_assignment("a", [EndpointPlan(address="10.244.1.2", health=Health.UNHEALTHY)]).HasField("policy")


def test_an_address_can_be_in_a_network_namespace() -> None:
    assert socket_address("127.0.0.1", 0, netns="/run/netns/a").network_namespace_filepath == "/run/netns/a"
    assert not socket_address("127.0.0.1", 0).network_namespace_filepath
