"""A pod's outbound listeners: the two capture listeners and the proxy port (spec section 4, rulings B).

Owns: which chain takes which connection, and what the chain makes the connection carry. Nothing here depends on a
service: services come and go without a listener changing, so no connection is drained.
"""

from collections.abc import Iterable

import msgspec
from envoy.config.core.v3 import address_pb2, base_pb2
from envoy.config.listener.v3 import listener_components_pb2, listener_pb2
from envoy.extensions.filters.listener.http_inspector.v3 import http_inspector_pb2
from envoy.extensions.filters.listener.original_dst.v3 import original_dst_pb2
from envoy.extensions.filters.listener.tls_inspector.v3 import tls_inspector_pb2
from envoy.extensions.matching.common_inputs.network.v3 import network_inputs_pb2
from google.protobuf import wrappers_pb2
from xds.type.matcher.v3 import matcher_pb2

from aether.model.facts import MeshConfig
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT
from aether.plan.mesh.node import PodPlan
from aether.render.envoy import names
from aether.render.envoy.accesslog import Entry, Journal, http_log, tcp_log
from aether.render.envoy.endpoints import socket_address
from aether.render.envoy.filters import Carried, carry, http_proxy, tcp_forward
from aether.render.envoy.resource import exactly, inside, pack, seconds, then

INSPECT_S = 1.0
"""How long 18001 waits for bytes that tell the protocol. Server-first ports are not on 18001 (rulings B.1 and B.2)."""

_HTTP_ON_THE_WIRE = ("'http/1.0'", "'http/1.1'", "'h2c'")
"""What the inspector found, as the matcher's input spells it: in quotes."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A pod, the mesh it is in and where its lines are logged: everything that a pod's listeners are made of."""

    pod: PodPlan
    config: MeshConfig
    access_log: str

    def journal(self, entry: Entry) -> Journal:
        service = self.pod.service
        return Journal(
            path=self.access_log, entry=entry, namespace=service.namespace, service=service.name, pod=self.pod.pod
        )


def outbound_listeners(place: Place) -> tuple[listener_pb2.Listener, ...]:
    """18001, 18002 and 127.0.0.1:18081, all inside the pod's network namespace."""
    return (_capture_listener(place), _raw_listener(place), _proxy_listener(place))


def _capture_listener(place: Place) -> listener_pb2.Listener:
    """Captured connections to mesh addresses, but not those to raw-TCP ports: what their first bytes say decides."""
    return listener_pb2.Listener(
        name=names.capture_listener(place.pod.uid),
        stat_prefix="capture",
        address=any_address(CAPTURE_PORT, place.pod.netns),
        transparent=wrappers_pb2.BoolValue(value=True),
        traffic_direction=base_pb2.OUTBOUND,
        listener_filters=[_ORIGINAL_DST, TLS_INSPECTOR, _HTTP_INSPECTOR],
        listener_filters_timeout=seconds(INSPECT_S),
        continue_on_listener_filters_timeout=True,
        filter_chain_matcher=_capture_matcher(place.config),
        filter_chains=[
            _http_chain(place, names.CAPTURE_CHAIN, names.CAPTURE_TABLE),
            _http_chain(place, names.POD_CHAIN, names.POD_TABLE),
        ],
        default_filter_chain=_pass_through_chain(place),
    )


def _raw_listener(place: Place) -> listener_pb2.Listener:
    """Captured connections to raw-TCP ports and to everything that is not the mesh's: no byte is waited for."""
    return listener_pb2.Listener(
        name=names.raw_listener(place.pod.uid),
        stat_prefix="capture_raw",
        address=any_address(CAPTURE_RAW_PORT, place.pod.netns),
        transparent=wrappers_pb2.BoolValue(value=True),
        traffic_direction=base_pb2.OUTBOUND,
        listener_filters=[_ORIGINAL_DST],
        filter_chain_matcher=_by_destination(
            (*place.config.service_cidrs, *place.config.pod_cidrs), to_chain(names.RAW_CHAIN)
        ),
        filter_chains=[_raw_chain(place)],
        default_filter_chain=_pass_through_chain(place),
    )


def _proxy_listener(place: Place) -> listener_pb2.Listener:
    """The HTTP proxy port. It stands on the pod's loopback, which is never captured."""
    return listener_pb2.Listener(
        name=names.proxy_listener(place.pod.uid),
        stat_prefix="proxy",
        address=address_pb2.Address(socket_address=socket_address("127.0.0.1", PROXY_PORT, netns=place.pod.netns)),
        traffic_direction=base_pb2.OUTBOUND,
        filter_chains=[_proxy_chain(place)],
    )


def any_address(port: int, netns: str) -> address_pb2.Address:
    """Every address of both families."""
    spelled = socket_address("::", port, netns=netns)
    spelled.ipv4_compat = True
    return address_pb2.Address(socket_address=spelled)


