"""Listeners: which one accepts a connection, what its inspectors see, and which filter chain takes it.

Owns: listener filters, both ways of choosing a chain (the matcher tree, the older `filter_chain_match`), its TLS.
Leaves to others: the chain's filters (`filters`).
"""

import msgspec
from envoy.extensions.filters.listener.http_inspector.v3 import http_inspector_pb2
from envoy.extensions.filters.listener.original_dst.v3 import original_dst_pb2
from envoy.extensions.filters.listener.tls_inspector.v3 import tls_inspector_pb2
from envoy.extensions.transport_sockets.raw_buffer.v3 import raw_buffer_pb2
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2
from google.protobuf import wrappers_pb2

from aether.render.envoy.evaluate.filters import NetworkFilter, read_network_filter
from aether.render.envoy.evaluate.matcher import Tree, TreeReader
from aether.render.envoy.evaluate.predicates import read_ranges
from aether.render.envoy.evaluate.request import (
    NETWORK_NAMESPACE_KEY,
    Connection,
    Network,
    Scene,
    Spoken,
    StateObject,
    is_within,
)
from aether.render.envoy.evaluate.strict import Proto, Unsupported, require, shape, unpack

_LISTENER = shape(
    "name address additional_addresses filter_chains filter_chain_matcher default_filter_chain listener_filters "
    "listener_filters_timeout continue_on_listener_filters_timeout transparent bind_to_port",
    "stat_prefix per_connection_buffer_limit_bytes metadata drain_type freebind socket_options traffic_direction "
    "connection_balance_config enable_reuse_port access_log tcp_backlog_size "
    "max_connections_to_accept_per_socket_event ignore_global_conn_limit bypass_overload_manager "
    "tcp_fast_open_queue_length",
)
_ADDRESS = shape("socket_address")
_SOCKET = shape("address port_value network_namespace_filepath ipv4_compat protocol")
_ADDITIONAL = shape("address", "socket_options")
_LISTENER_FILTER = shape("typed_config", "name")
_CHAIN = shape("filter_chain_match filters transport_socket name", "metadata transport_socket_connect_timeout")
_MATCH = shape("destination_port prefix_ranges server_names transport_protocol application_protocols")
_TRANSPORT = shape("typed_config", "name")
_DOWNSTREAM_TLS = shape(
    "common_tls_context require_client_certificate",
    "disable_stateless_session_resumption disable_stateful_session_resumption session_timeout require_sni "
    "prefer_client_ciphers",
)
_COMMON_TLS = shape(
    "alpn_protocols tls_params",
    "tls_certificate_sds_secret_configs validation_context_sds_secret_config combined_validation_context "
    "validation_context",
)


class ChainTls(msgspec.Struct, frozen=True, kw_only=True):
    """TLS that a chain terminates."""

    alpn: tuple[str, ...]
    wants_client_certificate: bool


