"""What Envoy's objects are called: type URLs, listeners, chains, tables, clusters, secrets, filter state, stat keys.

Everybody who has to name an Envoy object takes the name from here. Names and stat keys of mesh clusters come with the
plan (`plan.mesh.naming`).
"""

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
ENDPOINT = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

CAPTURE_TABLE = "cap_http"
"""Route table of captured HTTP: one for the node."""
PROXY_TABLE = "out_http"
"""Route table of the listeners on 127.0.0.1:18081: one for the node."""
POD_TABLE = "pod_http"
"""Route table of captured HTTP to pod addresses: one for the node."""

PASS_THROUGH = "passthrough"
"""Cluster that dials what the client dialled, from the client's own namespace."""
NONE = "aether-none"
"""Static cluster without endpoints: what the cluster specifier falls back to when it fails."""
ADS = "aether-ads"
"""Static cluster of the bootstrap that reaches the agent's ADS."""

CA_SECRET = "ca"
NODE_SECRET = "node"
NO_IDENTITY_SECRET = "out/none"
"""What a mesh connection that carries no identity asks for. The agent answers that it does not exist."""

CAPTURE_CHAIN = "cap_http"
POD_CHAIN = "pod_http"
RAW_CHAIN = "cap_tcp"
PROXY_CHAIN = "out_http"
PASS_THROUGH_CHAIN = "passthrough"
LIVE_SERVER_NAME = "live"
"""Server name, and name of the inbound chain, that answers readiness probes."""
LIVE_PATH = "/-/-/live"

ERROR_HEADER = "x-aether-error"
CALLER_HEADER = "x-aether-from"
"""Request header from a listener to its route table: caller namespace, a slash, dialled port. Never sent upstream."""

CLUSTER_HEADER = "x-aether-cluster"
"""Request header from a listener to `POD_TABLE`: the name of the dial's cluster. Never sent upstream."""
REFUSAL_METADATA = "aether"
"""Metadata of a tombstone that HTTP is refused by: `error`, the word, and `ports`, what is served instead."""

DIALLED_PORT_KEY = "aether.dialled_port"
"""Filter state: the dialled port."""
CALLER_NAMESPACE_KEY = "aether.source.namespace"
IDENTITY_KEY = "envoy.tls.certificate_mappers.on_demand_secret"
NETNS_KEY = "envoy.network.upstream_bind_override.network_namespace"
TCP_CLUSTER_KEY = "envoy.tcp_proxy.cluster"


def capture_listener(pod_uid: str) -> str:
    return f"capture-{pod_uid}"


def raw_listener(pod_uid: str) -> str:
    return f"capture-raw-{pod_uid}"


def proxy_listener(pod_uid: str) -> str:
    return f"proxy-{pod_uid}"


def inbound_listener(pod_uid: str) -> str:
    return f"inbound-{pod_uid}"


def inbound_http_chain(pod: str, port: int) -> str:
    return f"in_http_{pod}_{port}"


def inbound_tcp_chain(pod: str, port: int) -> str:
    return f"in_tcp_{pod}_{port}"


def application_cluster(pod_uid: str, port: int) -> str:
    """The last hop: from the inbound listener to the application."""
    return f"app|{pod_uid}|{port}"


def probe_cluster(pod_uid: str) -> str:
    """The cluster whose active health check is the readiness probe of a local pod."""
    return f"probe|{pod_uid}"


def probe_healthy_stat(pod_uid: str) -> str:
    """The gauge, in the text of ``/stats``, that is 1 while the pod's inbound listener answers the probe."""
    return f"cluster.{probe_stat_key(pod_uid)}.membership_healthy"


def probe_stat_key(pod_uid: str) -> str:
    return f"probe_{pod_uid}"


def inbound_stat_prefix(namespace: str, pod: str) -> str:
    return f"inbound_{namespace}_{pod}"
