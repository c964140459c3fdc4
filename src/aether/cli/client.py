"""The client of the local API: HTTP over a unix socket, blocking, with the standard library's HTTP (it starts fast)."""

import http.client
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlencode

import msgspec

from aether.cli.failure import ApiRefusal, CliError, NoWorld
from aether.cli.worlds import START, choose_world
from aether.errors import Diagnostic

T = TypeVar("T")

TIMEOUT_S = 30.0
"""How long an answer may take. Streams (watches, followed logs) have no limit."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error answer of the API (RFC 9457), as far as it is read here."""

    code: str = ""
    detail: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()


def open_world(name: str | None) -> "ApiClient":
    """The API of the world named, else of the only one. Errors as `choose_world`."""
    return ApiClient(choose_world(name).api_socket)


class ApiClient:
    """One world's API. Every call opens a connection of its own."""

    def __init__(self, path: Path, *, timeout_s: float = TIMEOUT_S) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def call(
        self, method: str, path: str, *, reply: type[T], query: dict[str, str] | None = None, body: object = None
    ) -> T:
        """The decoded answer.

        Raises:
            NoWorld: nobody answers at the socket, or this user may not connect.
            ApiRefusal: the world answered with a problem.
            CliError: the answer was not understood or took longer than the timeout.
        """
        with self._exchange(method, _with_query(path, query), body, timeout_s=self._timeout_s) as response:
            try:
                return msgspec.json.decode(response.read(), type=reply)
            except (OSError, http.client.HTTPException) as error:
                raise CliError(f"the world's answer broke off: {error}") from error
            except msgspec.MsgspecError as error:
                advice = "is the running world of another version? `aether version` tells"
                raise CliError(f"the world's answer was not understood: {error}", advice=advice) from error

    def get(self, path: str, *, reply: type[T], query: dict[str, str] | None = None) -> T:
        return self.call("GET", path, reply=reply, query=query)

    def stream(self, path: str, *, query: dict[str, str] | None = None) -> Iterator[bytes]:
        """The lines of a streamed answer as they come, each with its newline, until it ends."""
        with self._exchange("GET", _with_query(path, query), None, timeout_s=None) as response:
            try:
                yield from response
            except (OSError, http.client.HTTPException) as error:
                raise CliError("the world ended the stream") from error

    @contextmanager
    def _exchange(
        self, method: str, target: str, body: object, *, timeout_s: float | None
    ) -> Iterator[http.client.HTTPResponse]:
        data = None if body is None else msgspec.json.encode(body)
        with closing(_UnixConnection(self._path, timeout_s)) as connection:
            try:
                headers = {"content-type": "application/json"} if data else {}
                connection.request(method, target, body=data, headers=headers)
                response = connection.getresponse()
            except TimeoutError as error:
                advice = "look at its log, or end it with `aether down`"
                raise CliError(f"the world did not answer within {self._timeout_s:.0f} s", advice=advice) from error
            except (ConnectionError, http.client.HTTPException) as error:
                raise CliError(f"the world closed the connection: {error}") from error
            with response:
                if response.status >= 400:
                    raise _refusal(response.status, response.read())
                yield response


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float | None) -> None:
        super().__init__("aether", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = connect_unix(self._path, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)


def connect_unix(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A connection to a world's socket. Raises NoWorld, with the reason why there is no answer."""
    connection = socket.socket(socket.AF_UNIX, kind)
    try:
        connection.connect(str(path))
    except OSError as error:
        connection.close()
        raise _no_world(path, error) from error
    return connection


def _no_world(path: Path, error: OSError) -> NoWorld:
    world = path.parent.name
    match error:
        case FileNotFoundError():
            return NoWorld(f"no world {world!r} is running", advice=START)
        case ConnectionRefusedError():
            advice = f"{path} is a leftover that the next `aether up --world {world}` replaces"
            return NoWorld(f"world {world!r} has ended", advice=advice)
        case PermissionError():
            return NoWorld(f"{path}: permission denied", advice="the world belongs to another user")
        case _:
            return NoWorld(f"{path}: {error.strerror or error}", advice="give --world a shorter name")


def path_of(*segments: str) -> str:
    """An API path, each segment quoted: ``/v1/objects/pods/shop/cart``."""
    return "/v1/" + "/".join(quote(segment, safe="") for segment in segments)


def _with_query(path: str, query: dict[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _refusal(status: int, body: bytes) -> ApiRefusal:
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.MsgspecError:
        problem = Problem(detail=f"HTTP {status}: {body[:200].decode(errors='replace')}")
    return ApiRefusal(problem_code=problem.code, detail=problem.detail, diagnostics=problem.diagnostics, status=status)