class ChainMatch(msgspec.Struct, frozen=True, kw_only=True):
    """A `filter_chain_match`. 0, empty: any."""

    port: int = 0
    ranges: tuple[Network, ...] = ()
    server_names: tuple[str, ...] = ()
    transport_protocol: str = ""
    application_protocols: tuple[str, ...] = ()


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    filters: tuple[NetworkFilter, ...]
    tls: ChainTls | None
    match: ChainMatch


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """An address that a listener is bound to, in a network namespace ("": Envoy's own)."""

    netns: str
    address: str
    port: int
    takes_ipv4: bool


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """A listener. `matcher` names chains; without one, the chains' own matches choose."""

    name: str
    bound: tuple[Bound, ...]
    chains: tuple[Chain, ...]
    matcher: Tree[str] | None
    default: Chain | None
    inspects_http: bool
    inspects_tls: bool
    waits_for_bytes: bool
    continues_unheard: bool

    def accepts(self, connection: Connection) -> int:
        """How well the listener fits: 0 not at all, 2 bound to the very address, 1 to a wildcard."""
        return max((_fit(bound, connection) for bound in self.bound), default=0)

    def inspect(self, connection: Connection) -> Scene:
        """What the listener's filters find out. `server_name` and protocols stay empty where nobody looks."""
        is_tls = self.inspects_tls and connection.spoken is Spoken.TLS
        protocols: tuple[str, ...] = ()
        if is_tls:
            protocols = connection.alpn
        elif self.inspects_http and connection.spoken.is_http:
            protocols = (connection.spoken.value,)
        state = {}
        if connection.netns:
            state[NETWORK_NAMESPACE_KEY] = StateObject("envoy.string", connection.netns)
        return Scene(
            connection=connection,
            transport_protocol="tls" if is_tls else "raw_buffer",
            application_protocols=protocols,
            server_name=connection.server_name.lower() if is_tls else "",
            state=state,
        )

    def finding(self, scene: Scene) -> str:
        """What the listener's filters found, in words."""
        if not self.waits_for_bytes:
            return f"{scene.connection.destination}, nobody looks at the bytes"
        if scene.connection.spoken is Spoken.SILENT:
            return f"{scene.connection.destination}, no bytes came in time"
        named = f", server name {scene.server_name}" if scene.server_name else ""
        return f"{scene.connection.destination} speaks {', '.join(scene.application_protocols) or 'no HTTP'}{named}"

    def choose(self, scene: Scene) -> tuple[Chain | None, str]:
        """The chain that takes the connection and why; no chain: it is closed."""
        if self.matcher is not None:
            found = self.matcher.decide(scene)
            if found is not None:
                return next(
                    (chain for chain in self.chains if chain.name == found.action), None
                ), found.because or _NOTHING
        else:
            chosen = choose_by_match(self.chains, scene)
            if chosen is not None:
                return chosen, "it is the only one" if len(self.chains) == 1 else "its match is the most specific one"
        return self.default, _NOTHING


_NOTHING = "nothing more specific takes the connection"


def _fit(bound: Bound, connection: Connection) -> int:
    if bound.netns != connection.netns or bound.port != connection.listener_port:
        return 0
    if bound.address == connection.address:
        return 2
    if bound.address == "0.0.0.0":
        return 1 if ":" not in connection.address else 0
    return 1 if bound.address == "::" and (":" in connection.address or bound.takes_ipv4) else 0


def choose_by_match(chains: tuple[Chain, ...], scene: Scene) -> Chain | None:
    """Narrow by port, address, server name, transport and application protocol, in this order and without going back.

    At each stage the chains that name the most specific fitting value are left, else those that name none.
    """
    left = _narrow_port(chains, scene.connection.port)
    left = _narrow_ranges(left, scene.connection.address)
    left = _narrow_server_name(left, scene.server_name)
    exact = tuple(chain for chain in left if chain.match.transport_protocol == scene.transport_protocol)
    left = exact or tuple(chain for chain in left if not chain.match.transport_protocol)
    left = _narrow_protocols(left, scene.application_protocols)
    require(len(left) < 2, "filter chains with overlapping matches")
    return left[0] if left else None


def _narrow_port(chains: tuple[Chain, ...], port: int) -> tuple[Chain, ...]:
    exact = tuple(chain for chain in chains if chain.match.port == port)
    return exact or tuple(chain for chain in chains if not chain.match.port)


def _narrow_ranges(chains: tuple[Chain, ...], address: str) -> tuple[Chain, ...]:
    lengths = {one.prefixlen for chain in chains for one in chain.match.ranges if is_within(address, (one,))}
    if not lengths:
        return tuple(chain for chain in chains if not chain.match.ranges)
    longest = max(lengths)
    return tuple(
        chain
        for chain in chains
        if any(one.prefixlen == longest and is_within(address, (one,)) for one in chain.match.ranges)
    )


def _narrow_server_name(chains: tuple[Chain, ...], server_name: str) -> tuple[Chain, ...]:
    labels = server_name.split(".")
    names = [server_name, *(f"*.{'.'.join(labels[index:])}" for index in range(1, len(labels)))]
    for name in names if server_name else []:
        fitting = tuple(chain for chain in chains if name in chain.match.server_names)
        if fitting:
            return fitting
    return tuple(chain for chain in chains if not chain.match.server_names)


