"""One resource type on one stream: what is still to be sent, and what answers mean. Whole streams: test_delta.py."""

from collections.abc import Mapping

import pytest
from tests.support.delta_talk import frame

from aether.wire.xds.message import DeltaRequest, Frame
from aether.wire.xds.order import CLUSTER, ENDPOINT, RULES
from aether.wire.xds.subscription import Sent, Subscription


def substitute(name: str) -> Frame:
    return Frame(name=name, version="tombstone", data=b"")


def wanted(text: str) -> Mapping[str, Frame]:
    """``a=1 b=2``"""
    return {each.name: each for each in map(frame, text.split())}


@pytest.fixture
def clusters() -> Subscription:
    """A wildcard subscription of an Envoy that has nothing."""
    subscription = Subscription(CLUSTER, RULES[CLUSTER], substitute=substitute)
    subscription.open(DeltaRequest(type_url=CLUSTER))
    return subscription


def send(subscription: Subscription, serial: int = 1) -> Sent:
    sent = Sent(frames=subscription.next_put(), removed=(), at=0.0)
    subscription.note_sent(serial, sent)
    return sent


def acknowledge(subscription: Subscription, sent: Sent, serial: int = 1) -> None:
    del subscription.in_flight[serial]
    subscription.accept(sent)


def test_what_is_wanted_is_pending_until_it_is_sent_and_settled_when_it_is_acknowledged(clusters: Subscription) -> None:
    clusters.compare(wanted("a=1 b=1"))
    assert list(clusters.pending) == ["a", "b"]
    sent = send(clusters)
    assert not clusters.pending
    assert not clusters.is_settled("a")
    acknowledge(clusters, sent)
    assert clusters.is_settled("a")


def test_only_what_changed_is_pending_again_and_what_left_is_removed(clusters: Subscription) -> None:
    clusters.compare(wanted("a=1 b=1 c=1"))
    acknowledge(clusters, send(clusters))
    clusters.compare(wanted("a=1 b=2"))
    assert list(clusters.pending) == ["b"]
    assert list(clusters.removals) == ["c"]


def test_a_name_that_was_asked_for_is_never_removed(clusters: Subscription) -> None:
    clusters.compare({})
    assert clusters.subscribe(["cold"]) == ["cold"]
    clusters.compare(wanted("cold=1"))
    acknowledge(clusters, send(clusters))
    assert clusters.compare({}) == ["cold"]
    assert not clusters.removals


def test_equal_versions_after_a_reconnect_are_not_sent_again() -> None:
    held = {each.name: each.version for each in wanted("a=1 b=1").values()}
    subscription = Subscription(CLUSTER, RULES[CLUSTER], substitute=substitute)
    subscription.open(DeltaRequest(type_url=CLUSTER, initial_versions=held))
    subscription.compare(wanted("a=1 b=2"))
    assert list(subscription.pending) == ["b"]
    assert not subscription.owes_first_answer


def test_a_refused_message_is_sent_again_one_by_one_and_the_culprit_not_at_all(clusters: Subscription) -> None:
    clusters.compare(wanted("bad=1 good=1"))
    sent = send(clusters)
    del clusters.in_flight[1]
    clusters.take_back(sent, "no")
    alone = send(clusters, 2)
    assert [each.name for each in alone.frames] == ["bad"]
    del clusters.in_flight[2]
    assert clusters.refuse(alone.frames[0], "bad: no")
    assert not clusters.refuse(alone.frames[0], "bad: no"), "it is told once"
    assert [each.name for each in clusters.next_put()] == ["good"]
    clusters.compare(wanted("bad=1 good=1"))
    assert "bad" not in clusters.pending
    clusters.compare(wanted("bad=2 good=1"))
    assert "bad" in clusters.pending, "new content has a new chance"


def test_an_assignment_follows_its_cluster_even_unchanged() -> None:
    subscription = Subscription(ENDPOINT, RULES[ENDPOINT], substitute=substitute)
    subscription.open(DeltaRequest(type_url=ENDPOINT, subscribe=("a",)))
    subscription.compare(wanted("a=1"))
    acknowledge(subscription, send(subscription))
    subscription.follow("a")
    assert list(subscription.urgent) == ["a"]
