"""Signing requests: only the key of a sound request is used."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from aether.adapters.ca.certificates import generate_key
from aether.adapters.ca.request import REQUEST_LIMIT_BYTES, RequestRefused, build_request, judge_request
from aether.model.identity import WorkloadIdentity

CART = WorkloadIdentity("aether.internal", "shop", "cart")
WEB = WorkloadIdentity("aether.internal", "shop", "web")


def request_by(key: CertificateIssuerPrivateKeyTypes, *names: x509.GeneralName) -> bytes:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


def test_a_request_for_the_identity_gives_its_key() -> None:
    key = generate_key()
    assert judge_request(build_request(key, CART), CART) == key.public_key()


def test_a_request_that_names_nobody_gives_its_key_too() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    assert judge_request(request_by(key), CART) == key.public_key()


@pytest.mark.parametrize(
    ("csr_pem", "why"),
    [
        (b"", "unreadable"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "unreadable"),
        (b"x" * (REQUEST_LIMIT_BYTES + 1), "are the limit"),
        (build_request(generate_key(), WEB), "other names"),
        (request_by(generate_key(), x509.DNSName("cart")), "other names"),
        (request_by(ec.generate_private_key(ec.SECP256K1())), "P-256 or P-384"),
        (request_by(rsa.generate_private_key(65537, 1024)), "2048 to 8192"),
        (request_by(ed25519.Ed25519PrivateKey.generate()), "ECDSA or RSA"),
    ],
)
def test_anything_else_is_refused_and_says_why(csr_pem: bytes, why: str) -> None:
    with pytest.raises(RequestRefused, match=why) as caught:
        judge_request(csr_pem, CART)
    assert str(CART) in str(caught.value)


def test_a_request_that_its_key_did_not_sign_is_refused() -> None:
    csr = x509.load_pem_x509_csr(build_request(generate_key(), CART))
    data = bytearray(csr.public_bytes(serialization.Encoding.DER))
    data[-1] ^= 1
    tampered = x509.load_der_x509_csr(bytes(data)).public_bytes(serialization.Encoding.PEM)
    with pytest.raises(RequestRefused, match="signature"):
        judge_request(tampered, CART)