def _narrow_protocols(chains: tuple[Chain, ...], protocols: tuple[str, ...]) -> tuple[Chain, ...]:
    for protocol in protocols:
        fitting = tuple(chain for chain in chains if protocol in chain.match.application_protocols)
        if fitting:
            return fitting
    return tuple(chain for chain in chains if not chain.match.application_protocols)


def read_listener(message: Proto) -> Listener:
    _LISTENER.check(message)
    require(not message.HasField("bind_to_port") or message.bind_to_port.value, "a listener that is not bound")
    inspectors = [_read_listener_filter(one) for one in message.listener_filters]
    chains = tuple(_read_chain(one) for one in message.filter_chains)
    matcher = message.filter_chain_matcher
    inspects = {kind for kind in inspectors if kind}
    return Listener(
        name=message.name,
        bound=_read_bound(message),
        chains=chains,
        matcher=TreeReader(_read_chain_name).read(matcher) if message.HasField("filter_chain_matcher") else None,
        default=_read_chain(message.default_filter_chain) if message.HasField("default_filter_chain") else None,
        inspects_http="http" in inspects,
        inspects_tls="tls" in inspects,
        waits_for_bytes=bool(inspects),
        continues_unheard=message.continue_on_listener_filters_timeout,
    )


def _read_bound(message: Proto) -> tuple[Bound, ...]:
    addresses = [message.address]
    for one in message.additional_addresses:
        _ADDITIONAL.check(one)
        addresses.append(one.address)
    bound = []
    for address in addresses:
        _ADDRESS.check(address)
        socket = address.socket_address
        _SOCKET.check(socket)
        require(socket.protocol == socket.TCP, "a UDP listener")
        bound.append(
            Bound(
                netns=socket.network_namespace_filepath,
                address=socket.address,
                port=socket.port_value,
                takes_ipv4=socket.ipv4_compat,
            )
        )
    return tuple(bound)


def _read_listener_filter(message: Proto) -> str:
    """What the filter looks for: ``http``, ``tls``, or "" for one that does not look at bytes."""
    _LISTENER_FILTER.check(message)
    classes = [http_inspector_pb2.HttpInspector, tls_inspector_pb2.TlsInspector, original_dst_pb2.OriginalDst]
    config = unpack(message.typed_config, classes, where=f"the listener filter {message.name}")
    if isinstance(config, http_inspector_pb2.HttpInspector):
        return "http"
    return "tls" if isinstance(config, tls_inspector_pb2.TlsInspector) else ""


def _read_chain_name(packed: Proto) -> str:
    name: str = unpack(packed, [wrappers_pb2.StringValue], where="a filter chain matcher").value
    return name


def _read_chain(message: Proto) -> Chain:
    _CHAIN.check(message)
    return Chain(
        name=message.name,
        filters=tuple(read_network_filter(one) for one in message.filters),
        tls=_read_tls(message.transport_socket) if message.HasField("transport_socket") else None,
        match=_read_match(message.filter_chain_match),
    )


def _read_match(message: Proto) -> ChainMatch:
    _MATCH.check(message)
    return ChainMatch(
        port=message.destination_port.value,
        ranges=read_ranges(message.prefix_ranges),
        server_names=tuple(name.lower() for name in message.server_names),
        transport_protocol=message.transport_protocol,
        application_protocols=tuple(message.application_protocols),
    )


def _read_tls(message: Proto) -> ChainTls | None:
    _TRANSPORT.check(message)
    classes = [tls_pb2.DownstreamTlsContext, raw_buffer_pb2.RawBuffer]
    config = unpack(message.typed_config, classes, where="a filter chain's transport socket")
    if isinstance(config, raw_buffer_pb2.RawBuffer):
        return None
    _DOWNSTREAM_TLS.check(config)
    common = config.common_tls_context
    _COMMON_TLS.check(common)
    if not common.tls_certificate_sds_secret_configs:
        raise Unsupported("a TLS chain without a certificate by SDS")
    return ChainTls(alpn=tuple(common.alpn_protocols), wants_client_certificate=config.require_client_certificate.value)
