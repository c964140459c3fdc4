"""The embedded certificate authority of one trust domain.

Owns: the root's key and its file, what is signed, and the change from one root to the next.
Leaves to others: who may have which identity (`control.world.channel`), delivery (`control.agent.identity`).

A root is replaced in two phases. `begin_root_rotation` makes a new root that signs from now on, and has the old one
sign the new one's key once. Leaves carry that cross certificate: who trusts only the old root still accepts them, who
already has both roots accepts both kinds. After one leaf lifetime every leaf and every bundle has been renewed, and
`finish_root_rotation` lets go of the old root. No connection needs anybody to have heard of a phase in time.

Rule: a file that is there is never replaced by a new authority: whoever lost a root lost every identity signed by it.
"""

from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from aether.adapters.ca.certificates import (
    CLOCK_SKEW_S,
    Issuer,
    Life,
    build_cross,
    build_leaf,
    build_root,
    certificates_pem,
    generate_key,
    key_pem,
    life_of,
    uri_names,
)
from aether.adapters.ca.leaf import Leaf, parse_leaf
from aether.adapters.ca.private_file import create_private, make_private_folder, write_private
from aether.adapters.ca.request import RequestRefused, judge_request
from aether.adapters.clock import Clock
from aether.errors import AetherError
from aether.model.identity import WorkloadIdentity
from aether.model.settings import LEAF_LIFETIME_LIMIT_S

LEAF_LIFETIME_S = LEAF_LIFETIME_LIMIT_S
FILE_NAME = "authority.pem"
"""In the authority's folder. The signing key and its root; during a rotation also the cross certificate and the old
root."""


class AuthorityUnreadable(AetherError):
    """The authority's file is there and cannot be used. It is left as it is."""

    code = "ca-unreadable"

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}. Restore it from a backup, or move it away to begin with a new root")
        self.path = path


class AuthorityExpired(AetherError):
    """The root is at its end: nothing it signs would be accepted."""

    code = "ca-expired"


class RotationRefused(AetherError):
    """A root rotation cannot begin or finish now."""

    code = "ca-rotation-refused"


class _Roots(msgspec.Struct, frozen=True, kw_only=True):
    """What the file holds. `cross` and `old` are both there during a rotation, else neither."""

    signer: Issuer
    cross: x509.Certificate | None = None
    old: x509.Certificate | None = None

    @property
    def between(self) -> tuple[x509.Certificate, ...]:
        return () if self.cross is None else (self.cross,)

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        return (self.signer.certificate,) if self.old is None else (self.signer.certificate, self.old)


