"""The leaves that an agent keeps on disk, so that after a restart it serves the very same ones.

One file a leaf (its key and chain) and one with the roots to trust; all of them 0600. A file that cannot be read is
dropped and its leaf asked for again: unlike a root, a leaf can be had at any time.
"""

import asyncio
import hashlib
from collections.abc import Iterable
from pathlib import Path

import structlog
from cryptography import x509

from aether.adapters.ca.certificates import subject_key_id
from aether.adapters.ca.leaf import BadLeaf, CertificateSource, Leaf, parse_leaf
from aether.adapters.ca.private_file import make_private_folder, write_private
from aether.adapters.clock import Clock
from aether.errors import AetherError
from aether.model.identity import WorkloadIdentity
from aether.model.secret import Secret

BUNDLE_NAME = "bundle.pem"
_LEAF_SUFFIX = ".leaf"
_CERTIFICATE_BEGINS = b"-----BEGIN CERTIFICATE-----"

log = structlog.get_logger()


class BundleUnknown(AetherError):
    """Nobody has said yet which roots to trust."""

    code = "ca-bundle-unknown"


class IdentityCache:
    """Gives out kept leaves while they are fresh, and new ones of `source` when they are not."""

    def __init__(self, folder: Path, source: CertificateSource, *, clock: Clock) -> None:
        """Reads `folder`, made if missing. Raises OSError when it can be neither made nor read."""
        self._folder = folder
        self._source = source
        self._clock = clock
        make_private_folder(folder)
        self._bundle_pem, self._signing_key_id = _load_bundle(folder / BUNDLE_NAME)
        self._leaves = {leaf.identity: leaf for leaf in _load_leaves(folder, self._bundle_pem)}

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        """The kept leaf while it is in the first half of its life and of the signing root, else a new one.

        When no new one is to be had, the kept one as long as it is valid. Raises the source's AetherError after that.
        """
        kept = self._leaves.get(identity)
        if kept is not None and self._is_fresh(kept):
            return kept
        try:
            leaf = await self._source.leaf(identity)
        except AetherError as error:
            if kept is None or kept.not_after <= self._clock.wall():
                raise
            log.warning("leaf-not-renewed", identity=str(identity), valid_until=kept.not_after, error=str(error))
            return kept
        self._leaves[identity] = leaf
        await asyncio.to_thread(self._store, self._path(identity), leaf.key.reveal() + leaf.chain_pem)
        self.trust(leaf.bundle_pem)
        return leaf

    def ca_pem(self) -> bytes:
        """The roots to trust, as last heard. Raises BundleUnknown before the first."""
        if not self._bundle_pem:
            raise BundleUnknown("the roots to trust are not known: no certificate has been issued yet")
        return self._bundle_pem

    def trust(self, bundle_pem: bytes) -> None:
        """Take over the roots to trust. Leaves that its first root did not sign are renewed when next asked for.

        Raises:
            BadLeaf: it holds no root.
        """
        if bundle_pem != self._bundle_pem:
            self._signing_key_id = _signing_key_id(bundle_pem)
            self._bundle_pem = bundle_pem
            self._store(self._folder / BUNDLE_NAME, bundle_pem)

    def prune(self, identities: Iterable[WorkloadIdentity]) -> None:
        """Forget every leaf that is not of `identities`."""
        for identity in self._leaves.keys() - set(identities):
            del self._leaves[identity]
            self._path(identity).unlink(missing_ok=True)

    def _is_fresh(self, leaf: Leaf) -> bool:
        is_of_signing_root = leaf.issuer_key_id == self._signing_key_id
        return is_of_signing_root and leaf.not_before <= self._clock.wall() < leaf.rotate_at

    def _store(self, path: Path, data: bytes) -> None:
        """A leaf that cannot be kept is served all the same."""
        try:
            write_private(path, data)
        except OSError as error:
            log.warning("leaf-not-kept", path=str(path), error=str(error))

    def _path(self, identity: WorkloadIdentity) -> Path:
        """Named by a digest: an identity may be longer than a file name."""
        return self._folder / (hashlib.sha256(str(identity).encode()).hexdigest()[:32] + _LEAF_SUFFIX)


def _load_bundle(path: Path) -> tuple[bytes, bytes]:
    """The roots and the key id of the first; both empty if there are none."""
    try:
        data = path.read_bytes()
        return data, _signing_key_id(data)
    except FileNotFoundError:
        return b"", b""
    except BadLeaf as error:
        log.warning("kept-bundle-unreadable", path=str(path), error=str(error))
        return b"", b""


def _load_leaves(folder: Path, bundle_pem: bytes) -> Iterable[Leaf]:
    for path in sorted(folder.glob(f"*{_LEAF_SUFFIX}")):
        key, begins, chain = path.read_bytes().partition(_CERTIFICATE_BEGINS)  # the key comes first in the file
        try:
            yield parse_leaf(begins + chain, Secret(key), bundle_pem)
        except BadLeaf as error:
            log.warning("kept-leaf-unreadable", path=str(path), error=str(error))
            path.unlink(missing_ok=True)


def _signing_key_id(bundle_pem: bytes) -> bytes:
    try:
        return subject_key_id(x509.load_pem_x509_certificates(bundle_pem)[0])
    except (ValueError, x509.ExtensionNotFound) as error:
        raise BadLeaf(f"roots to trust: {error}") from error
