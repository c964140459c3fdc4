"""What playbooks of a whole stream do not show: one type by itself."""

import pytest
from tests.support.delta_talk import frame

from aether.wire.xds.message import DeltaRequest, Frame
from aether.wire.xds.order import CLUSTER, ENDPOINT, RULES, SECRET
from aether.wire.xds.subscription import Sent, Subscription


def _subscription(type_url: str, *, subscribe: tuple[str, ...] = (), has: dict[str, str] | None = None) -> Subscription:
    sub = Subscription(type_url, RULES[type_url], substitute=lambda name: frame(f"{name}=tombstone"))
    sub.open(DeltaRequest(type_url=type_url, subscribe=subscribe, initial_versions=has or {}))
    return sub


def _wanted(text: str) -> dict[str, Frame]:
    return {one.name: one for one in map(frame, text.split())}


def _sent(text: str, *, removed: tuple[str, ...] = ()) -> Sent:
    return Sent(frames=tuple(map(frame, text.split())), removed=removed, at=0.0)


def test_the_first_answer_is_owed_only_to_a_wildcard_of_an_envoy_that_has_nothing() -> None:
    assert _subscription(CLUSTER).owes_first_answer
    assert not _subscription(CLUSTER, has={"a": "1"}).owes_first_answer
    assert not _subscription(ENDPOINT, subscribe=("a",)).owes_first_answer


def test_before_anything_is_wanted_no_name_is_unanswered() -> None:
    sub = _subscription(ENDPOINT, subscribe=("a",))
    assert sub.subscribe(["b"]) == []
    assert sub.compare({}) == ["a", "b"]
    assert sub.compare({}) == [], "each is told once"


def test_a_held_secret_is_not_unanswered_but_a_held_cluster_that_was_asked_for_is() -> None:
    assert _subscription(SECRET, subscribe=("s",), has={"s": "1"}).compare({}) == []
    assert _subscription(CLUSTER, subscribe=("*", "c"), has={"c": "1"}).compare({}) == ["c"]


def test_who_leaves_a_name_has_nothing_under_it() -> None:
    sub = _subscription(ENDPOINT, subscribe=("a",))
    sub.compare(_wanted("a=1"))
    sub.note_sent(1, _sent("a=1"))
    sub.unsubscribe(["a"])
    sub.accept(sub.in_flight.pop(1))
    assert sub.acked == {}
    assert not sub.pending


@pytest.mark.parametrize(("names", "denied"), [((), ["x"]), (("x",), [])])
def test_what_is_wanted_is_not_denied(names: tuple[str, ...], denied: list[str]) -> None:
    sub = _subscription(SECRET, subscribe=("x",))
    sub.compare(_wanted(" ".join(f"{name}=1" for name in names)))
    sub.deny("x")
    assert list(sub.denials) == denied


def test_quiet_counts_from_the_oldest_message_or_the_last_answer() -> None:
    sub = _subscription(CLUSTER)
    assert sub.quiet_since() is None
    sub.compare(_wanted("a=1"))
    sub.note_sent(1, Sent(frames=(frame("a=1"),), removed=(), at=5.0))
    sub.note_sent(2, Sent(frames=(frame("a=2"),), removed=(), at=6.0))
    assert sub.quiet_since() == 5.0
    sub.progress_at = 7.0
    assert sub.quiet_since() == 7.0


def test_a_message_is_single_if_its_refusal_can_mean_one_resource_only() -> None:
    assert _sent("a=1").is_single
    assert not _sent("a=1 b=1").is_single
    assert not _sent("a=1", removed=("b",)).is_single


def test_the_refusal_of_a_removal_alone_is_not_answered_with_the_same_removal() -> None:
    sub = _subscription(CLUSTER, has={"a": "1"})
    sub.compare({})
    sub.note_sent(1, _sent("", removed=("a",)))
    sub.take_back(sub.in_flight.pop(1), "no")
    assert not sub.removals


def test_what_a_refused_message_may_have_left_is_removed_when_it_is_wanted_no_more() -> None:
    sub = _subscription(CLUSTER)
    sub.compare(_wanted("a=1 b=1"))
    sub.note_sent(1, _sent("a=1 b=1"))
    sub.take_back(sub.in_flight.pop(1), "no")
    assert not sub.removals
    sub.compare({})
    assert list(sub.removals) == ["a", "b"]
    assert not sub.is_settled("a")
