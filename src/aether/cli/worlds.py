"""Find the running worlds of this user, and the one a command means."""

import socket
from pathlib import Path

from aether.adapters.paths import WorldPaths, runtime_root
from aether.cli.failure import NoWorld, SeveralWorlds

START = "start one with `aether up DIR`"


def choose_world(name: str | None) -> WorldPaths:
    """The world named, else the only one that runs.

    Raises:
        NoWorld: none runs (or not that one); says whether it ended or cannot be reached by this user.
        SeveralWorlds: no name was given and more than one runs.
    """
    if name is not None:
        return _named(name)
    running = running_worlds()
    if len(running) > 1:
        raise SeveralWorlds(running)
    if not running:
        raise NoWorld("no world is running", advice=f"{START}{_of_somebody_else()}")
    return WorldPaths.of_user(running[0])


def running_worlds() -> tuple[str, ...]:
    """The names of this user's worlds that answer, sorted."""
    root = runtime_root()
    try:
        names = sorted(path.name for path in root.iterdir() if (path / "api.sock").is_socket())
    except FileNotFoundError:
        return ()
    except PermissionError as error:
        raise NoWorld(f"{root} cannot be read: permission denied", advice="it belongs to another user") from error
    return tuple(name for name in names if is_listening(WorldPaths.of_user(name).api_socket))


def is_listening(path: Path) -> bool:
    """Whether somebody accepts connections at a unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _named(name: str) -> WorldPaths:
    paths = WorldPaths.of_user(name)
    if not paths.api_socket.exists():
        others = [other for other in running_worlds() if other != name]
        advice = f"running: {', '.join(others)}" if others else f"{START} --world {name}{_of_somebody_else()}"
        raise NoWorld(f"no world {name!r} is running", advice=advice)
    return paths


def _of_somebody_else() -> str:
    """Root's worlds are another user's: a frequent reason for not finding one."""
    roots = runtime_root(0)
    is_root = runtime_root() == roots
    return "" if is_root or not roots.exists() else "; root seems to run worlds here, so perhaps `sudo aether …`"
