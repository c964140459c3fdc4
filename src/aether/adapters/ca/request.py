"""Certificate signing requests: written by who wants a leaf, and judged by who signs (RFC 2986)."""

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from aether.adapters.ca.certificates import uri_names
from aether.errors import AetherError
from aether.model.identity import WorkloadIdentity

REQUEST_LIMIT_BYTES = 16 * 1024
RSA_LIMITS_BITS = (2048, 8192)
"""Shorter is weak; longer makes every handshake with it slow."""

_CURVES = (ec.SECP256R1, ec.SECP384R1)  # what Envoy takes besides RSA


class RequestRefused(AetherError):
    """A certificate signing request that must not be signed."""

    code = "certificate-request-refused"

    def __init__(self, identity: WorkloadIdentity, why: str) -> None:
        super().__init__(f"certificate request for {identity}: {why}")
        self.identity = identity


def build_request(key: ec.EllipticCurvePrivateKey, identity: WorkloadIdentity) -> bytes:
    """A request (PEM) that names the identity and nothing else."""
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(str(identity))])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(names, critical=True)
        .sign(key, hashes.SHA256())
    )
    return request.public_bytes(serialization.Encoding.PEM)


def judge_request(csr_pem: bytes, identity: WorkloadIdentity) -> CertificatePublicKeyTypes:
    """The public key of a request for `identity`. Of a request only the key is used.

    Raises:
        RequestRefused: unreadable, not signed by its own key, a weak key, or any other name asked for.
    """
    if len(csr_pem) > REQUEST_LIMIT_BYTES:
        raise RequestRefused(identity, f"{len(csr_pem)} bytes, and {REQUEST_LIMIT_BYTES} are the limit")
    try:
        request = x509.load_pem_x509_csr(csr_pem)
        names = uri_names(request)
        is_signed = request.is_signature_valid
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm, x509.DuplicateExtension) as error:
        raise RequestRefused(identity, f"unreadable: {error}") from error
    if not is_signed:
        raise RequestRefused(identity, "its signature is not its key's")
    if names not in ((), (str(identity),)):
        raise RequestRefused(identity, "it asks for other names")
    if why := _weakness(key):
        raise RequestRefused(identity, why)
    return key


def _weakness(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return "" if isinstance(key.curve, _CURVES) else f"curve {key.curve.name}: P-256 or P-384 are needed"
    if isinstance(key, rsa.RSAPublicKey):
        low, high = RSA_LIMITS_BITS
        return "" if low <= key.key_size <= high else f"an RSA key of {key.key_size} bits: {low} to {high} are allowed"
    return "an ECDSA or RSA key is needed"
