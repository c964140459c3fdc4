"""The worst defect class, excluded: what a rendered snapshot does with a dial is what the addressing rule says.

For generated meshes, every table, every spelling of a name, every dialled address and port, every caller: a delivery
over a pinned mesh cluster to the very port that is meant, a refusal with its reason, or a hand-off that reaches no mesh
cluster.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.delivery import DeliveryLab, Question, answer_of, every_dial, questions, raw_ports_met_with_http
from tests.support.meshes import crowded_mesh, delivery_meshes
from tests.support.mutations import MUTATIONS, each_route_lost

from aether.model.facts import NodeFacts
from aether.model.ports import CAPTURE_PORT, CAPTURE_RAW_PORT, PROXY_PORT
from aether.plan.mesh.addressing import Reason, Refuse
from aether.render.envoy import names
from aether.render.envoy.consistency import consistency
from aether.render.envoy.evaluate import Unsupported

QUESTIONS_PER_MESH = 300
ENOUGH = 10_000
CROWDED_QUESTIONS = 4_000


@pytest.mark.timeout(3_600)  # the long profile asks 600,000 questions
def test_what_envoy_is_told_does_what_the_addressing_rule_says() -> None:
    seen: Counter[str] = Counter()

    @given(facts=delivery_meshes(), number=st.integers(0, 2**32))
    def prove(facts: NodeFacts, number: int) -> None:
        lab = DeliveryLab(facts)
        for question in questions(lab, random.Random(number), QUESTIONS_PER_MESH):
            assert lab.fault(question) == ""
            seen.update(_kinds(lab, question))

    prove()
    assert seen["questions"] >= ENOUGH
    for kind in (*_OUTCOMES, *_LISTENERS):
        assert seen[kind] >= 20, f"{kind} was asked for {seen[kind]} times only"


_OUTCOMES = ("Deliver", "PassThrough", "NotFound", *Reason)
_LISTENERS = (str(CAPTURE_PORT), str(CAPTURE_RAW_PORT), str(PROXY_PORT))


def _kinds(lab: DeliveryLab, question: Question) -> list[str]:
    expected = lab.expected(question)
    outcome = expected.reason.value if isinstance(expected, Refuse) else type(expected).__name__
    return ["questions", outcome, str(question.listener)]


@pytest.mark.timeout(3_600)
@given(facts=delivery_meshes())
def test_http_that_meets_a_raw_port_on_the_inspecting_listener_is_refused(facts: NodeFacts) -> None:
    lab = DeliveryLab(facts)
    for question, reason in raw_ports_met_with_http(lab) if lab.declared else ():
        answer = answer_of(lab.verdict(question))
        assert answer is not None, str(question)
        assert (answer.status, answer.header(names.ERROR_HEADER)) == (421, reason), str(question)


def test_the_crowded_mesh_has_no_fault() -> None:
    lab = DeliveryLab(crowded_mesh())
    assert consistency(lab.snapshot) == []
    assert [fault for question in _crowded(lab) if (fault := lab.fault(question))] == []


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_fault_in_the_snapshot_is_noticed(mutation: str) -> None:
    facts = crowded_mesh()
    snapshot = DeliveryLab(facts).snapshot
    mutated = MUTATIONS[mutation](snapshot)
    assert mutated != snapshot
    assert consistency(mutated) != [] or _is_noticed(DeliveryLab(facts, mutated))


@pytest.mark.parametrize("table", [names.CAPTURE_TABLE, names.PROXY_TABLE])
def test_no_route_of_a_table_can_be_lost_unnoticed(table: str) -> None:
    facts = crowded_mesh()
    unnoticed = []
    for loss in each_route_lost(DeliveryLab(facts).snapshot, table):
        lab = DeliveryLab(facts, loss.snapshot)
        dials = list(every_dial(lab, "ghost.shop" if loss.domain == "*" else loss.domain))
        random.Random(20_261).shuffle(dials)  # one that notices comes sooner so
        dials.sort(key=lambda dial: dial.is_anonymous)
        if not any(lab.fault(question) for question in dials):
            unnoticed.append(loss.place)
    assert not unnoticed


def _is_noticed(lab: DeliveryLab) -> bool:
    try:
        return any(lab.fault(question) for question in _crowded(lab))
    except Unsupported:
        return True


def _crowded(lab: DeliveryLab) -> Iterator[Question]:
    return questions(lab, random.Random(20_261), CROWDED_QUESTIONS)
