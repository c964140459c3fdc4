"""What the local API needs from the process that serves it: two interfaces and the facts they hand over.

`WorldBackend` is implemented by the standalone process, `AgentBackend` by a node's agent. Everything else (statuses,
checks, HTTP) is derived from these by the modules beside this one.
"""

from pathlib import Path
from typing import Any, Protocol

import msgspec

from aether.adapters.objects.store import ObjectStore
from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow
from aether.model.facts import MeshConfig, NodeReport
from aether.model.world import (
    AgentStatus,
    CheckSection,
    ExecRequest,
    ExplainRequest,
    Explanation,
    NodeScope,
    ResourceVersion,
)
from aether.plan.mesh.services import ServiceView


class WorldFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the control plane knows now. Cheap to ask for: it is asked for several times a second while a world starts.

    `nodes` are all nodes by name; `reports` the last report of each node whose agent is connected now. `views` and
    `rows` are the registry's. `problems` are the control plane's own (a Service without a free address, a refused row).
    """

    config: MeshConfig
    nodes: tuple[str, ...]
    reports: tuple[NodeReport, ...] = ()
    views: tuple[ServiceView, ...] = ()
    rows: tuple[EndpointRow, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


class Execution(Protocol):
    """A process that runs in a container."""

    def signal(self, number: int) -> None:
        """Pass a signal to the process; nothing happens if it has ended."""

    async def wait(self) -> int:
        """Its exit code; 128 + n if signal n ended it."""


class WorldBackend(Protocol):
    """The world, as the handlers of api.sock and exec.sock use it. Errors are AetherErrors, which `problem` maps."""

    @property
    def name(self) -> str: ...

    @property
    def objects(self) -> ObjectStore: ...

    def facts(self) -> WorldFacts: ...

    def agent_socket(self, node: str) -> Path:
        """Where the node's agent answers (`api.agent`)."""

    async def checks(self) -> tuple[CheckSection, ...]:
        """Facts only the control plane can look at: its certificates, its state on disk, its loops."""

    def log_path(self, uid: str, container: str) -> Path:
        """The file that a container of the pod writes; when full it is renamed to the same with ``.1`` after it."""

    async def execute(self, request: ExecRequest, stdio: tuple[int, int, int]) -> Execution:
        """Start `request.command` in the pod of that exact name. The descriptors stay the caller's."""

    def stop(self) -> None:
        """Begin the orderly end of the world; returns at once."""


class AgentBackend(Protocol):
    """A node's agent, as the handlers of agent.sock use it."""

    def status(self) -> AgentStatus: ...

    def scope(self) -> NodeScope: ...

    def resources(self) -> tuple[ResourceVersion, ...]:
        """Everything in the live snapshot, sorted."""

    def resource(self, type_url: str, name: str) -> Any | None:
        """One resource of the live snapshot as JSON data, secrets' keys left out; None if there is none."""

    def explain(self, request: ExplainRequest) -> Explanation:
        """What becomes of the request, by the live snapshot; the outcome `unknown` for a pod that is not here."""
