"""Envoy's administration interface over a unix socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from aether.errors import AetherError


class AdminUnavailable(AetherError):
    """Envoy's administration interface does not answer, or not as expected."""

    code = "envoy-admin-unavailable"


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is LIVE, DRAINING, PRE_INITIALIZING or INITIALIZING."""

    state: str
    version: str
    epoch: int
    uptime_s: int


class EnvoyAdmin:
    """One request per call. Every method but `is_live` raises AdminUnavailable when there is no answer."""

    def __init__(self, socket_path: Path, *, timeout_s: float = 2.0) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s

    async def is_live(self) -> bool:
        """Whether Envoy answers and serves. False for anything else; never raises."""
        raise NotImplementedError

    async def server_info(self) -> ServerInfo:
        raise NotImplementedError

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        """Counters and gauges whose name matches the regular expression."""
        raise NotImplementedError

    async def clusters(self) -> Mapping[str, Any]:
        """``/clusters?format=json``: clusters and their hosts."""
        raise NotImplementedError

    async def config_dump(self, resource: str = "", *, name_regex: str = "") -> Mapping[str, Any]:
        """The configuration in use; `resource` picks a part, for example ``dynamic_active_clusters``."""
        raise NotImplementedError

    async def drain_listeners(self, *, is_graceful: bool = True) -> None:
        raise NotImplementedError

    async def set_log_level(self, level: str) -> None:
        raise NotImplementedError
