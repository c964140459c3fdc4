"""TLS of the mesh hop, and the secrets it names."""

from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2

from aether._proto import filter_state_override_pb2, on_demand_secret_pb2
from aether.model.secret import Secret
from aether.render.envoy import names
from aether.render.envoy.secrets import (
    ALPN_H2,
    ALPN_NONE,
    caller_tls,
    inbound_tls,
    node_tls,
    render_certificate,
    render_validation,
)

PEER = "spiffe://aether.internal/ns/shop/sa/cart"
ONLY_1_3 = (common_pb2.TlsParameters.TLSv1_3, common_pb2.TlsParameters.TLSv1_3)


def upstream(socket: object) -> tls_pb2.UpstreamTlsContext:
    return tls_pb2.UpstreamTlsContext.FromString(socket.typed_config.value)  # type: ignore[attr-defined]


def versions(common: tls_pb2.CommonTlsContext) -> tuple[int, int]:
    return common.tls_params.tls_minimum_protocol_version, common.tls_params.tls_maximum_protocol_version


def pinned(common: tls_pb2.CommonTlsContext) -> list[str]:
    sans = common.combined_validation_context.default_validation_context.match_typed_subject_alt_names
    return [san.matcher.exact or san.matcher.prefix for san in sans]


def test_the_caller_is_whoever_the_connection_says_and_nobody_by_default() -> None:
    common = upstream(caller_tls(server_name="8080", pinned=PEER, alpn=ALPN_H2)).common_tls_context
    selector = on_demand_secret_pb2.Config.FromString(common.custom_tls_certificate_selector.typed_config.value)
    mapper = filter_state_override_pb2.Config.FromString(selector.certificate_mapper.typed_config.value)
    assert mapper.default_value == names.NO_IDENTITY_SECRET
    assert not common.tls_certificate_sds_secret_configs


def test_only_the_pinned_peer_is_accepted_on_a_mesh_hop() -> None:
    context = upstream(caller_tls(server_name="8080", pinned=PEER, alpn=ALPN_H2))
    assert pinned(context.common_tls_context) == [PEER]
    assert context.sni == "8080"


def test_http_asks_for_h2_and_raw_tcp_for_nothing() -> None:
    assert upstream(caller_tls(server_name="1", pinned=PEER, alpn=ALPN_H2)).common_tls_context.alpn_protocols == ["h2"]
    assert upstream(caller_tls(server_name="1", pinned=PEER, alpn=ALPN_NONE)).common_tls_context.alpn_protocols == []


def test_a_probe_presents_a_named_certificate_since_it_carries_no_filter_state() -> None:
    common = upstream(node_tls(server_name="live", pinned=PEER, secret="node")).common_tls_context
    assert [named.name for named in common.tls_certificate_sds_secret_configs] == ["node"]
    assert not common.HasField("custom_tls_certificate_selector")
    assert pinned(common) == [PEER]


def test_the_inbound_demands_a_certificate_of_the_trust_domain_by_a_full_handshake() -> None:
    socket = inbound_tls(secret="in/shop/cart-1", trust_domain="aether.internal", alpn=ALPN_H2)
    context = tls_pb2.DownstreamTlsContext.FromString(socket.typed_config.value)
    assert context.require_client_certificate.value
    assert context.disable_stateless_session_resumption
    assert context.disable_stateful_session_resumption
    assert pinned(context.common_tls_context) == ["spiffe://aether.internal/"]


def test_every_end_speaks_tls_1_3_only() -> None:
    assert versions(upstream(caller_tls(server_name="1", pinned=PEER, alpn=())).common_tls_context) == ONLY_1_3
    assert versions(upstream(node_tls(server_name="1", pinned=PEER, secret="n")).common_tls_context) == ONLY_1_3
    inbound = inbound_tls(secret="s", trust_domain="d", alpn=())
    common = tls_pb2.DownstreamTlsContext.FromString(inbound.typed_config.value).common_tls_context
    assert versions(common) == ONLY_1_3


def test_a_certificate_is_a_secret_with_its_chain_and_key() -> None:
    resource = render_certificate("out/shop/cart", b"chain", Secret(b"key"))
    secret = secret_pb2.Secret.FromString(resource.body)
    assert (resource.name, resource.type_url) == ("out/shop/cart", names.SECRET)
    assert secret.tls_certificate.certificate_chain.inline_bytes == b"chain"
    assert secret.tls_certificate.private_key.inline_bytes == b"key"


def test_trust_can_be_narrowed_to_exact_peers_in_any_order() -> None:
    resource = render_validation("ca", b"roots", ["spiffe://b", "spiffe://a"])
    context = secret_pb2.Secret.FromString(resource.body).validation_context
    assert context.trusted_ca.inline_bytes == b"roots"
    assert [san.matcher.exact for san in context.match_typed_subject_alt_names] == ["spiffe://a", "spiffe://b"]
    assert resource == render_validation("ca", b"roots", ["spiffe://a", "spiffe://b"])


def test_trust_without_peers_accepts_every_name() -> None:
    context = secret_pb2.Secret.FromString(render_validation("ca", b"roots").body).validation_context
    assert not context.match_typed_subject_alt_names
