"""The cluster specifier programs of the route tables, as functions: what `render.envoy.routes` writes in Lua.

A test runs both on the same requests.
"""

from collections.abc import Mapping

from aether.model.names import Domains
from aether.model.ports import PROXY_PORT
from aether.render.envoy.evaluate.actions import Specify
from aether.render.envoy.evaluate.request import Headers
from aether.render.envoy.names import CALLER_HEADER
from aether.render.envoy.routes import DEFAULT_PORT, Specifier

_PREFIXES: Mapping[Specifier, str] = {Specifier.MESH: "", Specifier.OWN: "own|"}


def contracts_for(domains: Domains) -> Mapping[str, Specify]:
    """What each specifier's program answers, by the specifier's name."""
    return {specifier.value: _contract(prefix, domains) for specifier, prefix in _PREFIXES.items()}


def _contract(prefix: str, domains: Domains) -> Specify:
    def specify(_: str, headers: Headers) -> str:
        host, _, port = headers[":authority"][0].lower().partition(":")
        caller, _, dialled = headers[CALLER_HEADER][0].rpartition("/")
        service, dot, rest = host.partition(".")
        namespace = rest.partition(".")[0] if dot else caller
        if dialled != str(PROXY_PORT):
            port = dialled
        return f"{prefix}{service}.{namespace}.{domains.mesh}:{port or DEFAULT_PORT}"

    return specify
