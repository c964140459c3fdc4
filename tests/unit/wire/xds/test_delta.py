"""Playbooks of one stream: what Envoy says, what it hears."""

import pytest
from tests.support.delta_talk import TYPES, Talk, frame

from aether.wire.xds.delta import IN_FLIGHT_LIMIT, STALL_S, TEXT_LIMIT, WITHHELD
from aether.wire.xds.message import DeltaRequest, NamesKnown, OnDemandAsked, Rejected, SecretAsked, Stalled
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, PUT_WAIT_S, REMOVAL_WAIT_S, SECRET


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def settled() -> Talk:
    """An Envoy that has cluster and assignment `a`, listener `l` and table `t`, all at version 1."""
    talk = Talk()
    talk.publish(cds="a=1", eds="a=1", lds="l=1", rds="t=1")
    talk.opens()
    talk.hears_and_acks()
    return talk


def test_a_fresh_envoy_gets_everything_in_order(talk: Talk) -> None:
    talk.publish(cds="a=1", eds="a=1", sds="s=1", lds="l=1", rds="t=1")
    talk.says("cds")
    assert talk.hears() == ["cds a=1"]
    talk.says("eds", "a")
    assert talk.hears() == ["eds a=1"]
    talk.says("sds", "s")
    assert talk.hears() == ["sds s=1"]
    talk.acks("cds")
    talk.says("lds")
    assert talk.hears() == ["lds l=1"]
    talk.says("rds", "t")
    assert talk.hears() == ["rds t=1"]


def test_nothing_is_said_before_the_first_publication(talk: Talk) -> None:
    talk.opens()
    assert talk.hears() == []
    talk.publish(cds="a=1", eds="a=1")
    assert talk.hears() == ["cds a=1", "eds a=1", "lds"]


def test_the_first_answer_of_a_wildcard_is_given_even_if_it_is_empty(talk: Talk) -> None:
    talk.publish()
    talk.opens()
    assert talk.hears() == ["eds -a", "cds", "lds"]


def test_assignments_and_tables_travel_one_by_one_clusters_and_listeners_a_hundred_at_once(talk: Talk) -> None:
    names = [f"n{number:03}" for number in range(150)]
    text = " ".join(f"{name}=1" for name in names)
    talk.publish(cds=text, lds=text, eds=text, rds="t=1 u=1")
    talk.says("cds")
    talk.says("eds", " ".join(names))
    talk.says("rds", "t u")
    sizes = [(line.partition(" ")[0], line.count("=")) for line in talk.hears_and_acks()]
    assert [size for short, size in sizes if short == "cds"] == [100, 50]
    assert {size for short, size in sizes if short in ("eds", "rds")} == {1}
    assert [short for short, _ in sizes[:101]] == ["cds", *["eds"] * 100], "assignments follow their clusters"
    talk.says("lds")
    assert [line.count("=") for line in talk.hears_and_acks()] == [100, 50]


def test_a_changed_cluster_is_followed_by_its_assignment_though_that_is_unchanged(settled: Talk) -> None:
    settled.publish(cds="a=2")
    assert settled.hears() == ["cds a=2", "eds a=1"]


def test_after_a_reconnect_a_changed_cluster_is_followed_by_its_assignment_whatever_comes_first(talk: Talk) -> None:
    talk.publish(cds="a=2", eds="a=1")
    talk.says("cds", has="a=1")
    assert talk.hears() == ["cds a=2"]
    talk.says("eds", "a", has="a=1")
    assert talk.hears() == ["eds a=1"]

    other = Talk()
    other.publish(cds="a=2", eds="a=1")
    other.says("eds", "a", has="a=1")
    assert other.hears() == []
    other.says("cds", has="a=1")
    assert other.hears() == ["cds a=2", "eds a=1"]


