"""What only the control plane can look at."""

import pytest

from aether.control.world.checks import world_checks
from aether.model.world import CheckVerdict

DAY_S = 86_400.0


class Root:
    def __init__(self, not_after: float) -> None:
        self.not_after = not_after


@pytest.mark.parametrize(
    ("days", "verdict"), [(3650, CheckVerdict.OK), (10, CheckVerdict.WARNING), (-1, CheckVerdict.FAILED)]
)
def test_a_root_near_its_end_is_a_warning_and_after_it_a_failure(days: int, verdict: CheckVerdict) -> None:
    certificates, _ = world_checks(Root(1000.0 + days * DAY_S), {}, now=1000.0)
    assert certificates.checks[0].verdict is verdict


def test_a_process_that_does_not_serve_is_a_failure_that_names_its_log() -> None:
    _, processes = world_checks(Root(1e12), {"envoy@node-1": "waiting", "agent@node-1": "serving"}, now=0.0)
    good, bad = processes.checks
    assert (good.fact, good.verdict) == ("agent@node-1 is serving", CheckVerdict.OK)
    assert (bad.verdict, bad.advice) == (CheckVerdict.FAILED, "its log: envoy.log in the node's folder")
