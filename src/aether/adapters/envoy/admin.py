"""Envoy's administration interface over a unix socket."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from aether.errors import AetherError

_HOST = "http://envoy"
_LIVE = "LIVE"


class AdminUnavailable(AetherError):
    """Envoy's administration interface does not answer, or not as expected."""

    code = "envoy-admin-unavailable"


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is LIVE, DRAINING, PRE_INITIALIZING or INITIALIZING."""

    state: str
    version: str
    epoch: int
    uptime_s: int


class _CommandLine(msgspec.Struct):
    restart_epoch: int = 0


class _ServerInfo(msgspec.Struct):
    state: str
    version: str
    uptime_current_epoch: str
    command_line_options: _CommandLine


class EnvoyAdmin:
    """One request per call, on a connection of its own: the socket is another one after every start of Envoy.

    Every method but `is_live` raises AdminUnavailable when there is no answer within `timeout_s`.
    """

    def __init__(self, socket_path: Path, *, timeout_s: float = 2.0) -> None:
        self._socket_path = socket_path
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def is_live(self) -> bool:
        """Whether Envoy answers and serves. False for anything else; never raises."""
        try:
            return (await self._request("GET", "/ready")).strip() == _LIVE.encode()
        except AdminUnavailable:
            return False

    async def server_info(self) -> ServerInfo:
        try:
            info = msgspec.json.decode(await self._request("GET", "/server_info"), type=_ServerInfo)
        except msgspec.DecodeError as error:
            raise AdminUnavailable(f"/server_info is not understood: {error}") from error
        return ServerInfo(
            state=info.state,
            version=info.version,
            epoch=info.command_line_options.restart_epoch,
            uptime_s=int(info.uptime_current_epoch.removesuffix("s")),
        )

    async def gauges(self, pattern: str) -> Mapping[str, int]:
        """Counters and gauges whose name matches the regular expression (RE2, anywhere in the name)."""
        lines = (await self._request("GET", "/stats", filter=pattern)).decode().splitlines()
        pairs = (line.rpartition(": ") for line in lines)
        return {name: int(value) for name, _, value in pairs if value.isdecimal()}

    async def clusters(self) -> Mapping[str, Any]:
        """``/clusters?format=json``: clusters and their hosts."""
        return _json(await self._request("GET", "/clusters", format="json"))

    async def config_dump(self, resource: str = "", *, name_regex: str = "") -> Mapping[str, Any]:
        """The configuration in use; `resource` picks a part, for example ``dynamic_active_clusters``."""
        query = {key: value for key, value in (("resource", resource), ("name_regex", name_regex)) if value}
        return _json(await self._request("GET", "/config_dump", **query))

    async def drain_listeners(self, *, is_graceful: bool = True) -> None:
        """Close all listeners: at once, or after the drain time during which answers ask clients to reconnect."""
        query = {"graceful": ""} if is_graceful else {}
        await self._request("POST", "/drain_listeners", **query)

    async def set_log_level(self, level: str) -> None:
        await self._request("POST", "/logging", level=level)

    async def _request(self, method: str, path: str, **query: str) -> bytes:
        connector = aiohttp.UnixConnector(path=str(self._socket_path))
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=self._timeout) as session,
                session.request(method, _HOST + path, params=query) as response,
            ):
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AdminUnavailable(f"{path}: {str(error) or type(error).__name__}") from error
        if response.status >= 400 and path != "/ready":
            raise AdminUnavailable(f"{path}: {response.status} {body.decode(errors='replace').strip()[:200]}")
        return body


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise AdminUnavailable(f"the answer is not JSON: {error}") from error
