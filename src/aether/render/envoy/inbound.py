"""A pod's inbound listener: 18008, one chain per declared TCP port, chosen by server name (spec section 5).

Owns: what the destination's proxy demands of a peer and how it reaches the application. An unknown server name, a peer
without a certificate of the trust domain, or anything below TLS 1.3 gets no chain.
"""

from collections.abc import Iterable

from envoy.config.core.v3 import base_pb2, socket_option_pb2
from envoy.config.listener.v3 import listener_components_pb2, listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.filters.http.health_check.v3 import health_check_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import http_connection_manager_pb2
from envoy.extensions.matching.common_inputs.network.v3 import network_inputs_pb2
from envoy.type.matcher.v3 import string_pb2
from google.protobuf import wrappers_pb2

from aether.model.ports import INBOUND_PORT, PortClass
from aether.plan.mesh.node import InboundPort
from aether.render.envoy import names
from aether.render.envoy.accesslog import Entry, http_log, tcp_log
from aether.render.envoy.filters import Carried, carry, http_inbound, tcp_inbound
from aether.render.envoy.listeners import TLS_INSPECTOR, Place, any_address, to_chain
from aether.render.envoy.resource import exactly, pack, seconds
from aether.render.envoy.secrets import ALPN_H2, ALPN_NONE, inbound_tls

_SO_KEEPALIVE, _TCP_KEEPIDLE, _TCP_KEEPINTVL, _TCP_KEEPCNT = (1, 9), (6, 4), (6, 5), (6, 6)
"""Level and option (Linux: asm-generic/socket.h, linux/tcp.h)."""


def inbound_listener(place: Place) -> listener_pb2.Listener:
    """18008 on every address of the pod."""
    pod = place.pod
    chains = [_port_chain(place, port) for port in pod.inbound]
    by_name = {str(port.number): to_chain(_chain_name(pod.pod, port)) for port in pod.inbound}
    by_name[names.LIVE_SERVER_NAME] = to_chain(names.LIVE_SERVER_NAME)
    return listener_pb2.Listener(
        name=names.inbound_listener(pod.uid),
        stat_prefix=names.inbound_stat_prefix(pod.service.namespace, pod.pod),
        address=any_address(INBOUND_PORT, pod.netns),
        traffic_direction=base_pb2.INBOUND,
        listener_filters=[TLS_INSPECTOR],
        filter_chain_matcher=exactly(network_inputs_pb2.ServerNameInput(), by_name),
        filter_chains=[*chains, _live_chain(place)],
        socket_options=_KEEPALIVE,
    )


def _chain_name(pod: str, port: InboundPort) -> str:
    spell = names.inbound_http_chain if port.port_class is PortClass.HTTP else names.inbound_tcp_chain
    return spell(pod, port.number)


def _port_chain(place: Place, port: InboundPort) -> listener_components_pb2.FilterChain:
    is_http = port.port_class is PortClass.HTTP
    port_known = carry([Carried(names.DIALLED_PORT_KEY, str(port.number))])
    return _chain(
        place,
        _chain_name(place.pod.pod, port),
        [port_known, _to_http(place, port) if is_http else _to_tcp(place, port)],
        alpn=ALPN_H2 if is_http else ALPN_NONE,
    )


def _to_http(place: Place, port: InboundPort) -> listener_components_pb2.Filter:
    name = _chain_name(place.pod.pod, port)
    route = route_components_pb2.Route(
        name="application",
        match=route_components_pb2.RouteMatch(prefix="/"),
        route=route_components_pb2.RouteAction(
            cluster=names.application_cluster(place.pod.uid, port.number), timeout=seconds(0)
        ),
        response_headers_to_remove=[names.ERROR_HEADER],
    )
    return http_inbound(
        stat_prefix=_stat_prefix(place), routes=_table(name, route), log=http_log(place.journal(Entry.INBOUND))
    )


def _to_tcp(place: Place, port: InboundPort) -> listener_components_pb2.Filter:
    return tcp_inbound(
        stat_prefix=_stat_prefix(place),
        cluster=names.application_cluster(place.pod.uid, port.number),
        log=tcp_log(place.journal(Entry.INBOUND)),
    )


def _live_chain(place: Place) -> listener_components_pb2.FilterChain:
    """Answers the readiness probe by itself, so that the answer proves the handshake and nothing else."""
    is_live = route_components_pb2.HeaderMatcher(
        name=":path", string_match=string_pb2.StringMatcher(exact=names.LIVE_PATH)
    )
    answer = health_check_pb2.HealthCheck(pass_through_mode=wrappers_pb2.BoolValue(value=False), headers=[is_live])
    health = http_connection_manager_pb2.HttpFilter(name="envoy.filters.http.health_check", typed_config=pack(answer))
    nothing_else = route_components_pb2.Route(
        match=route_components_pb2.RouteMatch(prefix="/"),
        direct_response=route_components_pb2.DirectResponseAction(status=404),
    )
    proxy = http_inbound(
        stat_prefix=names.LIVE_SERVER_NAME, routes=_table(names.LIVE_SERVER_NAME, nothing_else), log=[], before=[health]
    )
    return _chain(place, names.LIVE_SERVER_NAME, [proxy], alpn=ALPN_H2)


def _chain(
    place: Place, name: str, filters: Iterable[listener_components_pb2.Filter], *, alpn: Iterable[str]
) -> listener_components_pb2.FilterChain:
    tls = inbound_tls(secret=place.pod.inbound_secret, trust_domain=place.config.trust_domain, alpn=alpn)
    return listener_components_pb2.FilterChain(name=name, transport_socket=tls, filters=filters)


def _table(name: str, route: route_components_pb2.Route) -> route_pb2.RouteConfiguration:
    everything = route_components_pb2.VirtualHost(name=name, domains=["*"], routes=[route])
    return route_pb2.RouteConfiguration(name=name, virtual_hosts=[everything])


def _stat_prefix(place: Place) -> str:
    return names.inbound_stat_prefix(place.pod.service.namespace, place.pod.pod)


def _option(name: tuple[int, int], value: int) -> socket_option_pb2.SocketOption:
    level, option = name
    return socket_option_pb2.SocketOption(level=level, name=option, int_value=value)


_KEEPALIVE = tuple(
    _option(name, value)
    for name, value in ((_SO_KEEPALIVE, 1), (_TCP_KEEPIDLE, 60), (_TCP_KEEPINTVL, 10), (_TCP_KEEPCNT, 3))
)
"""Accepted connections inherit them: a source node that vanished is noticed."""
