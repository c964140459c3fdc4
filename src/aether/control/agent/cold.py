"""Cold requests: the proxy asks for a cluster that it does not hold, and is answered at once (spec section 9).

A name once asked for is kept (Envoy never asks a second time): with its real cluster, or with a tombstone that a later
plan replaces. Names of raw-TCP clusters contain what a client dialled, so there is a limit.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import structlog

from aether.control.agent.state import AgentState
from aether.plan.mesh.node import Tombstone, plan_cluster
from aether.render.envoy.names import CLUSTER, ENDPOINT
from aether.render.envoy.snapshot import Snapshot, render_cluster

OBSERVED_LIMIT = 8192
"""Names kept at most. A tombstone costs Envoy 21 KB: 170 MB, which only a pod that scans ports can reach."""

log = structlog.get_logger()


class ColdRequests:
    """Answers names, and remembers them in a file, so that an agent that starts again takes nothing away."""

    def __init__(self, state: AgentState, publish: Callable[[Snapshot], None], *, file: Path) -> None:
        self._state = state
        self._publish = publish
        self._file = file

    def load(self) -> None:
        """Take up what an earlier life of this agent was asked for. A file that cannot be read counts as empty."""
        try:
            self._state.observed.update(msgspec.json.decode(self._file.read_bytes(), type=list[str]))
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("observed-names-unreadable", file=str(self._file), error=str(error))

    def restore(self, names: Iterable[str]) -> None:
        """Take up names that the proxy itself says it holds or asked for."""
        self._remember(names)

    def ask(self, name: str) -> bool:
        """Answer for one name. False if it is refused: there are too many, or nothing is known yet."""
        state = self._state
        if state.context is None or (len(state.observed) >= OBSERVED_LIMIT and name not in state.observed):
            return False
        state.misses += 1
        self._remember([name])
        plan = plan_cluster(name, state.context)
        cluster, assignment = render_cluster(plan, state.context.facts.config)
        snapshot = {**state.snapshot, CLUSTER: {**state.snapshot.get(CLUSTER, {}), name: cluster}}
        if assignment is not None:
            snapshot[ENDPOINT] = {**state.snapshot.get(ENDPOINT, {}), name: assignment}
        state.snapshot = snapshot
        self._publish(snapshot)
        log.info("cold-request", cluster=name, is_known=not isinstance(plan, Tombstone))
        state.changed()
        return True

    def _remember(self, names: Iterable[str]) -> None:
        before = len(self._state.observed)
        self._state.observed.update(names)
        if len(self._state.observed) == before:
            return
        try:
            temporary = self._file.with_suffix(".new")
            temporary.write_bytes(msgspec.json.encode(sorted(self._state.observed)))
            temporary.replace(self._file)
        except OSError as error:
            log.warning("observed-names-not-saved", file=str(self._file), error=str(error))
