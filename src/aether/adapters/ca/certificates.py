"""X.509 certificates as SPIFFE has them: roots, cross certificates and leaves, built (X509-SVID, sections 2 to 4).

Owns: what stands in a certificate. Leaves to others: which root signs, how long, and where keys are kept.

Rule: a leaf has exactly one URI name, its SPIFFE ID, and no subject; so the name extension is critical (RFC 5280,
section 4.2.1.6).
"""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from aether.model.identity import WorkloadIdentity
from aether.model.secret import Secret

CLOCK_SKEW_S = 300.0
"""How far a certificate's life begins before it was issued, so that a peer whose clock is behind takes it."""
ROOT_LIFETIME_S = 10 * 365 * 86_400.0

_COMMON_NAME_LIMIT = 64  # RFC 5280, appendix A.1: ub-common-name-length
_NO_NAME = x509.Name([])


class Life(msgspec.Struct, frozen=True):
    """Seconds of the wall clock between which a certificate is valid, both ends included."""

    not_before: float
    not_after: float


class Issuer(msgspec.Struct, frozen=True):
    """A root and its key: what signs."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def not_after(self) -> float:
        return life_of(self.certificate).not_after


def generate_key() -> ec.EllipticCurvePrivateKey:
    """A fresh ECDSA P-256 key."""
    return ec.generate_private_key(ec.SECP256R1())


def build_root(trust_domain: str, *, now: float) -> Issuer:
    """A self-signed root of a trust domain, valid for `ROOT_LIFETIME_S`."""
    key = generate_key()
    key_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    common_name = f"{key_id.digest[:4].hex()} {trust_domain}"[:_COMMON_NAME_LIMIT]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    life = Life(now - CLOCK_SKEW_S, now + ROOT_LIFETIME_S)
    builder = _builder(subject, subject, key.public_key(), life)
    builder = _add_authority(builder, trust_domain, path_length=1)  # a cross certificate stands between, in a rotation
    builder = builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), False)  # noqa: FBT003
    return Issuer(builder.sign(key, hashes.SHA256()), key)


def build_cross(root: x509.Certificate, trust_domain: str, *, by: Issuer, now: float) -> x509.Certificate:
    """`root` once more, signed by another root: who trusts only that one can follow a chain through it."""
    life = Life(now - CLOCK_SKEW_S, min(by.not_after, life_of(root).not_after))
    builder = _builder(root.subject, by.certificate.subject, root.public_key(), life)
    builder = _add_authority(builder, trust_domain, path_length=0)
    return _sign(builder, by)


def build_leaf(
    public_key: CertificatePublicKeyTypes, identity: WorkloadIdentity, life: Life, *, by: Issuer
) -> x509.Certificate:
    """A workload's certificate, for both ends of a connection."""
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(str(identity))])
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = (
        _builder(_NO_NAME, by.certificate.subject, public_key, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(purposes, critical=False)
        .add_extension(names, critical=True)
    )
    return _sign(builder, by)


def life_of(certificate: x509.Certificate) -> Life:
    return Life(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def uri_names(certificate: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, ...] | None:
    """The URI names of a certificate or request; None if it has a name of another kind."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    uris = tuple(name.value for name in names if isinstance(name, x509.UniformResourceIdentifier))
    return uris if len(uris) == len(names) else None


def subject_key_id(certificate: x509.Certificate) -> bytes:
    """Raises x509.ExtensionNotFound."""
    return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest


def issuer_key_id(certificate: x509.Certificate) -> bytes:
    """Raises x509.ExtensionNotFound."""
    return certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""


def certificates_pem(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def key_pem(key: ec.EllipticCurvePrivateKey) -> Secret:
    return Secret(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: CertificatePublicKeyTypes, life: Life
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(int(life.not_before), UTC))
        .not_valid_after(datetime.fromtimestamp(int(life.not_after), UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _add_authority(builder: x509.CertificateBuilder, trust_domain: str, *, path_length: int) -> x509.CertificateBuilder:
    """What makes a certificate a signing one, named by its trust domain (X509-SVID, sections 4.1 to 4.3)."""
    name = x509.UniformResourceIdentifier(f"spiffe://{trust_domain}")
    return (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
    )


def _sign(builder: x509.CertificateBuilder, by: Issuer) -> x509.Certificate:
    key_id = by.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
    return builder.add_extension(issuer, critical=False).sign(by.key, hashes.SHA256())


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