def test_after_a_reconnect_with_equal_versions_nothing_is_said(talk: Talk) -> None:
    talk.publish(cds="a=1", eds="a=1", lds="l=1", rds="t=1", sds="s=1")
    talk.says("cds", has="a=1")
    talk.says("lds", has="l=1")
    talk.says("eds", "a", has="a=1")
    talk.says("rds", "t", has="t=1")
    talk.says("sds", "s", has="s=1")
    assert talk.hears() == []
    assert all(talk.stream.is_settled(TYPES[short], name) for short, name in (("cds", "a"), ("lds", "l"), ("eds", "a")))


def test_after_a_reconnect_what_vanished_is_removed(talk: Talk) -> None:
    talk.publish(cds="a=1", lds="l=1", rds="", eds="")
    talk.says("rds", "t", has="t=1")
    talk.says("lds", has="l=1 m=1")
    talk.says("cds", has="a=1 b=1")
    assert talk.hears() == ["lds -m"]
    talk.acks("lds")
    assert talk.hears() == ["cds -b"]


def test_an_assignment_asked_for_again_is_answered_though_it_is_unchanged(settled: Talk) -> None:
    settled.says("eds", leaves="a")
    settled.says("eds", "a")
    assert settled.hears() == ["eds a=1"]


def test_a_request_may_acknowledge_and_ask_at_once(talk: Talk) -> None:
    talk.publish(cds="a=1")
    talk.says("cds")
    talk.hears()
    talk.acks("cds", "x")
    assert talk.events == [OnDemandAsked("x")]
    assert talk.stream.is_settled(CLUSTER, "a")


def test_a_listener_waits_for_the_clusters_it_may_name_but_not_for_ever(settled: Talk) -> None:
    settled.publish(cds="a=2", lds="l=2", rds="t=2")
    assert settled.hears() == ["cds a=2", "eds a=1"]
    settled.acks("eds")
    assert settled.hears() == []
    settled.acks("cds")
    assert settled.hears() == ["lds l=2", "rds t=2"]

    settled.publish(cds="a=3", lds="l=3")
    settled.hears()
    settled.waits(PUT_WAIT_S)
    assert "lds l=3" in settled.hears()


def test_a_listener_does_not_wait_for_clusters_that_came_after_it(settled: Talk) -> None:
    settled.publish(cds="a=2", lds="l=2")
    settled.hears()
    settled.publish(cds="a=2 cold=1")
    assert settled.hears() == ["cds cold=1"]
    settled.acks("cds")
    assert settled.hears() == ["lds l=2"]


def test_a_cluster_is_removed_after_the_listeners_and_tables_that_may_name_it(settled: Talk) -> None:
    settled.publish(cds="", eds="", lds="", rds="t=2")
    assert settled.hears() == ["lds -l", "rds t=2"]
    settled.acks("lds")
    assert settled.hears() == []
    settled.acks("rds")
    assert settled.hears() == ["cds -a"]


def test_a_removal_waits_for_types_that_were_not_asked_for_yet_but_not_for_ever(talk: Talk) -> None:
    talk.publish(cds="")
    talk.says("cds", has="a=1")
    assert talk.hears() == []
    assert talk.stream.next_deadline() == REMOVAL_WAIT_S
    talk.waits(REMOVAL_WAIT_S)
    assert talk.hears() == ["cds -a"]


def test_a_cluster_that_comes_back_before_it_was_removed_is_not_removed(settled: Talk) -> None:
    settled.publish(cds="", lds="")
    settled.hears()
    settled.publish(cds="a=1")
    settled.acks("lds")
    assert settled.hears() == []


def test_a_cold_name_is_asked_of_the_application_and_its_answer_sent(settled: Talk) -> None:
    settled.says("cds", "x")
    assert settled.events == [OnDemandAsked("x")]
    assert settled.hears() == []
    settled.publish(cds="a=1 x=1", eds="a=1 x=1")
    assert settled.hears() == ["cds x=1"]
    settled.says("eds", "x")
    assert settled.hears() == ["eds x=1"]


def test_a_cold_name_of_the_time_before_the_first_publication_is_asked_then(talk: Talk) -> None:
    talk.says("cds")
    talk.says("cds", "x")
    assert talk.events == []
    talk.publish(cds="a=1")
    assert talk.events == [OnDemandAsked("x")]


