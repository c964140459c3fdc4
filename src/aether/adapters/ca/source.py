"""Where leaves come from: the authority in this process, or one that signs requests elsewhere.

Elsewhere the private key never leaves the process that uses it: the request carries the public one.
"""

from collections.abc import Awaitable, Callable

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature

from aether.adapters.ca.authority import CertificateAuthority
from aether.adapters.ca.certificates import generate_key, key_pem
from aether.adapters.ca.leaf import BadLeaf, Leaf, parse_leaf
from aether.adapters.ca.request import build_request
from aether.model.identity import WorkloadIdentity


class SignedChain(msgspec.Struct, frozen=True, kw_only=True):
    """What a signing request is answered with: the leaf's chain and the roots to trust, the signing one first."""

    chain_pem: bytes
    bundle_pem: bytes


Sign = Callable[[WorkloadIdentity, bytes], Awaitable[SignedChain]]
"""Have a request (PEM) for an identity signed. Raises AetherError when that is refused or nobody is there."""


class LocalSource:
    """Leaves of an authority in this process."""

    def __init__(self, authority: CertificateAuthority) -> None:
        self._authority = authority

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        return self._authority.issue(identity)


class CsrSource:
    """Leaves for keys made here, signed elsewhere."""

    def __init__(self, sign: Sign) -> None:
        self._sign = sign

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        """A leaf that was checked: for this key and identity, signed by the first root of the bundle.

        Raises:
            BadLeaf: what came back is not that.
        """
        key = generate_key()
        signed = await self._sign(identity, build_request(key, identity))
        leaf = parse_leaf(signed.chain_pem, key_pem(key), signed.bundle_pem)
        if leaf.identity != identity:
            raise BadLeaf(f"certificate: asked for {identity}, got {leaf.identity}")
        _check_issuer(leaf)
        return leaf


def _check_issuer(leaf: Leaf) -> None:
    try:
        root = x509.load_pem_x509_certificates(leaf.bundle_pem)[0]
        x509.load_pem_x509_certificates(leaf.chain_pem)[0].verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise BadLeaf(f"certificate for {leaf.identity}: not signed by the first root of its bundle") from error
