"""`aether down`: the end of a world."""

import shutil

from aether.adapters.paths import WorldPaths
from aether.cli.client import ApiClient
from aether.cli.failure import CliError, NoWorld
from aether.cli.output import print_line
from aether.cli.world.process import STOP_TIMEOUT_S, end_world, is_running, read_process, remove_runtime, wait_end
from aether.cli.worlds import choose_world


def run_down(world: str | None, *, is_forgotten: bool) -> None:
    """End it in order; if it does not answer or takes too long, by force. What was applied stays, or is forgotten.

    Raises:
        CliError: also if what was applied cannot be removed.
    """
    paths = _paths(world)
    pid = read_process(paths)
    try:
        ApiClient(paths.api_socket, timeout_s=5.0).call("POST", "/v1/stop", reply=dict[str, str])
    except CliError:
        if pid is None:
            raise
    if pid is not None and not wait_end(pid, STOP_TIMEOUT_S):
        end_world(pid, timeout_s=0.0)
    if not is_running(paths):
        remove_runtime(paths)
    if is_forgotten:
        _forget(paths)
        print_line(f"world {paths.name} has ended, and nothing of it is left")
    else:
        print_line(f"world {paths.name} has ended; what was applied is kept in {paths.state}")


def _forget(paths: WorldPaths) -> None:
    try:
        shutil.rmtree(paths.state)
    except FileNotFoundError:
        return
    except OSError as error:
        raise CliError(f"{error.filename or paths.state}: {error.strerror}") from error


def _paths(world: str | None) -> WorldPaths:
    """Also finds a world whose API does not answer, if it is named."""
    if world is None:
        return choose_world(None)
    paths = WorldPaths.of_user(world)
    if not is_running(paths):
        raise NoWorld(f"no world {world!r} is running")
    return paths
