import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.pods.lifecycle import (
    NEXT_LIFE,
    BackOff,
    ContainerState,
    Happened,
    IllegalTransition,
    Life,
    RestartRule,
    Termination,
    Threshold,
    advance,
    phase_of,
    restart_rule,
    will_restart,
)


@pytest.mark.parametrize("life", Life)
@pytest.mark.parametrize("happened", Happened)
def test_every_pair_is_an_edge_or_an_error_that_names_both(life: Life, happened: Happened) -> None:
    if (life, happened) in NEXT_LIFE:
        assert advance(life, happened) is NEXT_LIFE[life, happened]
    else:
        with pytest.raises(IllegalTransition, match=f"is {life} cannot be {happened}"):
            advance(life, happened)


def test_a_container_that_has_ended_stays_so() -> None:
    assert not [pair for pair in NEXT_LIFE if pair[0] is Life.ENDED]


def test_every_life_can_end() -> None:
    reaches = {Life.ENDED}
    for _ in Life:
        reaches |= {life for (life, _), after in NEXT_LIFE.items() if after in reaches}
    assert reaches == set(Life)


RULES = [
    ("Always", False, False, RestartRule.ALWAYS),
    ("OnFailure", False, False, RestartRule.ON_FAILURE),
    ("Never", False, False, RestartRule.NEVER),
    ("Always", True, False, RestartRule.ON_FAILURE),
    ("OnFailure", True, False, RestartRule.ON_FAILURE),
    ("Never", True, False, RestartRule.NEVER),
    ("Never", True, True, RestartRule.ALWAYS),
]


@pytest.mark.parametrize(("policy", "is_init", "is_sidecar", "expected"), RULES)
def test_what_an_end_means_depends_on_policy_and_place(
    policy: str, is_init: bool, is_sidecar: bool, expected: RestartRule
) -> None:
    assert restart_rule(policy, is_init=is_init, is_sidecar=is_sidecar) is expected


@pytest.mark.parametrize(
    ("rule", "code", "expected"),
    [
        (RestartRule.ALWAYS, 0, True),
        (RestartRule.ALWAYS, 1, True),
        (RestartRule.ON_FAILURE, 0, False),
        (RestartRule.ON_FAILURE, 137, True),
        (RestartRule.NEVER, 0, False),
        (RestartRule.NEVER, 1, False),
    ],
)
def test_who_is_started_again(rule: RestartRule, code: int, expected: bool) -> None:
    assert will_restart(rule, code) is expected


def test_the_first_restart_is_at_once_then_10_s_doubling_to_5_minutes() -> None:
    back_off = BackOff(first_s=10.0, limit_s=300.0)
    now, delays = 0.0, []
    for _ in range(8):
        delay_s = back_off.delay_s(now)
        delays.append(delay_s)
        now += delay_s + 1.0
    assert delays == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_ten_good_minutes_start_the_back_off_again() -> None:
    back_off = BackOff(first_s=10.0, limit_s=300.0)
    assert [back_off.delay_s(now) for now in (0.0, 1.0)] == [0.0, 10.0]
    assert back_off.delay_s(11.0 + 600.0) == 20.0
    assert back_off.delay_s(631.0 + 600.1) == 0.0


@given(st.lists(st.floats(min_value=0, max_value=2000), max_size=30))
def test_no_wait_is_longer_than_the_limit(pauses: list[float]) -> None:
    back_off = BackOff(first_s=10.0, limit_s=300.0)
    now = 0.0
    for pause in pauses:
        now += pause
        assert 0.0 <= back_off.delay_s(now) <= 300.0


def test_a_verdict_needs_results_in_a_row() -> None:
    threshold = Threshold(success=2, failure=3)
    results = [True, True, False, False, True, False, False, False, False, True, True]
    assert [threshold.count(is_success=result) for result in results] == [
        None,
        True,
        None,
        None,
        None,
        None,
        None,
        False,
        False,
        None,
        True,
    ]


def ended(code: int) -> ContainerState:
    last = Termination(exit_code=code, reason="", message="", started_at=1.0, finished_at=2.0)
    return ContainerState(life=Life.ENDED, last=last)


WAITING = ContainerState()
RUNNING = ContainerState(life=Life.RUNNING, started_at=1.0)
CRASHED = ContainerState(life=Life.BACKING_OFF, last=ended(1).last)

PHASES = [
    ("nothing has begun", [], [WAITING], "Pending"),
    ("an init container runs", [RUNNING], [WAITING], "Pending"),
    ("an init container failed for good", [ended(1)], [WAITING], "Failed"),
    ("an init container never ran and never will", [ContainerState(life=Life.ENDED)], [WAITING], "Failed"),
    ("one of two runs", [ended(0)], [RUNNING, WAITING], "Pending"),
    ("all run", [ended(0)], [RUNNING, RUNNING], "Running"),
    ("one waits to be started again", [], [RUNNING, CRASHED], "Running"),
    ("one is through", [], [RUNNING, ended(0)], "Running"),
    ("all are through", [], [ended(0), ended(0)], "Succeeded"),
    ("all have ended, one badly", [], [ended(0), ended(3)], "Failed"),
]


@pytest.mark.parametrize(("what", "init", "main", "expected"), PHASES, ids=[row[0] for row in PHASES])
def test_phases(what: str, init: list[ContainerState], main: list[ContainerState], expected: str) -> None:
    assert phase_of(init, main) == expected, what