def test_a_cold_name_that_is_already_there_is_answered_at_once(talk: Talk) -> None:
    talk.publish(cds="a=1 x=1")
    talk.says("cds")
    talk.hears_and_acks()
    talk.says("cds", "x")
    assert talk.hears() == ["cds x=1"]
    assert talk.events == []


def test_a_name_asked_for_on_demand_is_never_removed_but_asked_of_the_application_again(settled: Talk) -> None:
    settled.says("cds", "x")
    settled.publish(cds="a=1 x=1")
    settled.hears_and_acks()
    settled.events.clear()
    settled.publish(cds="a=1")
    assert settled.events == [OnDemandAsked("x")]
    settled.waits(REMOVAL_WAIT_S)
    assert settled.hears() == []
    settled.publish(cds="a=1", lds="l=2")
    assert settled.events == [OnDemandAsked("x")], "asked once, not at every publication"
    settled.publish(cds="a=1 x=tombstone")
    assert "cds x=tombstone" in settled.hears()


def test_a_name_that_the_application_declines_is_answered_as_removed_unless_envoy_has_it(settled: Talk) -> None:
    settled.says("cds", "x")
    settled.stream.deny(CLUSTER, "x")
    assert settled.hears() == ["cds -x"]
    settled.stream.deny(CLUSTER, "a")
    assert settled.hears() == []


def test_a_declined_name_is_sent_when_it_is_published_after_all(settled: Talk) -> None:
    settled.says("cds", "x")
    settled.stream.deny(CLUSTER, "x")
    settled.hears_and_acks()
    settled.publish(cds="a=1 x=1")
    assert settled.hears() == ["cds x=1"]


def test_a_reconnecting_envoy_tells_which_names_it_asked_for_before_anything_is_answered(talk: Talk) -> None:
    talk.says("cds", "* x y", has="a=1 x=1")
    assert talk.events == [NamesKnown(frozenset({"x", "y"}))]
    talk.publish(cds="a=1")
    assert talk.events[1:] == [OnDemandAsked("x"), OnDemandAsked("y")]
    talk.publish(cds="a=1 x=1 y=1")
    assert talk.hears() == ["cds y=1"]


def test_a_subscription_without_a_wildcard_gets_its_names_only(talk: Talk) -> None:
    talk.publish(cds="a=1 b=1")
    talk.says("cds", "b")
    assert talk.hears() == ["cds b=1"]
    talk.says("cds", "*")
    talk.publish(cds="a=2 b=1")
    assert talk.hears() == ["cds a=2"]
    talk.says("cds", leaves="*")
    talk.publish(cds="a=3 b=1")
    assert talk.hears() == []


def test_after_the_refusal_of_several_each_is_sent_alone_and_waits_for_its_answer(talk: Talk) -> None:
    talk.publish(cds="a=1 b=1 c=1")
    talk.says("cds")
    assert talk.hears() == ["cds a=1 b=1 c=1"]
    talk.refuses("cds", "Invalid duration")
    assert talk.hears() == ["cds a=1"]
    talk.acks("cds")
    assert talk.hears() == ["cds b=1"]
    talk.refuses("cds", "Invalid duration")
    assert talk.events == [Rejected(type_url=CLUSTER, name="b", version="1", text="Invalid duration")]
    assert talk.hears() == ["cds -b"], "so that it is no phantom"
    talk.acks("cds")
    assert talk.hears() == ["cds c=1"]
    talk.acks("cds")
    assert [one.name for one in talk.stream.rejections()] == ["b"]
    assert talk.stream.is_refused(CLUSTER, "b")


def test_new_clusters_that_a_refusal_names_are_freed_before_anything_else(talk: Talk) -> None:
    talk.publish(cds="a=1 b=1")
    talk.says("cds")
    talk.hears()
    talk.refuses("cds", "Error adding/updating cluster(s) b: ring size")
    assert talk.hears() == ["cds -b"]
    talk.acks("cds")
    assert talk.hears() == ["cds a=1"]


