"""What the node's access log has seen of late: failures that no configuration tells.

Owns: which lines count, and how an explanation carries them. Leaves to others: reading the log (`adapters.telemetry`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from aether.model.world import ExplainStep, Explanation
from aether.render.explain.advice import BY_REASON

RECENT_S = 60.0
"""Older failures say little of the next request: what succeeded since is not in the log."""

_UNTOLD = frozenset({"upstream-refused", "upstream-identity", "cold-timeout"})
"""The evaluator knows every other reason by itself, and knows it as it is now."""


class SeenFailure(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod's proxy could not serve. `why` are the proxy's own words."""

    namespace: str
    pod: str
    cluster: str
    reason: str
    why: str
    age_s: float


def seen_failures(lines: Iterable[Mapping[str, Any]], now_s: float) -> tuple[SeenFailure, ...]:
    """The recent failures among the lines of an access log, the newest first. `now_s` is the wall clock's."""
    found = [_failure(line, now_s) for line in lines if line.get("error") in _UNTOLD]
    return tuple(sorted((one for one in found if one.age_s <= RECENT_S), key=lambda one: one.age_s))


def _failure(line: Mapping[str, Any], now_s: float) -> SeenFailure:
    return SeenFailure(
        namespace=str(line.get("source_namespace")),
        pod=str(line.get("source_pod")),
        cluster=str(line.get("cluster")),
        reason=str(line["error"]),
        why=str(line.get("transport_failure") or line.get("details") or ""),
        age_s=now_s - datetime.fromisoformat(line["time"]).timestamp(),
    )


def with_seen(explanation: Explanation, seen: SeenFailure | None) -> Explanation:
    """A delivery that failed a moment ago is said to have failed, and why."""
    if seen is None or explanation.outcome != "deliver":
        return explanation
    why = f": {seen.why}" if seen.why else ""
    step = ExplainStep(stage="last time", says=f"{max(seen.age_s, 0):.0f} s ago it failed{why}", is_ok=False)
    return msgspec.structs.replace(
        explanation, reason=seen.reason, steps=(*explanation.steps, step), advice=BY_REASON[seen.reason]
    )
