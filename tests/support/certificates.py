"""Certificates that a test makes for itself: the world's own authority's, or a stranger's."""

import time

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from aether.adapters.ca.authority import FILE_NAME
from aether.adapters.ca.certificates import (
    CLOCK_SKEW_S,
    Issuer,
    Life,
    build_leaf,
    build_root,
    certificates_pem,
    generate_key,
    key_pem,
)
from aether.adapters.paths import WorldPaths
from aether.model.identity import WorkloadIdentity

HOUR_S = 3600.0


def world_issuer(paths: WorldPaths) -> Issuer:
    """The world's own root and key, as only its owner can read them."""
    data = (paths.ca / FILE_NAME).read_bytes()
    key = load_pem_private_key(data, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Issuer(x509.load_pem_x509_certificates(data)[0], key)


def stranger() -> Issuer:
    """The root of another authority, which says of itself that it is the mesh's."""
    return build_root("aether.internal", now=time.time())


def workload(identity: str, *, by: Issuer, from_s: float = -CLOCK_SKEW_S, until_s: float = HOUR_S) -> bytes:
    """A key and certificate (PEM) for a SPIFFE ID, valid between the two seconds from now."""
    domain, _, namespace, _, account = identity.removeprefix("spiffe://").split("/")
    key, now = generate_key(), time.time()
    life = Life(now + from_s, now + until_s)
    certificate = build_leaf(key.public_key(), WorkloadIdentity(domain, namespace, account), life, by=by)
    return key_pem(key).reveal() + certificates_pem([certificate])
