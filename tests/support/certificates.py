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
from aether.model.identity import parse_spiffe
from aether.model.secret import Secret

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
    certificate_pem, key = _issue(identity, by, from_s=from_s, until_s=until_s)
    return key.reveal() + certificate_pem


class Authority:
    """A root of its own, for meshes that nobody but the test runs."""

    def __init__(self) -> None:
        self._issuer = build_root("aether.internal", now=time.time())
        self.root_pem = certificates_pem([self._issuer.certificate])

    def issue(self, identity: str, *, is_expired: bool = False) -> tuple[bytes, Secret]:
        """A leaf (PEM) for a SPIFFE ID, and its key."""
        until_s = -HOUR_S if is_expired else HOUR_S
        return _issue(identity, self._issuer, from_s=-2 * HOUR_S, until_s=until_s)


def _issue(identity: str, by: Issuer, *, from_s: float, until_s: float) -> tuple[bytes, Secret]:
    key, now = generate_key(), time.time()
    life = Life(now + from_s, now + until_s)
    certificate = build_leaf(key.public_key(), parse_spiffe(identity), life, by=by)
    return certificates_pem([certificate]), key_pem(key)
