"""The pod runner: every pod of the store that has a node, run on this machine."""

from collections.abc import Mapping
from pathlib import Path

from aether.adapters.pods.launcher import ContainerProcess
from aether.adapters.pods.parts import RunnerParts


class PodRunner:
    def __init__(self, parts: RunnerParts) -> None:
        self._parts = parts

    async def run(self) -> None:
        """Run pods until cancelled; then every process of theirs is gone."""
        raise NotImplementedError

    async def stop(self, grace_s: float) -> None:
        """Terminate every pod, orderly, within `grace_s`; no more are started. The objects stay as they are."""
        raise NotImplementedError

    def sandboxes(self) -> Mapping[str, str]:
        """The paths of the pods' network namespaces by uid. The store is written to after every change of it."""
        raise NotImplementedError

    def log_path(self, uid: str, container: str) -> Path:
        """Where the container's output is; an older part of it beside, with `.1` after the name."""
        return self._parts.settings.directory / uid / f"{container}.log"

    async def execute(
        self, uid: str, container: str, argv: tuple[str, ...], stdio: tuple[int, int, int], *, env: Mapping[str, str]
    ) -> ContainerProcess:
        """Start a command in a running container ("" for the first), with its environment and `env`.

        Raises:
            NotRunning: there is no such pod or container, or it does not run now.
            CannotStart: the command does not start.
        """
        raise NotImplementedError
