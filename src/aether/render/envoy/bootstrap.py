"""The bootstrap: what an Envoy knows before its agent speaks to it."""

from typing import Any

import msgspec


class BootstrapSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Paths are on the node's file system. Concurrency is a flag of the process, not part of the bootstrap."""

    node: str
    ads_socket: str
    admin_socket: str
    max_downstream_connections: int = 50_000
    """Per process. A guard against running out of file descriptors: each proxied connection takes two."""


def render_bootstrap(settings: BootstrapSettings) -> dict[str, Any]:
    """The bootstrap as JSON-able values."""
    raise NotImplementedError
