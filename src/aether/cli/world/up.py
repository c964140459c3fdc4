"""`aether up`: make a world, start the mesh in it, apply manifests, say how far it is, and stay with it."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from aether.adapters.kernel.world import spawn_world
from aether.adapters.paths import WorldPaths, runtime_root, state_root
from aether.cli.client import ApiClient
from aether.cli.failure import FAILED, WRONG_INPUT, CliError, NoWorld, WrongUsage
from aether.cli.objects.apply import apply_manifests, print_diagnostics, read_manifests
from aether.cli.output import print_line
from aether.cli.world.host import diagnose_host
from aether.cli.world.process import claim_runtime, end_world, remove_runtime, wait_end, write_process
from aether.cli.world.progress import Progress
from aether.cli.world.readiness import Readiness, next_commands
from aether.errors import AetherError, Rejected
from aether.model.facts import MeshConfig
from aether.model.names import Domains
from aether.model.settings import SOCKET_PATH_LIMIT_BYTES
from aether.model.world import ApplyReport, Manifest, WorldOptions, WorldStatus

START_TIMEOUT_S = 20.0
"""How long the API may take to answer. Usual is below a second."""
POLL_S = 0.1
LOG_TAIL_LINES = 15

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class UpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`timeout_s` bounds the wait for pods; the world stays up whatever it finds."""

    directories: tuple[Path, ...]
    nodes: int
    is_detached: bool
    is_fresh: bool
    world: str
    mesh_domain: str
    trust_domain: str
    timeout_s: float


def run_up(options: UpOptions) -> int:
    """The exit code: 0 after an orderly end or, detached, a good start; 2 for bad manifests.

    1 if the world failed or, detached, is not all ready in time; then it stays up all the same.
    """
    manifests = read_manifests(str(path) for path in options.directories)
    paths = _paths(options.world)
    with claim_runtime(paths), _ending_signals_raise():
        pid = _spawn(options, paths)
        try:
            code = _start(options, paths, pid, manifests)
            if options.is_detached:
                return code
            print_line("Ctrl-C ends it")
            wait_end(pid, None)
        except KeyboardInterrupt:
            return _end(paths, pid)
    return _died(paths)


def _paths(world: str) -> WorldPaths:
    paths = WorldPaths.of_user(world)
    longest = paths.node("node-00").agent_socket
    if len(os.fsencode(longest)) > SOCKET_PATH_LIMIT_BYTES:
        advice = "give --world a shorter name, or set XDG_RUNTIME_DIR to a shorter path"
        raise WrongUsage(f"{longest} is too long for a socket's path", advice=advice)
    return paths


def _spawn(options: UpOptions, paths: WorldPaths) -> int:
    """Start the standalone process in a new world; PID 1's number."""
    world = WorldOptions(
        name=options.world,
        runtime_root=str(runtime_root()),
        state_root=str(state_root()),
        nodes=options.nodes,
        keeps_applied=not options.is_fresh,
        config=MeshConfig(domains=Domains(mesh=options.mesh_domain), trust_domain=options.trust_domain),
    )
    argv = (sys.executable, "-P", "-m", "aether.app.standalone", msgspec.json.encode(world).decode())
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        with paths.log.open("ab") as log:
            pid = spawn_world(argv, name=options.world, netns_dir=paths.netns, detach=options.is_detached, log=log)
        write_process(paths, pid)
    except AetherError:
        remove_runtime(paths)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    return pid


def _start(options: UpOptions, paths: WorldPaths, pid: int, manifests: tuple[Manifest, ...]) -> int:
    """Wait until everything that can be ready is; the exit code for a caller that does not stay."""
    client = ApiClient(paths.api_socket)
    began = time.monotonic()
    with Progress() as progress:
        _wait_for_api(client, paths, pid, progress)
        progress.done(f"world {paths.name}")
        report = apply_manifests(client, manifests) if manifests else ApplyReport()
        if manifests:
            progress.done(f"{len(report.applied)} objects applied, {len(report.diagnostics)} refused")
        print_diagnostics(report)
        status, is_ready = _wait_until_ready(client, pid, progress, options)
    seconds = time.monotonic() - began
    state = "is up" if is_ready else "runs, but is not all ready,"
    print_line(f"the mesh {state} after {seconds:.1f} s. Try next:")
    for command in next_commands(status, world=options.world):
        print_line(f"  {command}")
    if report.diagnostics:
        return WRONG_INPUT
    return 0 if is_ready else FAILED


def _wait_for_api(client: ApiClient, paths: WorldPaths, pid: int, progress: Progress) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    progress.doing("starting the world")
    while True:
        try:
            client.get("/v1/version", reply=dict[str, str])
        except NoWorld as error:
            has_ended = wait_end(pid, POLL_S)
            if not has_ended and time.monotonic() < deadline:
                continue
            words = _last_words(paths)
            end_world(pid, timeout_s=0.0)
            raise _no_start(words) from error
        return


def _no_start(words: str) -> AetherError:
    """Why a world did not start: what the machine lacks, if that is it, else the world's own last words."""
    if problems := diagnose_host():
        return Rejected(problems)
    return CliError(f"the world did not start\n{words}", advice="aether check")


def _wait_until_ready(client: ApiClient, pid: int, progress: Progress, options: UpOptions) -> tuple[WorldStatus, bool]:
    """Until everything is ready, nothing moves any more, or the time is up; says which phases were done, and if all."""
    readiness = Readiness(timeout_s=options.timeout_s, now=time.monotonic())
    while True:
        status = client.get("/v1/status", reply=WorldStatus)
        readiness.observe(status, now=time.monotonic())
        for phase in readiness.newly_done():
            progress.done(phase)
        if readiness.is_over:
            break
        progress.doing(readiness.waiting_for)
        if wait_end(pid, POLL_S):
            raise CliError("the world has ended while it was starting", advice="aether check")
    unfinished = readiness.unfinished(status)
    for line in unfinished:
        progress.warn(line)
    return status, not unfinished


@contextmanager
def _ending_signals_raise() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(paths: WorldPaths, pid: int) -> int:
    """End in order; a second Ctrl-C ends at once."""
    print_line("ending …")
    try:
        end_world(pid)
    except KeyboardInterrupt:
        end_world(pid, timeout_s=0.0)
    remove_runtime(paths)
    return 0


def _died(paths: WorldPaths) -> int:
    """The world ended without being asked by us: `aether down` did it, or it failed."""
    if not paths.runtime.exists():
        return 0
    print_line(_last_words(paths), is_error=True)
    print_line(f"the world has ended; its logs are in {paths.runtime}", is_error=True)
    return FAILED


def _last_words(paths: WorldPaths) -> str:
    try:
        lines: Sequence[str] = paths.log.read_text(errors="replace").splitlines()
    except OSError:
        lines = ()
    return "\n".join(("the end of its log:", *lines[-LOG_TAIL_LINES:]))
