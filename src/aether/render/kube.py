"""Plans as Kubernetes objects."""

from typing import Any

from aether.model.kube import GENERATED_LABEL
from aether.model.ports import DeclaredPort, PortClass
from aether.plan.publish import GeneratedService

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "aether"


def render_service(generated: GeneratedService) -> dict[str, Any]:
    """A generated Service: no selector, one Service port per declared port, `port` equal to `targetPort`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": generated.service.name,
            "namespace": generated.service.namespace,
            "labels": {GENERATED_LABEL: "true", MANAGED_BY_LABEL: MANAGED_BY},
        },
        "spec": {"type": "ClusterIP", "ports": [_render_port(port) for port in generated.ports]},
    }


def _render_port(port: DeclaredPort) -> dict[str, Any]:
    rendered: dict[str, Any] = {
        "name": f"p{port.number}-{port.transport}",
        "port": port.number,
        "targetPort": port.number,
        "protocol": port.transport.upper(),
    }
    if port.port_class is not PortClass.UDP:
        rendered["appProtocol"] = port.port_class.value
    return rendered
