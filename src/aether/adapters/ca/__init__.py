"""The embedded certificate authority, what asks it for leaves, and what an agent keeps of them."""

from aether.adapters.ca.authority import AuthorityExpired, AuthorityUnreadable, CertificateAuthority, RotationRefused
from aether.adapters.ca.cache import BundleUnknown, IdentityCache
from aether.adapters.ca.leaf import BadLeaf, CertificateSource, Leaf, parse_leaf
from aether.adapters.ca.request import RequestRefused
from aether.adapters.ca.source import CsrSource, LocalSource, SignedChain

__all__ = [
    "AuthorityExpired",
    "AuthorityUnreadable",
    "BadLeaf",
    "BundleUnknown",
    "CertificateAuthority",
    "CertificateSource",
    "CsrSource",
    "IdentityCache",
    "Leaf",
    "LocalSource",
    "RequestRefused",
    "RotationRefused",
    "SignedChain",
    "parse_leaf",
]
