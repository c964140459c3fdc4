from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.control.world.rollout import Rollout, RolloutPod, plan_rollout, share_of
from aether.model.kube import Deployment, Meta, PodSpec, PodTemplate

TEMPLATE = PodTemplate(labels=(), annotations=(), spec=PodSpec(containers=()))


def deployment(replicas: int, **fields: Any) -> Deployment:
    return Deployment(meta=Meta(name="d"), replicas=replicas, selector=(), template=TEMPLATE, **fields)


def pods(text: str) -> list[RolloutPod]:
    """A pod a letter: New and Old ones, ready in capitals; ``x`` is one that is being deleted."""
    return [
        RolloutPod(
            name=f"{letter}{number}",
            is_new=letter in "nN",
            is_ready=letter.isupper(),
            is_available=letter.isupper(),
            is_terminating=letter == "x",
            born=f"{number:03}",
        )
        for number, letter in enumerate(text)
    ]


TABLE: list[tuple[str, Deployment, str, Rollout]] = [
    ("nothing there", deployment(3), "", Rollout(create=3)),
    ("all there", deployment(3), "NNN", Rollout()),
    ("one is missing", deployment(3), "NN", Rollout(create=1)),
    ("one is not ready", deployment(3), "NNn", Rollout()),
    ("one is being deleted", deployment(3), "NNx", Rollout(create=1)),
    ("scaled down: the youngest goes", deployment(2), "NNN", Rollout(delete=("N2",))),
    ("scaled down: what is not ready goes first", deployment(2), "nNN", Rollout(delete=("n0",))),
    ("scaled to nothing", deployment(0), "NN", Rollout(delete=("N1", "N0"))),
    ("a single pod is replaced after its successor is ready", deployment(1), "O", Rollout(create=1)),
    ("a single pod stays while its successor is not ready", deployment(1), "On", Rollout()),
    ("a single pod goes when its successor is ready", deployment(1), "ON", Rollout(delete=("O0",))),
    ("a quarter more at once", deployment(4), "OOOO", Rollout(create=1, delete=("O3",))),
    ("a quarter may be missing", deployment(4), "OOOOn", Rollout(delete=("O3",))),
    ("nothing more while a quarter is missing", deployment(4), "OOOn", Rollout(create=1)),
    ("broken old pods go first", deployment(4), "OOOo", Rollout(create=1, delete=("o3",))),
    (
        "two percent of surge is one pod",
        deployment(10, max_surge="2%"),
        "O" * 10,
        Rollout(create=1, delete=("O9", "O8")),
    ),
    (
        "no pod less: one more first",
        deployment(3, max_surge=1, max_unavailable=0),
        "OOO",
        Rollout(create=1),
    ),
    (
        "no pod more: one less first",
        deployment(3, max_surge=0, max_unavailable=1),
        "OOO",
        Rollout(delete=("O2",)),
    ),
    ("no pod more: then its successor", deployment(3, max_surge=0, max_unavailable=1), "OO", Rollout(create=1)),
    (
        "percentages that round to nothing still move",
        deployment(3, max_surge="0%", max_unavailable="1%"),
        "OOO",
        Rollout(delete=("O2",)),
    ),
    ("recreate: the old go first", deployment(2, is_recreate=True), "OO", Rollout(delete=("O1", "O0"))),
    ("recreate: they must be gone", deployment(2, is_recreate=True), "xx", Rollout()),
    ("recreate: then the new come", deployment(2, is_recreate=True), "", Rollout(create=2)),
    ("recreate: scaled down", deployment(1, is_recreate=True), "NN", Rollout(delete=("N1",))),
    ("recreate: scaled up", deployment(3, is_recreate=True), "NN", Rollout(create=1)),
    ("paused", deployment(3, is_paused=True), "OO", Rollout()),
]


@pytest.mark.parametrize(("rule", "one", "there", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_rollouts(rule: str, one: Deployment, there: str, expected: Rollout) -> None:
    assert plan_rollout(one, pods(there)) == expected, rule


@pytest.mark.parametrize(
    ("share", "replicas", "rounds_up", "expected"),
    [(2, 10, True, 2), ("25%", 4, True, 1), ("25%", 5, True, 2), ("25%", 5, False, 1), ("100%", 3, False, 3)],
)
def test_shares(share: int | str, replicas: int, rounds_up: bool, expected: int) -> None:
    assert share_of(share, replicas, rounds_up=rounds_up) == expected


SHARES = st.integers(min_value=0, max_value=3) | st.sampled_from(["0%", "25%", "50%", "100%"])


@given(replicas=st.integers(min_value=1, max_value=8), surge=SHARES, unavailable=SHARES, data=st.data())
def test_a_rollout_keeps_its_bounds_and_ends(
    replicas: int, surge: int | str, unavailable: int | str, data: st.DataObject
) -> None:
    """Never too many pods, never too few available ones, and done in the end, whatever becomes ready when."""
    one = deployment(replicas, max_surge=surge, max_unavailable=unavailable)
    most = replicas + share_of(surge, replicas, rounds_up=True)
    may_miss = share_of(unavailable, replicas, rounds_up=False)
    least = replicas - (may_miss or (1 if most == replicas else 0))
    there = pods("O" * replicas)
    for step in range(20 * replicas):
        plan = plan_rollout(one, there)
        there = _carried_out(there, plan, step)
        assert len(there) <= most
        assert sum(1 for pod in there if pod.is_available) >= least
        if data.draw(st.booleans()) or plan == Rollout():
            there = [msgspec.structs.replace(pod, is_ready=True, is_available=True) for pod in there]
        if plan == Rollout() and all(pod.is_new for pod in there) and len(there) == replicas:
            return
    raise AssertionError("the rollout never ended")


def _carried_out(there: Sequence[RolloutPod], plan: Rollout, step: int) -> list[RolloutPod]:
    made = [
        RolloutPod(name=f"made-{step}-{number}", is_new=True, is_ready=False, is_available=False, born=f"1{step:03}")
        for number in range(plan.create)
    ]
    return [pod for pod in there if pod.name not in plan.delete] + made