def test_refused_content_is_not_sent_again_until_it_changes(settled: Talk) -> None:
    settled.publish(cds="a=1 b=1")
    settled.hears()
    settled.refuses("cds")
    settled.hears_and_acks()
    settled.publish(cds="a=1 b=1", lds="l=2")
    assert settled.hears_and_acks() == ["lds l=2"]
    settled.publish(cds="a=1 b=2")
    assert settled.hears() == ["cds b=2"]
    assert settled.stream.rejections() == ()


def test_the_refused_update_of_a_cluster_is_undone_with_the_last_good_one(settled: Talk) -> None:
    settled.publish(cds="a=2")
    settled.hears()
    settled.refuses("cds")
    assert settled.hears() == ["cds a=1", "eds a=1"]


def test_a_refused_update_is_not_undone_by_removal_when_what_serves_is_not_known(talk: Talk) -> None:
    talk.publish(cds="a=2")
    talk.says("cds", has="a=1")
    talk.hears()
    talk.refuses("cds")
    assert talk.hears() == []


def test_a_refused_cluster_that_was_asked_for_on_demand_becomes_a_tombstone(settled: Talk) -> None:
    settled.says("cds", "x")
    settled.publish(cds="a=1 x=1")
    settled.hears()
    settled.refuses("cds")
    assert settled.hears() == ["cds x=tombstone"]
    settled.refuses("cds")
    assert settled.hears() == [], "a refused stand-in is not sent again"


def test_a_cluster_refused_before_it_is_asked_for_on_demand_becomes_a_tombstone_then(settled: Talk) -> None:
    settled.publish(cds="a=1 x=1")
    settled.hears()
    settled.refuses("cds")
    assert settled.hears_and_acks() == ["cds -x"]
    settled.says("cds", "x")
    assert settled.hears() == ["cds x=tombstone"]


def test_a_refusal_of_content_that_was_replaced_meanwhile_says_nothing_of_the_new_one(settled: Talk) -> None:
    settled.publish(lds="l=2")
    settled.hears()
    settled.publish(lds="l=3")
    assert settled.hears() == ["lds l=3"]
    settled.refuses("lds")
    assert settled.hears() == []
    settled.acks("lds")
    assert settled.stream.is_settled(LISTENER, "l")
    assert settled.events == []


def test_a_refused_assignment_is_undone_or_ends_the_warming_of_a_new_cluster(settled: Talk) -> None:
    settled.publish(eds="a=2")
    settled.hears()
    settled.refuses("eds")
    assert settled.hears() == ["eds a=1"]
    settled.publish(cds="a=1 b=1", eds="a=1 b=1")
    settled.says("eds", "b")
    settled.hears()
    settled.refuses("eds")
    settled.refuses("eds")
    settled.hears_and_acks()
    assert settled.stream.is_refused(ENDPOINT, "b")


def test_a_changed_cluster_whose_assignment_is_refused_gets_the_good_one(settled: Talk) -> None:
    settled.publish(eds="a=2")
    settled.hears()
    settled.refuses("eds")
    settled.hears_and_acks()
    settled.publish(cds="a=2")
    assert settled.hears() == ["cds a=2", "eds a=1"]


def test_a_refused_listener_or_table_leaves_what_envoy_has(settled: Talk) -> None:
    settled.publish(lds="l=2", rds="t=2")
    settled.hears()
    settled.refuses("lds", "no\nnetns")
    settled.refuses("rds", "two domains")
    assert settled.hears() == []
    assert [(one.name, one.text) for one in settled.stream.rejections()] == [("l", "no\nnetns"), ("t", "two domains")]


def test_removals_in_a_refused_message_are_sent_again_by_themselves(settled: Talk) -> None:
    settled.publish(lds="m=1")
    assert settled.hears() == ["lds m=1 -l"]
    settled.refuses("lds")
    assert settled.hears() == ["lds -l"]
    settled.acks("lds")
    assert settled.hears() == ["lds m=1"]
    settled.refuses("lds")
    assert settled.hears() == []
    assert settled.stream.is_settled(LISTENER, "l")


