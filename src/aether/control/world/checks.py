"""What only the control plane can look at, as sections of `aether check`."""

from collections.abc import Mapping
from typing import Protocol

from aether.model.world import Check, CheckSection, CheckVerdict

EXPIRY_WARNING_S = 30 * 24 * 3600.0
_RUNNING = "serving"


class Authority(Protocol):
    """The certificate authority. `not_after` is the root's end, seconds of the wall clock."""

    @property
    def not_after(self) -> float: ...


def world_checks(authority: Authority, states: Mapping[str, str], *, now: float) -> tuple[CheckSection, ...]:
    """`states` are the supervised processes' states by name."""
    processes = tuple(_process(name, state) for name, state in sorted(states.items()))
    return (
        CheckSection(title="certificates", checks=(_root(authority.not_after - now),)),
        CheckSection(title="processes", checks=processes),
    )


def _root(left_s: float) -> Check:
    fact = f"the certificate authority's root is valid for {max(0.0, left_s) / 86400:.0f} days"
    if left_s > EXPIRY_WARNING_S:
        return Check(fact=fact)
    verdict = CheckVerdict.WARNING if left_s > 0 else CheckVerdict.FAILED
    return Check(fact=fact, verdict=verdict, why="no leaf outlives its root", advice="rotate the root")


def _process(name: str, state: str) -> Check:
    fact = f"{name} is {state}"
    if state == _RUNNING:
        return Check(fact=fact)
    log = f"its log: {name.partition('@')[0]}.log in the node's folder"
    return Check(fact=fact, verdict=CheckVerdict.FAILED, why="it is started again and again", advice=log)