class CertificateAuthority:
    """Signs leaves of one trust domain. Methods take well under a millisecond; the rotation's two write a file."""

    def __init__(self, path: Path, trust_domain: str, roots: _Roots, *, clock: Clock) -> None:
        self._path = path
        self._trust_domain = trust_domain
        self._roots = roots
        self._clock = clock

    @classmethod
    def open(cls, folder: Path, trust_domain: str, *, clock: Clock) -> "CertificateAuthority":
        """The authority that `folder` holds; made once, if nothing is there. Blocks on the file.

        Raises:
            AuthorityUnreadable: what is there is no authority of this trust domain, or cannot be read.
        """
        path = folder / FILE_NAME
        try:
            make_private_folder(folder)
            if not path.exists():
                create_private(path, _format_roots(_Roots(signer=build_root(trust_domain, now=clock.wall()))))
            data = path.read_bytes()
        except OSError as error:
            raise AuthorityUnreadable(path, error.strerror or str(error)) from error
        return cls(path, trust_domain, _parse_roots(data, path, trust_domain), clock=clock)

    @property
    def trust_domain(self) -> str:
        return self._trust_domain

    @property
    def not_after(self) -> float:
        """When (wall clock, seconds) the signing root ends."""
        return self._roots.signer.not_after

    @property
    def is_rotating(self) -> bool:
        return self._roots.old is not None

    @property
    def finishes_at(self) -> float | None:
        """From when on (wall clock, seconds) the root rotation may be finished; None if none is under way."""
        if not self.is_rotating:
            return None
        began = life_of(self._roots.signer.certificate).not_before + CLOCK_SKEW_S
        return began + LEAF_LIFETIME_S + CLOCK_SKEW_S

    def bundle_pem(self) -> bytes:
        """The roots to trust, the one that signs first."""
        return certificates_pem(self._roots.trusted)

    def sign(self, csr_pem: bytes, identity: WorkloadIdentity, *, lifetime_s: float = LEAF_LIFETIME_S) -> bytes:
        """The chain (PEM) for the key of a signing request.

        Raises:
            RequestRefused: the request asks for something else or its key is weak; the identity is another domain's.
            AuthorityExpired: the root ends.
        """
        if identity.trust_domain != self._trust_domain:
            raise RequestRefused(identity, f"this authority is {self._trust_domain}'s")
        key = judge_request(csr_pem, identity)
        leaf = build_leaf(key, identity, self._leaf_life(lifetime_s), by=self._roots.signer)
        return certificates_pem((leaf, *self._roots.between))

    def issue(self, identity: WorkloadIdentity, *, lifetime_s: float = LEAF_LIFETIME_S) -> Leaf:
        """A leaf with a key made here. Raises as `sign` does."""
        if identity.trust_domain != self._trust_domain:
            raise RequestRefused(identity, f"this authority is {self._trust_domain}'s")
        key = generate_key()
        leaf = build_leaf(key.public_key(), identity, self._leaf_life(lifetime_s), by=self._roots.signer)
        return parse_leaf(certificates_pem((leaf, *self._roots.between)), key_pem(key), self.bundle_pem())

    def begin_root_rotation(self) -> None:
        """Sign with a new root from now on, and trust both. The old root's key is gone when this returns.

        Raises:
            RotationRefused: one is under way.
            AuthorityUnreadable: the file cannot be written; nothing has changed.
        """
        if self.is_rotating:
            raise RotationRefused("a root rotation is under way: finish it first")
        now = self._clock.wall()
        old, new = self._roots.signer, build_root(self._trust_domain, now=now)
        cross = build_cross(new.certificate, self._trust_domain, by=old, now=now)
        self._replace(_Roots(signer=new, cross=cross, old=old.certificate))

    def finish_root_rotation(self) -> None:
        """Trust the new root only.

        Raises:
            RotationRefused: none is under way, or leaves of the old root may still be in use.
            AuthorityUnreadable: the file cannot be written; nothing has changed.
        """
        if (finishes_at := self.finishes_at) is None:
            raise RotationRefused("no root rotation is under way")
        if (left_s := finishes_at - self._clock.wall()) > 0:
            raise RotationRefused(f"leaves of the old root may be in use for {left_s:.0f} s more")
        self._replace(_Roots(signer=self._roots.signer))

    def _replace(self, roots: _Roots) -> None:
        try:
            write_private(self._path, _format_roots(roots))
        except OSError as error:
            raise AuthorityUnreadable(self._path, error.strerror or str(error)) from error
        self._roots = roots

    def _leaf_life(self, lifetime_s: float) -> Life:
        now = self._clock.wall()
        not_after = min(now + min(lifetime_s, LEAF_LIFETIME_S), self._roots.signer.not_after)
        if not_after <= now:
            raise AuthorityExpired(f"{self._path}: the root has expired")
        return Life(now - CLOCK_SKEW_S, not_after)


def _format_roots(roots: _Roots) -> bytes:
    old = () if roots.old is None else (roots.old,)
    certificates = (roots.signer.certificate, *roots.between, *old)
    return key_pem(roots.signer.key).reveal() + certificates_pem(certificates)


def _parse_roots(data: bytes, path: Path, trust_domain: str) -> _Roots:
    try:
        key = load_pem_private_key(data, password=None)
        certificates = x509.load_pem_x509_certificates(data)
    except (ValueError, TypeError) as error:
        raise AuthorityUnreadable(path, f"not a key and its certificates ({error})") from error
    root, *more = certificates
    if not isinstance(key, ec.EllipticCurvePrivateKey) or root.public_key() != key.public_key():
        raise AuthorityUnreadable(path, "the key is not its first certificate's")
    if (names := uri_names(root)) != (f"spiffe://{trust_domain}",):
        raise AuthorityUnreadable(path, f"a root of {', '.join(names or ())}, and {trust_domain} is needed")
    match more:
        case []:
            return _Roots(signer=Issuer(root, key))
        case [cross, old] if _is_cross(cross, root, old):
            return _Roots(signer=Issuer(root, key), cross=cross, old=old)
        case _:
            raise AuthorityUnreadable(path, f"{len(certificates)} certificates that do not belong together")


def _is_cross(cross: x509.Certificate, root: x509.Certificate, old: x509.Certificate) -> bool:
    """Whether `cross` is the key of `root`, signed by another root."""
    try:
        cross.verify_directly_issued_by(old)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return cross.public_key() == root.public_key() != old.public_key()
