"""The file that a node's DNS serves from: written by the agent, served for as long as the agent is away.

The agent puts a whole new file in the place of the old one, then sends a datagram to the reload socket. The server
takes the datagrams first and reads the file then, so the last change is never missed. A file that it cannot use
changes nothing.
"""

import asyncio
import contextlib
import socket
from pathlib import Path

import msgspec
import structlog

from aether.adapters.dns.resolver import Resolver
from aether.errors import AetherError
from aether.plan.mesh.dns import Zone as PlannedZone
from aether.wire.dns.zone import BadZone, Directory, Zone

_RELOAD = b"reload"
_NOBODY_THERE = (FileNotFoundError, ConnectionRefusedError)  # the server is not running: it reads the file at its start
_TOLD_ALREADY = (BlockingIOError,)  # it has datagrams that it has not taken yet

log = structlog.get_logger()


class ZoneNotWritten(AetherError):
    """The zone could not be handed over."""

    code = "zone-not-written"


class ZoneUnreadable(AetherError):
    """A zone file that is missing or broken."""

    code = "zone-unreadable"


def write_zone(path: Path, reload_socket: Path, zone: PlannedZone) -> bool:
    """Have the node's DNS serve `zone`. Blocks on the file; False, and nothing done, if it holds that already.

    Raises:
        ZoneNotWritten: the file cannot be replaced, or the server not be told.
    """
    data = msgspec.json.encode(zone)
    try:
        if path.exists() and path.read_bytes() == data:
            return False
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(data)
        temporary.replace(path)
        _tell(reload_socket)
    except OSError as error:
        raise ZoneNotWritten(f"{path}: {error}") from error
    return True


def read_zone(path: Path) -> Directory:
    """The zone in a file, made for finding.

    Raises:
        ZoneUnreadable: there is none, or it cannot be served.
    """
    try:
        return Directory(msgspec.json.decode(path.read_bytes(), type=Zone))
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, BadZone) as error:
        raise ZoneUnreadable(f"{path}: {error}") from error


class ReloadUnavailable(AetherError):
    """The socket that reloads the zone cannot be bound."""

    code = "reload-unavailable"


class ZoneFile:
    """Keeps a resolver's directory as the file has it: a context manager that holds the reload socket; `run` loads."""

    def __init__(self, path: Path, reload_socket: Path, resolver: Resolver) -> None:
        self._path = path
        self._resolver = resolver
        self._reload_socket = reload_socket
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def __enter__(self) -> "ZoneFile":
        """Bind the reload socket, in the place of one that is there.

        Raises:
            ReloadUnavailable: it cannot be bound.
        """
        try:
            self._reload_socket.unlink(missing_ok=True)
            self._told.bind(str(self._reload_socket))
        except OSError as error:
            self._told.close()
            raise ReloadUnavailable(f"{self._reload_socket}: {error}") from error
        return self

    def __exit__(self, *exc: object) -> None:
        self._told.close()

    async def run(self) -> None:
        """Load the file now and whenever told to, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._load()
            await loop.sock_recv(self._told, len(_RELOAD))
            _drain(self._told)

    async def _load(self) -> None:
        try:
            directory = await asyncio.to_thread(read_zone, self._path)
        except ZoneUnreadable as error:
            log.warning("zone-refused", error=str(error), is_serving=self._resolver.directory is not None)
            return
        self._resolver.directory = directory
        log.info("zone-loaded", names=len(directory), **msgspec.structs.asdict(self._resolver.statistics()))


def _tell(reload_socket: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as teller,
        contextlib.suppress(*_NOBODY_THERE, *_TOLD_ALREADY),
    ):
        teller.sendto(_RELOAD, str(reload_socket))


def _drain(told: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while told.recv(len(_RELOAD)):
            pass
