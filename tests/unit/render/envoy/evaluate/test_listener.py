"""Which listener accepts, what it sees, which chain it chooses."""

import pytest
from envoy.config.listener.v3 import listener_pb2
from tests.support.envoy_yaml import message_of

from aether.render.envoy.evaluate.listener import Listener, read_listener
from aether.render.envoy.evaluate.request import NETWORK_NAMESPACE_KEY, Connection, Spoken
from aether.render.envoy.evaluate.strict import Unsupported

TYPE = "type.googleapis.com/envoy.extensions"
HTTP = f"{{name: h, typed_config: {{'@type': {TYPE}.filters.listener.http_inspector.v3.HttpInspector}}}}"
TLS = f"{{name: t, typed_config: {{'@type': {TYPE}.filters.listener.tls_inspector.v3.TlsInspector}}}}"
ORIGINAL = f"{{name: o, typed_config: {{'@type': {TYPE}.filters.listener.original_dst.v3.OriginalDst}}}}"


def listener_of(text: str, *, address: str = "0.0.0.0", netns: str = "/n") -> Listener:
    place = f"{{address: '{address}', port_value: 18001, network_namespace_filepath: {netns}}}"
    return read_listener(message_of(listener_pb2.Listener, f"name: l\naddress: {{socket_address: {place}}}\n{text}"))


def dial(
    address: str = "10.96.0.5",
    port: int = 8080,
    *,
    netns: str = "/n",
    spoken: Spoken = Spoken.OTHER,
    server_name: str = "",
    alpn: tuple[str, ...] = (),
) -> Connection:
    return Connection(
        netns=netns,
        listener_port=18001,
        address=address,
        port=port,
        spoken=spoken,
        server_name=server_name,
        alpn=alpn,
    )


@pytest.mark.parametrize(
    ("bound", "address", "fit"),
    [
        ("0.0.0.0", "10.96.0.5", 1),
        ("0.0.0.0", "fd96::5", 0),
        ("::", "fd96::5", 1),
        ("::", "10.96.0.5", 0),
        ("10.96.0.5", "10.96.0.5", 2),
        ("127.0.0.1", "10.96.0.5", 0),
    ],
)
def test_a_listener_accepts_at_its_address_or_at_any_of_the_family(bound: str, address: str, fit: int) -> None:
    assert listener_of("", address=bound).accepts(dial(address)) == fit


def test_a_listener_accepts_in_its_namespace_and_on_its_port_only() -> None:
    listener = listener_of("")
    assert not listener.accepts(dial(netns="/other"))
    assert not listener.accepts(Connection(netns="/n", listener_port=1, address="10.96.0.5", port=1))


def test_a_dual_stack_socket_accepts_both_families() -> None:
    text = "address: {socket_address: {address: '::', port_value: 18001, ipv4_compat: true}}"
    listener = read_listener(message_of(listener_pb2.Listener, text))
    assert listener.accepts(dial(netns="")) == listener.accepts(dial("fd96::5", netns="")) == 1


def test_every_additional_address_counts() -> None:
    more = "additional_addresses: [{address: {socket_address: {address: '::', port_value: 18001}}}]"
    assert listener_of(more).accepts(dial("fd96::5", netns="")) == 1


@pytest.mark.parametrize(
    ("filters", "spoken", "protocols", "transport"),
    [
        ("", Spoken.HTTP11, (), "raw_buffer"),
        (ORIGINAL, Spoken.TLS, (), "raw_buffer"),
        (HTTP, Spoken.HTTP10, ("http/1.0",), "raw_buffer"),
        (HTTP, Spoken.H2C, ("h2c",), "raw_buffer"),
        (HTTP, Spoken.OTHER, (), "raw_buffer"),
        (TLS, Spoken.HTTP11, (), "raw_buffer"),
        (f"{TLS}, {HTTP}", Spoken.TLS, ("h2",), "tls"),
    ],
)
def test_a_listener_knows_what_its_inspectors_find(
    filters: str, spoken: Spoken, protocols: tuple[str, ...], transport: str
) -> None:
    listener = listener_of(f"listener_filters: [{filters}]")
    scene = listener.inspect(dial(spoken=spoken, server_name="DB.shop", alpn=("h2",)))
    assert (scene.application_protocols, scene.transport_protocol) == (protocols, transport)
    assert scene.server_name == ("db.shop" if transport == "tls" else "")


def test_a_connection_knows_its_namespace() -> None:
    assert listener_of("").inspect(dial()).state[NETWORK_NAMESPACE_KEY].text == "/n"
    assert listener_of("", netns="''").inspect(dial(netns="")).state == {}


@pytest.mark.parametrize(
    ("filters", "spoken", "text"),
    [
        ("", Spoken.HTTP11, "10.96.0.5:8080, nobody looks at the bytes"),
        (HTTP, Spoken.HTTP11, "10.96.0.5:8080 speaks http/1.1"),
        (HTTP, Spoken.OTHER, "10.96.0.5:8080 speaks no HTTP"),
        (HTTP, Spoken.SILENT, "10.96.0.5:8080, no bytes came in time"),
        (TLS, Spoken.TLS, "10.96.0.5:8080 speaks h2, server name db.shop"),
    ],
)
def test_a_listener_says_what_it_found(filters: str, spoken: Spoken, text: str) -> None:
    listener = listener_of(f"listener_filters: [{filters}]")
    assert listener.finding(listener.inspect(dial(spoken=spoken, server_name="db.shop", alpn=("h2",)))) == text


