"""What an agent says of its node: assembled from what its loops found, sent when it changed."""

from collections.abc import Callable

from aether.control.agent.state import AgentState
from aether.errors import Diagnostic
from aether.model.facts import NodeReport, Refusals, Rejection
from aether.plan.mesh.register import plan_rows


class Reporter:
    """`rejections`, `refusals` and `problems` are asked for at each report."""

    def __init__(
        self,
        state: AgentState,
        *,
        rejections: Callable[[], tuple[Rejection, ...]],
        refusals: Callable[[], tuple[Refusals, ...]],
        problems: Callable[[], tuple[Diagnostic, ...]],
    ) -> None:
        self._state = state
        self._rejections = rejections
        self._refusals = refusals
        self._problems = problems

    def report(self) -> NodeReport | None:
        """The node's report; None before the first plan: an agent that knows nothing yet takes nothing back."""
        state = self._state
        if state.facts is None or state.plan is None:
            return None
        return NodeReport(
            node=state.node,
            captured=tuple(sorted(state.captured)),
            rows=plan_rows(state.facts, healthy=state.healthy - state.bare),
            problems=tuple(sorted({*state.plan.problems, *self._problems()})),
            rejections=self._rejections(),
            refusals=self._refusals(),
            observed=tuple(sorted(state.observed)),
            is_proxy_live=state.is_proxy_live,
        )
