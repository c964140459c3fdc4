"""Certificates and trust as SDS secrets. The text of these resources must never be logged."""

from collections.abc import Iterable

from aether.model.secret import Secret
from aether.render.envoy.resource import Resource


def render_certificate(name: str, chain_pem: bytes, key: Secret) -> Resource:
    """A leaf with what is between it and a root, and its private key (PEM)."""
    raise NotImplementedError


def render_validation(name: str, ca_pem: bytes, sans: Iterable[str] = ()) -> Resource:
    """Roots to trust; with `sans`, also the exact URI names of which a peer must have one."""
    raise NotImplementedError
