"""What to do about each way in which a request does not arrive."""

from collections.abc import Mapping

from aether.plan.mesh.addressing import Reason

BY_REASON: Mapping[str, str] = {
    Reason.PORT_MISMATCH: "the dialled port and Host's differ: send Host with the dialled port, or without one",
    Reason.PORT_REQUIRED: "put the port into Host: on the proxy port a Host without one means port 80",
    Reason.PORT_NOT_DECLARED: (
        "call one of the ports that the body lists, or declare this one on the service's pods: endpoint.aether.io/ports"
    ),
    Reason.PORT_NOT_HTTP: (
        "the port is not http: dial it directly, or declare it http on the service's pods: endpoint.aether.io/ports"
    ),
    Reason.CALLER_NAMESPACE_UNKNOWN: "use the full name: SERVICE.NAMESPACE",
    "no-endpoint": "no endpoint declares this port with this class: aether get pods, aether check",
    "unhealthy": "every endpoint is unhealthy: aether describe pod NAME, aether logs NAME",
    "upstream-refused": "the application does not accept on the port that it declares: aether logs NAME",
    "upstream-identity": "the destination presents another identity than its service's: aether check",
    "cold-timeout": "the agent did not answer in time: aether check",
    "waking": "try again: the service's endpoints are on their way to this node",
    "denied": "the destination's authorization does not allow this caller",
}
"""By the value of `x-aether-error`."""

UNKNOWN_NAME = "check the spelling; aether status lists every service, and a short name means the caller's namespace"
CLOSED_AT_MESH_ADDRESS = "nothing is routed at a mesh address besides the ports its service declares: aether status"
