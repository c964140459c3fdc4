from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import declared, service_id

from aether.model.kube_parse import inspect, parse_service
from aether.model.ports import DeclaredPort, PortClass
from aether.plan.publish import GeneratedService, class_of, is_generated
from aether.render.kube import render_service

PORTS = st.lists(
    st.builds(DeclaredPort, st.integers(min_value=1, max_value=65535), st.sampled_from(PortClass)),
    unique_by=lambda port: (port.number, port.transport),
    max_size=8,
).map(lambda ports: tuple(sorted(ports)))


def test_a_generated_service() -> None:
    generated = GeneratedService(service=service_id("shop/cart"), ports=declared("53=tcp 53=udp 8080"))
    assert render_service(generated) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "cart",
            "namespace": "shop",
            "labels": {"aether.io/generated": "true", "app.kubernetes.io/managed-by": "aether"},
        },
        "spec": {
            "type": "ClusterIP",
            "ports": [
                {"name": "p53-tcp", "port": 53, "targetPort": 53, "protocol": "TCP", "appProtocol": "tcp"},
                {"name": "p53-udp", "port": 53, "targetPort": 53, "protocol": "UDP"},
                {"name": "p8080-tcp", "port": 8080, "targetPort": 8080, "protocol": "TCP", "appProtocol": "http"},
            ],
        },
    }


@given(PORTS)
def test_what_is_rendered_is_read_back(ports: tuple[DeclaredPort, ...]) -> None:
    rendered = render_service(GeneratedService(service=service_id("shop/cart"), ports=ports))
    assert inspect("Service", rendered) == ()
    parsed = parse_service(rendered)
    assert is_generated(parsed)
    assert tuple(DeclaredPort(port.number, class_of(port)) for port in parsed.ports) == ports
    assert all(port.target == port.number for port in parsed.ports)
