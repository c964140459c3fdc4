"""Changes to what an Envoy is told, by name: wrong on purpose, so that a test can see what they break.

A bend is a function from a snapshot, and words from the test, to another snapshot.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import set_filter_state_pb2
from envoy.extensions.filters.network.tcp_proxy.v3 import tcp_proxy_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from google.protobuf.message import Message

from aether.render.envoy.filters import HASHABLE, PLAIN
from aether.render.envoy.names import CLUSTER, IDENTITY_KEY, LISTENER, NETNS_KEY, ROUTE, SECRET
from aether.render.envoy.resource import Resource, encode, pack, resource_of, seconds

Snapshot = Mapping[str, Mapping[str, Resource]]


def bend(snapshot: Snapshot, orders: Iterable[tuple[str, ...]]) -> Snapshot:
    """Carry out orders, each the name of a bend and its words. A resource that is not there (yet) is left out."""
    for name, *words in orders:
        snapshot = BENDS[name](snapshot, *words)
    return snapshot


def _plain_identity(snapshot: Snapshot) -> Snapshot:
    """The caller's identity is carried in a form that is not part of a connection pool's key.

    Its network namespace too: that is another key, and would part the pools of two pods all the same.
    """

    def change(config: Any) -> None:
        for value in config.on_new_connection:
            if value.object_key in {IDENTITY_KEY, NETNS_KEY}:
                assert value.factory_key == HASHABLE
                value.factory_key = PLAIN

    return _each_filter_state(snapshot, change)


def _no_identity(snapshot: Snapshot) -> Snapshot:
    """Connections carry no identity of their caller."""

    def change(config: Any) -> None:
        kept = [value for value in config.on_new_connection if value.object_key != IDENTITY_KEY]
        config.ClearField("on_new_connection")
        config.on_new_connection.extend(kept)

    return _each_filter_state(snapshot, change)


def _logged_connections(snapshot: Snapshot) -> Snapshot:
    """Every raw TCP connection that an inbound listener took stands in the access log, with its peer."""

    def change(filter_: Any) -> None:
        if filter_.name != "envoy.filters.network.tcp_proxy":
            return
        config = tcp_proxy_pb2.TcpProxy.FromString(filter_.typed_config.value)
        del config.access_log[1:]
        for entry in config.access_log:
            entry.ClearField("filter")
        filter_.typed_config.CopyFrom(pack(config))

    return _each_filter(snapshot, "inbound-", change)


def _swapped_secret(snapshot: Snapshot, name: str, of: str) -> Snapshot:
    """Under the name of one certificate stands another one."""
    if name not in snapshot[SECRET]:
        return snapshot
    secret = secret_pb2.Secret.FromString(snapshot[SECRET][of].body)
    secret.name = name
    return _put(snapshot, SECRET, name, secret)


def _bad_cluster(snapshot: Snapshot, name: str) -> Snapshot:
    def change(cluster: Any) -> None:
        cluster.connect_timeout.CopyFrom(seconds(-1))

    return _change(snapshot, CLUSTER, name, cluster_pb2.Cluster, change)


def _bad_listener(snapshot: Snapshot, name: str) -> Snapshot:
    def change(listener: Any) -> None:
        listener.filter_chains[0].filters[0].typed_config.type_url = "type.googleapis.com/aether.NotThere"

    return _change(snapshot, LISTENER, name, listener_pb2.Listener, change)


def _bad_table(snapshot: Snapshot, name: str) -> Snapshot:
    def change(table: Any) -> None:
        table.virtual_hosts.add().CopyFrom(table.virtual_hosts[0])

    return _change(snapshot, ROUTE, name, route_pb2.RouteConfiguration, change)


def _bad_secret(snapshot: Snapshot, name: str) -> Snapshot:
    """A certificate whose text is none; the key stays."""

    def change(secret: Any) -> None:
        secret.tls_certificate.certificate_chain.inline_bytes = b"not a certificate"

    return _change(snapshot, SECRET, name, secret_pb2.Secret, change)


BENDS: Mapping[str, Callable[..., Snapshot]] = {
    "plain-identity": _plain_identity,
    "no-identity": _no_identity,
    "logged-connections": _logged_connections,
    "swapped-secret": _swapped_secret,
    "bad-cluster": _bad_cluster,
    "bad-listener": _bad_listener,
    "bad-table": _bad_table,
    "bad-secret": _bad_secret,
}


def _each_filter_state(snapshot: Snapshot, change: Callable[[Any], None]) -> Snapshot:
    """Change what connections are made to carry."""

    def of_filter(filter_: Any) -> None:
        if filter_.name == "envoy.filters.network.set_filter_state":
            config = set_filter_state_pb2.Config.FromString(filter_.typed_config.value)
            change(config)
            filter_.typed_config.CopyFrom(pack(config))

    return _each_filter(snapshot, "", of_filter)


def _each_filter(snapshot: Snapshot, prefix: str, change: Callable[[Any], None]) -> Snapshot:
    for name in snapshot[LISTENER]:
        if name.startswith(prefix):
            snapshot = _change(snapshot, LISTENER, name, listener_pb2.Listener, lambda one: _walk(one, change))
    return snapshot


def _walk(listener: Any, change: Callable[[Any], None]) -> None:
    for chain in (*listener.filter_chains, listener.default_filter_chain):
        for filter_ in chain.filters:
            change(filter_)


def _change(
    snapshot: Snapshot, type_url: str, name: str, kind: type[Message], change: Callable[[Any], None]
) -> Snapshot:
    if name not in snapshot[type_url]:
        return snapshot
    message = kind.FromString(snapshot[type_url][name].body)
    change(message)
    return _put(snapshot, type_url, name, message)


def _put(snapshot: Snapshot, type_url: str, name: str, message: Message) -> Snapshot:
    resource = resource_of(name, type_url, encode(message))
    return {**snapshot, type_url: {**snapshot[type_url], name: resource}}