def _http_chain(place: Place, name: str, table: str) -> listener_components_pb2.FilterChain:
    carried = [*_caller(place), _DIALLED_PORT]
    log = http_log(place.journal(Entry.CAPTURED))
    return listener_components_pb2.FilterChain(
        name=name, filters=[carry(carried), http_proxy(stat_prefix=name, table=table, log=log)]
    )


def _proxy_chain(place: Place) -> listener_components_pb2.FilterChain:
    carried = [*_caller(place), Carried(names.DIALLED_PORT_KEY, str(PROXY_PORT))]
    log = http_log(place.journal(Entry.PROXY_PORT))
    return listener_components_pb2.FilterChain(
        name=names.PROXY_CHAIN,
        filters=[carry(carried), http_proxy(stat_prefix=names.PROXY_CHAIN, table=names.PROXY_TABLE, log=log)],
    )


def _raw_chain(place: Place) -> listener_components_pb2.FilterChain:
    """One chain for every raw-TCP port there is: the dialled address names the cluster (architecture, decision 18)."""
    carried = [*_caller(place), _DIALLED_PORT, Carried(names.TCP_CLUSTER_KEY, "tcp|%DOWNSTREAM_LOCAL_ADDRESS%")]
    log = tcp_log(place.journal(Entry.CAPTURED))
    forward = tcp_forward(stat_prefix=names.RAW_CHAIN, cluster=names.NONE, log=log, is_on_demand=True)
    return listener_components_pb2.FilterChain(name=names.RAW_CHAIN, filters=[carry(carried), forward])


def _pass_through_chain(place: Place) -> listener_components_pb2.FilterChain:
    carried = [Carried(names.NETNS_KEY, place.pod.netns, is_shared=True), _DIALLED_PORT]
    log = tcp_log(place.journal(Entry.PASSED_THROUGH))
    forward = tcp_forward(stat_prefix=names.PASS_THROUGH, cluster=names.PASS_THROUGH, log=log)
    return listener_components_pb2.FilterChain(name=names.PASS_THROUGH_CHAIN, filters=[carry(carried), forward])


_DIALLED_PORT = Carried(names.DIALLED_PORT_KEY, "%DOWNSTREAM_LOCAL_PORT%")


def _caller(place: Place) -> tuple[Carried, ...]:
    """Who calls: its certificate on mesh hops, its namespace for short names, its network for pass-through."""
    return (
        Carried(names.IDENTITY_KEY, place.pod.outbound_secret, is_shared=True),
        Carried(names.NETNS_KEY, place.pod.netns, is_shared=True),
        Carried(names.CALLER_NAMESPACE_KEY, place.pod.service.namespace),
    )


def _capture_matcher(config: MeshConfig) -> matcher_pb2.Matcher:
    """Cleartext HTTP to the tables, all else to the default chain.

    Transport comes first: a ClientHello's only ALPN can be http/1.1, which the inspector reports like cleartext. The
    proxy port is the proxy port at a pod's address too (rulings B.6).
    """
    by_address = _by_destination(config.pod_cidrs, to_chain(names.POD_CHAIN), otherwise=to_chain(names.CAPTURE_CHAIN))
    by_port = exactly(network_inputs_pb2.DestinationPortInput(), {str(PROXY_PORT): to_chain(names.CAPTURE_CHAIN)})
    by_port.on_no_match.matcher.CopyFrom(by_address)
    is_http = matcher_pb2.Matcher.OnMatch(matcher=by_port)
    by_protocol = exactly(network_inputs_pb2.ApplicationProtocolInput(), dict.fromkeys(_HTTP_ON_THE_WIRE, is_http))
    is_cleartext = matcher_pb2.Matcher.OnMatch(matcher=by_protocol)
    return exactly(network_inputs_pb2.TransportProtocolInput(), {"raw_buffer": is_cleartext})


def _by_destination(
    ranges: Iterable[str],
    inside_it: matcher_pb2.Matcher.OnMatch,
    *,
    otherwise: matcher_pb2.Matcher.OnMatch | None = None,
) -> matcher_pb2.Matcher:
    matcher = inside(network_inputs_pb2.DestinationIPInput(), ranges, inside_it)
    if otherwise is not None:
        matcher.on_no_match.CopyFrom(otherwise)
    return matcher


def to_chain(name: str) -> matcher_pb2.Matcher.OnMatch:
    return then(name, wrappers_pb2.StringValue(value=name))


_ORIGINAL_DST = listener_components_pb2.ListenerFilter(
    name="envoy.filters.listener.original_dst", typed_config=pack(original_dst_pb2.OriginalDst())
)
TLS_INSPECTOR = listener_components_pb2.ListenerFilter(
    name="envoy.filters.listener.tls_inspector", typed_config=pack(tls_inspector_pb2.TlsInspector())
)
_HTTP_INSPECTOR = listener_components_pb2.ListenerFilter(
    name="envoy.filters.listener.http_inspector", typed_config=pack(http_inspector_pb2.HttpInspector())
)
