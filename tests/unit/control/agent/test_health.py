"""The health book: promotion at once, demotion after failures in a row."""

from aether.control.agent.health import FAILURES, HealthBook, Look


def look(uid: str = "a", *, ready: bool = True, live: bool = True, inbound: bool | None = True) -> Look:
    return Look(uid=uid, is_ready=ready, is_live=live, is_inbound_ready=inbound)


def test_a_pod_is_promoted_only_when_everything_about_it_is_good() -> None:
    for bad in (look(ready=False), look(live=False), look(inbound=False)):
        book = HealthBook()
        assert not book.record((bad,))
        assert book.healthy == frozenset()
    book = HealthBook()
    assert book.record((look(),))
    assert book.healthy == {"a"}


def test_one_failed_look_takes_nobody_out_and_several_in_a_row_do() -> None:
    book = HealthBook()
    book.record((look(),))
    for _ in range(FAILURES - 1):
        assert not book.record((look(live=False),))
    assert book.record((look(live=False),))
    assert book.healthy == frozenset()


def test_a_good_look_in_between_starts_the_count_again() -> None:
    book = HealthBook()
    book.record((look(),))
    for _ in range(FAILURES * 2):
        book.record((look(inbound=False),))
        book.record((look(),))
    assert book.healthy == {"a"}


def test_a_pod_whose_containers_are_not_ready_is_out_at_once() -> None:
    book = HealthBook()
    book.record((look(),))
    assert book.record((look(ready=False),))
    assert book.healthy == frozenset()


def test_a_pod_that_is_gone_is_forgotten() -> None:
    book = HealthBook()
    book.record((look("a"), look("b")))
    assert book.record((look("b"),))
    assert book.healthy == {"b"}


def test_a_proxy_that_cannot_say_changes_nothing() -> None:
    book = HealthBook()
    book.record((look("old"),))
    for _ in range(FAILURES * 2):
        assert not book.record((look("old", inbound=None), look("new", inbound=None)))
    assert book.healthy == {"old"}
    for _ in range(FAILURES):
        book.record((look("old", live=False, inbound=None),))
    assert book.healthy == frozenset()
