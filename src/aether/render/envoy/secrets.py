"""TLS of the mesh hop: who is presented, who is accepted, and the SDS secrets that say so.

Owns: the contexts of both ends (spec section 5, rulings E; architecture, decision 21) and the secrets they name. The
bytes of a rendered certificate hold its private key: they must never be logged.

Rule: an upstream context without a pinned identity cannot be made here.
"""

from collections.abc import Iterable

from envoy.config.core.v3 import base_pb2
from envoy.extensions.transport_sockets.tls.v3 import common_pb2, secret_pb2, tls_pb2
from envoy.type.matcher.v3 import string_pb2
from google.protobuf import wrappers_pb2

from aether._proto import filter_state_override_pb2, on_demand_secret_pb2
from aether.model.secret import Secret
from aether.render.envoy.names import CA_SECRET, NO_IDENTITY_SECRET, SECRET
from aether.render.envoy.resource import CLUSTER_FETCH_S, Resource, ads, encode, extension, pack, resource_of

ALPN_H2 = ("h2",)
ALPN_NONE = ()

_ONLY_1_3 = common_pb2.TlsParameters(
    tls_minimum_protocol_version=common_pb2.TlsParameters.TLSv1_3,
    tls_maximum_protocol_version=common_pb2.TlsParameters.TLSv1_3,
)
_SELECTOR = extension(
    "envoy.tls.upstream_certificate_selectors.on_demand_secret",
    on_demand_secret_pb2.Config(
        config_source=ads(fetch_timeout_s=CLUSTER_FETCH_S),
        certificate_mapper=extension(
            "envoy.tls.upstream_certificate_mappers.filter_state_override",
            filter_state_override_pb2.Config(default_value=NO_IDENTITY_SECRET),
        ),
    ),
)


def caller_tls(*, server_name: str, pinned: str, alpn: Iterable[str]) -> base_pb2.TransportSocket:
    """The source's end, as whoever the filter state says the caller is; `pinned` is the only peer accepted."""
    common = tls_pb2.CommonTlsContext(
        tls_params=_ONLY_1_3,
        alpn_protocols=alpn,
        custom_tls_certificate_selector=_SELECTOR,
        combined_validation_context=_trust(string_pb2.StringMatcher(exact=pinned)),
    )
    return _upstream(common, server_name)


def node_tls(*, server_name: str, pinned: str, secret: str) -> base_pb2.TransportSocket:
    """The source's end, as one identity whoever calls: for health checks, which carry no filter state."""
    common = tls_pb2.CommonTlsContext(
        tls_params=_ONLY_1_3,
        alpn_protocols=ALPN_H2,
        tls_certificate_sds_secret_configs=[_sds(secret)],
        combined_validation_context=_trust(string_pb2.StringMatcher(exact=pinned)),
    )
    return _upstream(common, server_name)


def inbound_tls(*, secret: str, trust_domain: str, alpn: Iterable[str]) -> base_pb2.TransportSocket:
    """The destination's end: any identity of the trust domain, always by a full handshake."""
    common = tls_pb2.CommonTlsContext(
        tls_params=_ONLY_1_3,
        alpn_protocols=alpn,
        tls_certificate_sds_secret_configs=[_sds(secret)],
        combined_validation_context=_trust(string_pb2.StringMatcher(prefix=f"spiffe://{trust_domain}/")),
    )
    context = tls_pb2.DownstreamTlsContext(
        common_tls_context=common,
        require_client_certificate=wrappers_pb2.BoolValue(value=True),
        disable_stateless_session_resumption=True,
        disable_stateful_session_resumption=True,
    )
    return base_pb2.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context))


def render_certificate(name: str, chain_pem: bytes, key: Secret) -> Resource:
    """A leaf with what is between it and a root, and its private key, all in PEM."""
    certificate = common_pb2.TlsCertificate(
        certificate_chain=base_pb2.DataSource(inline_bytes=chain_pem),
        private_key=base_pb2.DataSource(inline_bytes=key.reveal()),
    )
    return _secret(secret_pb2.Secret(name=name, tls_certificate=certificate))


def render_validation(name: str, ca_pem: bytes, sans: Iterable[str] = ()) -> Resource:
    """Roots to trust; with `sans`, also the exact URI names of which a peer must have one."""
    context = common_pb2.CertificateValidationContext(
        trusted_ca=base_pb2.DataSource(inline_bytes=ca_pem),
        match_typed_subject_alt_names=[_uri(string_pb2.StringMatcher(exact=san)) for san in sorted(sans)],
    )
    return _secret(secret_pb2.Secret(name=name, validation_context=context))


def _secret(secret: secret_pb2.Secret) -> Resource:
    return resource_of(secret.name, SECRET, encode(secret))


def _upstream(common: tls_pb2.CommonTlsContext, server_name: str) -> base_pb2.TransportSocket:
    context = tls_pb2.UpstreamTlsContext(common_tls_context=common, sni=server_name)
    return base_pb2.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(context))


def _trust(san: string_pb2.StringMatcher) -> tls_pb2.CommonTlsContext.CombinedCertificateValidationContext:
    return tls_pb2.CommonTlsContext.CombinedCertificateValidationContext(
        default_validation_context=common_pb2.CertificateValidationContext(match_typed_subject_alt_names=[_uri(san)]),
        validation_context_sds_secret_config=_sds(CA_SECRET),
    )


def _sds(name: str) -> secret_pb2.SdsSecretConfig:
    return secret_pb2.SdsSecretConfig(name=name, sds_config=ads(fetch_timeout_s=CLUSTER_FETCH_S))


def _uri(matcher: string_pb2.StringMatcher) -> common_pb2.SubjectAltNameMatcher:
    return common_pb2.SubjectAltNameMatcher(san_type=common_pb2.SubjectAltNameMatcher.URI, matcher=matcher)