def test_a_refused_resource_that_is_wanted_no_more_is_removed_and_not_reported(settled: Talk) -> None:
    settled.publish(lds="l=1 m=1")
    settled.hears()
    settled.refuses("lds")
    settled.publish(lds="l=1")
    assert settled.hears() == ["lds -m"]
    assert settled.stream.rejections() == ()


def test_what_envoy_says_of_a_secret_does_not_leave_the_machine(talk: Talk) -> None:
    talk.publish(sds="s=1")
    talk.says("sds", "s")
    talk.hears()
    talk.refuses("sds", "-----BEGIN PRIVATE KEY-----")
    assert [one.text for one in talk.stream.rejections()] == [WITHHELD]
    assert "KEY" not in repr(talk.events)
    assert talk.hears() == ["sds -s"], "who waits for it waits no longer"


def test_a_secret_that_nobody_knows_is_asked_of_the_application_and_denied(talk: Talk) -> None:
    talk.publish(sds="")
    talk.says("sds", "s")
    assert talk.events == [SecretAsked("s")]
    talk.stream.deny(SECRET, "s")
    assert talk.hears() == ["sds -s"]
    talk.says("sds", leaves="s")
    talk.says("sds", "s")
    assert talk.events == [SecretAsked("s"), SecretAsked("s")]
    talk.publish(sds="s=1")
    assert talk.hears() == ["sds s=1"]


def test_a_secret_that_vanished_is_removed_after_the_listeners(talk: Talk) -> None:
    talk.publish(sds="s=1", lds="l=1", cds="")
    talk.says("cds")
    talk.says("lds")
    talk.says("sds", "s")
    talk.hears_and_acks()
    talk.publish(sds="", lds="")
    assert talk.hears() == ["lds -l"]
    talk.acks("lds")
    assert talk.hears() == ["sds -s"]
    assert talk.events == []


def test_silence_about_clusters_is_healed_by_their_assignments_then_by_isolation(settled: Talk) -> None:
    settled.publish(cds="a=2 b=1 c=1", eds="a=1 b=1")
    settled.says("eds", "b")
    settled.hears()
    settled.acks("eds")
    settled.acks("eds")
    assert settled.stream.next_deadline() == STALL_S
    settled.waits(STALL_S)
    assert settled.events == [Stalled(("a", "b", "c"))]
    assert settled.hears() == ["eds a=1", "eds b=1"]
    settled.waits(STALL_S)
    assert settled.hears() == ["cds a=1", "cds -b", "cds -c", "eds a=1", "eds b=1"]
    for _ in range(4):
        settled.acks("cds")
    assert settled.hears() == ["cds a=2", "eds a=1"]
    settled.acks("cds")
    assert settled.hears() == ["cds b=1", "eds b=1"]
    settled.acks("cds")
    assert settled.hears() == ["cds c=1"]


def test_a_long_silence_gives_up_what_serves_under_a_stuck_name(talk: Talk) -> None:
    talk.publish(cds="a=2 x=2")
    talk.says("cds", "* x", has="a=1 x=1")
    talk.hears()
    for _ in range(2):
        talk.waits(2 * STALL_S)
        assert talk.hears() == []
    talk.waits(2 * STALL_S)
    assert talk.hears() == ["cds -a", "cds x=tombstone"]


def test_any_answer_about_clusters_ends_a_silence(settled: Talk) -> None:
    settled.publish(cds="a=2")
    settled.hears()
    settled.publish(cds="a=2 b=1")
    settled.hears()
    settled.waits(STALL_S - 0.1)
    settled.acks("cds")
    settled.waits(0.2)
    assert settled.events == []


def test_no_more_than_a_bound_is_unanswered(talk: Talk) -> None:
    names = [f"n{number}" for number in range(IN_FLIGHT_LIMIT + 1)]
    talk.publish(rds=" ".join(f"{name}=1" for name in names))
    talk.says("rds", " ".join(names))
    assert len(talk.hears()) == IN_FLIGHT_LIMIT
    talk.acks("rds")
    assert len(talk.hears()) == 1


