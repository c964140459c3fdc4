"""A workload's certificate with its key, and the protocol of whoever gives them out."""

from typing import Protocol

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from aether.adapters.ca.certificates import CLOCK_SKEW_S, issuer_key_id, life_of, uri_names
from aether.errors import AetherError
from aether.model.identity import BadIdentity, WorkloadIdentity, parse_spiffe
from aether.model.secret import Secret


class BadLeaf(AetherError):
    """A certificate that is not a workload's, or not the one that was asked for."""

    code = "bad-leaf"


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """A leaf in use. Times are seconds of the wall clock.

    `chain_pem` is the leaf and what stands between it and a root; `bundle_pem` the roots to trust, the one that signs
    first, as they were known with it; `issuer_key_id` names the key that signed it.
    """

    identity: WorkloadIdentity
    chain_pem: bytes
    key: Secret
    not_before: float
    not_after: float
    serial: int
    issuer_key_id: bytes
    bundle_pem: bytes

    @property
    def rotate_at(self) -> float:
        """Half of its life after it was issued."""
        return (self.not_before + CLOCK_SKEW_S + self.not_after) / 2


class CertificateSource(Protocol):
    """Who gives out leaves."""

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        """A new leaf. Raises AetherError when there is none to be had."""


def parse_leaf(chain_pem: bytes, key: Secret, bundle_pem: bytes) -> Leaf:
    """Read a chain that a workload may present.

    Raises:
        BadLeaf: it is no chain, its first certificate is not a workload's, or the key is another's.
    """
    try:
        certificate = x509.load_pem_x509_certificates(chain_pem)[0]
        public_key = load_pem_private_key(key.reveal(), password=None).public_key()
        issued_by = issuer_key_id(certificate)
        names = uri_names(certificate) or ()
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise BadLeaf(f"certificate: {error}") from error
    if public_key != certificate.public_key():
        raise BadLeaf("certificate: it is for another key")
    life = life_of(certificate)
    return Leaf(
        identity=_identity(names),
        chain_pem=chain_pem,
        key=key,
        not_before=life.not_before,
        not_after=life.not_after,
        serial=certificate.serial_number,
        issuer_key_id=issued_by,
        bundle_pem=bundle_pem,
    )


def _identity(names: tuple[str, ...]) -> WorkloadIdentity:
    if len(names) != 1:
        raise BadLeaf(f"certificate: it has {len(names)} SPIFFE IDs, and must have one")
    try:
        return parse_spiffe(names[0])
    except BadIdentity as error:
        raise BadLeaf(f"certificate: {error}") from error