MATCHER = """
filter_chain_matcher:
  matcher_tree:
    input:
      name: port
      typed_config:
        '@type': type.googleapis.com/envoy.extensions.matching.common_inputs.network.v3.DestinationPortInput
    exact_match_map:
      map:
        '8080': {action: {name: a, typed_config: {'@type': STRING, value: web}}}
        '9000': {action: {name: a, typed_config: {'@type': STRING, value: gone}}}
filter_chains: [{name: web, filter_chain_match: {destination_port: 1}}]
default_filter_chain: {name: rest}
""".replace("STRING", "type.googleapis.com/google.protobuf.StringValue")


@pytest.mark.parametrize(("port", "chain"), [(8080, "web"), (7000, "rest"), (9000, None)])
def test_a_matcher_names_the_chain(port: int, chain: str | None) -> None:
    listener = listener_of(MATCHER)
    chosen, why = listener.choose(listener.inspect(dial(port=port)))
    assert (chosen.name if chosen else None) == chain
    assert why == ("nothing more specific takes the connection" if port == 7000 else f"destination port is '{port}'")


CHAINS = """
listener_filters: [%s, %s]
filter_chains:
- {name: port, filter_chain_match: {destination_port: 9000, transport_protocol: tls}}
- {name: narrow, filter_chain_match: {prefix_ranges: [{address_prefix: 10.96.0.0, prefix_len: 16}]}}
- {name: wide, filter_chain_match: {prefix_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}}
- {name: name, filter_chain_match: {server_names: [db.shop]}}
- {name: any-name, filter_chain_match: {server_names: ['*.shop']}}
- {name: h2c, filter_chain_match: {transport_protocol: raw_buffer, application_protocols: [h2c, http/1.1]}}
- {name: raw, filter_chain_match: {transport_protocol: raw_buffer}}
- {name: else, filter_chain_match: {}}
default_filter_chain: {name: rest}
""" % (TLS, HTTP)  # noqa: UP031 - braces


@pytest.mark.parametrize(
    ("connection", "chain"),
    [
        (dial("fd00::1", 9000, spoken=Spoken.TLS), "port"),
        (dial("fd00::1", 9000), "rest"),
        (dial("10.96.0.5"), "narrow"),
        (dial("10.1.0.5"), "wide"),
        (dial("fd00::1", spoken=Spoken.TLS, server_name="db.shop"), "name"),
        (dial("fd00::1", spoken=Spoken.TLS, server_name="other.shop"), "any-name"),
        (dial("fd00::1", spoken=Spoken.TLS, server_name="a.b.shop"), "any-name"),
        (dial("fd00::1", spoken=Spoken.TLS, server_name="shop"), "else"),
        (dial("fd00::1", spoken=Spoken.H2C), "h2c"),
        (dial("fd00::1"), "raw"),
        (dial("fd00::1", spoken=Spoken.TLS), "else"),
    ],
)
def test_matches_narrow_without_going_back(connection: Connection, chain: str) -> None:
    listener = listener_of(CHAINS)
    chosen, _ = listener.choose(listener.inspect(connection))
    assert chosen is not None
    assert chosen.name == chain


def test_chains_that_cannot_be_told_apart_are_refused() -> None:
    listener = listener_of("filter_chains: [{name: a}, {name: b}]")
    with pytest.raises(Unsupported, match="overlapping"):
        listener.choose(listener.inspect(dial()))


def test_without_a_fitting_chain_there_is_none() -> None:
    listener = listener_of("filter_chains: [{name: a, filter_chain_match: {destination_port: 1}}]")
    assert listener.choose(listener.inspect(dial()))[0] is None


CERTIFICATE = "tls_certificate_sds_secret_configs: [{name: in/x}]"


def chain_with(transport: str) -> str:
    return f"filter_chains: [{{name: a, transport_socket: {{name: t, typed_config: {transport}}}}}]"


def test_tls_of_a_chain_is_read() -> None:
    common = f"{{{CERTIFICATE}, alpn_protocols: [h2]}}"
    context = (
        f"{{'@type': {TYPE}.transport_sockets.tls.v3.DownstreamTlsContext, require_client_certificate: true,"
        f" common_tls_context: {common}}}"
    )
    tls = listener_of(chain_with(context)).chains[0].tls
    assert tls is not None
    assert (tls.alpn, tls.wants_client_certificate) == (("h2",), True)


def test_a_raw_transport_is_no_tls() -> None:
    raw = f"{{'@type': {TYPE}.transport_sockets.raw_buffer.v3.RawBuffer}}"
    assert listener_of(chain_with(raw)).chains[0].tls is None


@pytest.mark.parametrize(
    "text",
    [
        "use_original_dst: true",
        "bind_to_port: false",
        "listener_filters: [{name: x, typed_config: {'@type': type.googleapis.com/google.protobuf.Struct, value: {}}}]",
        f"listener_filters: [{HTTP[:-1]}, filter_disabled: {{any_match: true}}}}]",
        "filter_chains: [{name: a, filter_chain_match: {source_ports: [1]}}]",
        chain_with(f"{{'@type': {TYPE}.transport_sockets.tls.v3.DownstreamTlsContext}}"),
        "additional_addresses: [{address: {pipe: {path: /x}}}]",
        "additional_addresses: [{address: {socket_address: {address: '::', port_value: 1, protocol: UDP}}}]",
    ],
)
def test_a_listener_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        listener_of(text)
