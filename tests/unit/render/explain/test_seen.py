from typing import Any

import pytest

from aether.model.world import Explanation
from aether.render.explain.seen import RECENT_S, seen_failures, with_seen

NOW_S = 1_700_000_000.0  # 2023-11-14T22:13:20Z


def line(time: str = "2023-11-14T22:13:15.500Z", **fields: Any) -> dict[str, Any]:
    written = {
        "time": time,
        "error": "upstream-refused",
        "source_namespace": "shop",
        "source_pod": "cart-1",
        "cluster": "web.shop.aether.internal:80",
        "transport_failure": None,
        "details": "connection_termination",
    }
    return written | fields


def test_a_failure_is_told_with_its_pod_cluster_age_and_the_proxys_words() -> None:
    (found,) = seen_failures([line()], NOW_S)
    assert (found.namespace, found.pod, found.cluster) == ("shop", "cart-1", "web.shop.aether.internal:80")
    assert (found.reason, found.why, found.age_s) == ("upstream-refused", "connection_termination", 4.5)


def test_why_a_handshake_failed_comes_before_what_became_of_the_request() -> None:
    (found,) = seen_failures([line(transport_failure="certificate expired")], NOW_S)
    assert found.why == "certificate expired"


@pytest.mark.parametrize("reason", [None, "", "port-mismatch", "unhealthy", "no-endpoint"])
def test_what_the_configuration_tells_is_not_taken_from_the_log(reason: str | None) -> None:
    assert seen_failures([line(error=reason)], NOW_S) == ()


def test_the_newest_is_first_and_old_ones_are_left_out() -> None:
    lines = [line("2023-11-14T22:12:00Z"), line("2023-11-14T22:13:00Z"), line("2023-11-14T22:13:10Z")]
    assert [one.age_s for one in seen_failures(lines, NOW_S)] == [10.0, 20.0]
    assert RECENT_S < 80


def test_nothing_seen_changes_nothing() -> None:
    told = Explanation(outcome="deliver", summary="to pod web-1")
    assert with_seen(told, None) is told


def test_a_failure_without_words_is_told_without() -> None:
    (seen,) = seen_failures([line(details=None)], NOW_S)
    told = with_seen(Explanation(outcome="deliver", summary="to pod web-1"), seen)
    assert told.steps[-1].says == "4 s ago it failed"