def test_a_slow_envoy_gets_the_newest_content_only(settled: Talk) -> None:
    for version in range(2, 50):
        settled.publish(eds=f"a={version}")
    assert settled.hears() == ["eds a=49"]


def test_publishing_the_same_again_says_nothing(settled: Talk) -> None:
    settled.publish(cds="a=1", eds="a=1", lds="l=1", rds="t=1")
    assert settled.hears() == []
    assert settled.stream.next_deadline() is None


def test_settled_means_acknowledged_or_gone(settled: Talk) -> None:
    assert settled.stream.is_settled(LISTENER, "l")
    assert settled.stream.is_settled(LISTENER, "never-there")
    settled.publish(lds="")
    assert not settled.stream.is_settled(LISTENER, "l")
    settled.hears()
    assert not settled.stream.is_settled(LISTENER, "l")
    settled.acks("lds")
    assert settled.stream.is_settled(LISTENER, "l")
    assert settled.stream.held()[LISTENER] == 0


def test_an_answer_to_a_message_that_was_never_sent_changes_nothing(settled: Talk) -> None:
    for nonce in ("9999", "nonsense"):
        request = DeltaRequest(type_url=CLUSTER, nonce=nonce, error="no")
        assert settled.stream.on_request(request, now=0.0) == ()
    assert settled.hears() == []


def test_a_type_that_nothing_is_known_of_is_answered_empty(talk: Talk) -> None:
    talk.publish(cds="a=1")
    talk.stream.on_request(DeltaRequest(type_url="type.googleapis.com/other", subscribe=("x",)), now=0.0)
    assert talk.hears() == []


def test_the_text_of_a_refusal_has_a_limit(settled: Talk) -> None:
    settled.publish(lds="l=2")
    settled.hears()
    settled.refuses("lds", "x" * (TEXT_LIMIT + 1))
    assert len(settled.stream.rejections()[0].text) == TEXT_LIMIT


def test_the_node_of_the_first_request_is_kept(talk: Talk) -> None:
    talk.stream.on_request(DeltaRequest(type_url=CLUSTER, node="n1"), now=0.0)
    talk.stream.on_request(DeltaRequest(type_url=ENDPOINT, subscribe=("a",)), now=0.0)
    assert talk.stream.node == "n1"


def test_a_frame_does_not_print_its_content() -> None:
    assert "secret" not in repr(frame("s=1")).replace("'s'", "")
    assert repr(frame("s=secretversion")) == "Frame('s', 'secretversion', 15 bytes)"


def test_an_assignment_that_vanished_before_its_turn_is_not_sent(settled: Talk) -> None:
    settled.publish(cds="a=2")
    assert settled.stream.next_send(now=0.0) is not None, "the cluster, after which the assignment is due"
    settled.publish(eds="")
    assert settled.hears() == []


def test_who_has_everything_loses_nothing_by_leaving_a_name(talk: Talk) -> None:
    talk.publish(cds="a=1")
    talk.says("cds", "* a", has="a=1")
    talk.says("cds", leaves="a")
    talk.publish(cds="a=1 b=1")
    assert talk.hears() == ["cds b=1"]


def test_a_new_cluster_that_is_refused_when_nobody_wants_it_any_more_is_freed(settled: Talk) -> None:
    settled.publish(cds="a=1 b=1")
    settled.hears()
    settled.publish(cds="a=1")
    settled.refuses("cds")
    assert settled.hears() == ["cds -b"]
    assert settled.events == []


def test_what_is_on_its_way_and_wanted_no_more_is_not_settled(settled: Talk) -> None:
    settled.publish(lds="l=1 m=1")
    settled.hears()
    settled.publish(lds="l=1")
    assert not settled.stream.is_settled(LISTENER, "m")
    assert settled.hears() == ["lds -m"]
    settled.acks("lds")
    settled.acks("lds")
    assert settled.stream.is_settled(LISTENER, "m")
