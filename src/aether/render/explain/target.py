"""What a client would call: a URL, or a host and a port."""

import enum
from urllib.parse import SplitResult, urlsplit

import msgspec

from aether.errors import AetherError
from aether.model.ports import parse_port_number


class BadTarget(AetherError):
    code = "bad-target"

    def __init__(self, text: str, why: str) -> None:
        super().__init__(f"target {text!r}: {why}")


class Speech(enum.StrEnum):
    """What the client says first."""

    HTTP = "http"
    TLS = "tls"
    RAW = "raw"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """`host` is a name or an address without brackets. `authority` and `path` are for HTTP only."""

    speech: Speech
    host: str
    port: int
    authority: str = ""
    path: str = "/"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


_DEFAULT_PORTS = {"http": 80, "https": 443}


def parse_target(text: str) -> Target:
    """Read ``http://cart.shop:8080/x``, ``https://cart/``, ``tcp://db:3306`` or ``db:3306``.

    The authority of an http URL is what a client sends as Host: without the port when that is 80.

    Raises:
        BadTarget: it is none of these, or its port is no port.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        scheme, text = "tcp", f"tcp://{text}"
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
    except ValueError as error:
        raise BadTarget(text, str(error)) from None
    if scheme not in {"http", "https", "tcp"}:
        raise BadTarget(text, "write http://HOST:PORT/PATH or HOST:PORT")
    if not host:
        raise BadTarget(text, "the host is missing")
    number = _port(parts, text)
    if scheme == "tcp":
        return Target(speech=Speech.RAW, host=host, port=number)
    if scheme == "https":
        return Target(speech=Speech.TLS, host=host, port=number)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(speech=Speech.HTTP, host=host, port=number, authority=_authority(parts, number), path=path)


def _authority(parts: SplitResult, number: int) -> str:
    host = parts.netloc.rpartition("@")[2]
    bare = host.rpartition(":")[0] if parts.port is not None else host.removesuffix(":")
    return bare if number == _DEFAULT_PORTS["http"] else f"{bare}:{number}"


def _port(parts: SplitResult, text: str) -> int:
    try:
        spelled = parts.port
    except ValueError:
        raise BadTarget(text, "the port must be from 1 to 65535") from None
    number = _DEFAULT_PORTS.get(parts.scheme) if spelled is None else parse_port_number(str(spelled))
    if number is None:
        raise BadTarget(text, "the port is missing" if spelled is None else "the port must be from 1 to 65535")
    return number
