"""Failures in one word, and the access log."""

from typing import Any

import pytest
from envoy.config.accesslog.v3 import accesslog_pb2
from envoy.extensions.access_loggers.file.v3 import file_pb2
from envoy.extensions.access_loggers.filters.cel.v3 import cel_pb2
from google.protobuf import json_format
from tests.support.envoy_plans import unpack

from aether.render.envoy.accesslog import (
    HTTP_FAILURES,
    TCP_FAILURES,
    Entry,
    Failure,
    Journal,
    failed,
    has_status,
    holds,
    http_log,
    tcp_log,
)


def journal(entry: Entry = Entry.CAPTURED, *, path: str = "/run/access.log") -> Journal:
    return Journal(path=path, entry=entry, namespace="shop", service="cart", pod="cart-1")


def fields(log: accesslog_pb2.AccessLog) -> dict[str, Any]:
    sink = unpack(file_pb2.FileAccessLog, log.typed_config)
    assert sink.path == "/run/access.log"
    return json_format.MessageToDict(sink.log_format.json_format)


def test_the_words_are_those_of_the_contract() -> None:
    words = {failure.word for failure in HTTP_FAILURES}
    assert words == {"no-endpoint", "unhealthy", "upstream-refused", "upstream-identity", "cold-timeout"}
    assert {failure.word for failure in TCP_FAILURES} <= words


def test_identity_is_tried_before_refusal_since_both_have_the_same_flag() -> None:
    words = [failure.word for failure in HTTP_FAILURES]
    assert words.index("upstream-identity") < words.index("upstream-refused")


def test_no_two_failures_of_raw_tcp_hold_at_once() -> None:
    conditions = [(flag, failure.expression) for failure in TCP_FAILURES for flag in failure.flags]
    assert len(conditions) == len(set(conditions))
    refused = next(failure for failure in TCP_FAILURES if failure.word == "upstream-refused")
    identity = next(failure for failure in TCP_FAILURES if failure.word == "upstream-identity")
    assert refused.expression == f"!{identity.expression}"


def test_a_failure_is_a_flag_and_perhaps_an_expression() -> None:
    plain = failed(Failure(word="unhealthy", flags=("UH",)))
    assert list(plain.response_flag_filter.flags) == ["UH"]
    both = failed(Failure(word="upstream-identity", flags=("UF",), expression="true")).and_filter.filters
    assert list(both[0].response_flag_filter.flags) == ["UF"]
    assert unpack(cel_pb2.ExpressionFilter, both[1].extension_filter.typed_config).expression == "true"


def test_a_refusal_is_logged_once_as_error_at_the_source() -> None:
    (source,) = http_log(journal())
    (inbound,) = http_log(journal(Entry.INBOUND))
    assert fields(source)["error"] == "%RESP(x-aether-error)%"
    assert fields(source)["source_service"] == "cart"
    assert "error" not in fields(inbound)
    assert fields(inbound)["inbound_error"] == "%RESP(x-aether-error)%"
    assert fields(inbound)["destination_pod"] == "cart-1"


def test_answers_of_400_and_more_refusals_and_cut_responses_are_logged() -> None:
    (log,) = http_log(journal())
    status, flags, refused = log.filter.or_filter.filters
    assert status == has_status(accesslog_pb2.ComparisonFilter.GE, 400)
    assert "UC" in flags.response_flag_filter.flags
    is_grpc, carries_a_word = refused.and_filter.filters
    assert is_grpc.header_filter.header.string_match.prefix == "application/grpc"
    assert carries_a_word == holds("'x-aether-error' in response.headers")


def test_a_raw_connection_that_fails_is_logged_with_its_word() -> None:
    logs = tcp_log(journal())
    assert [fields(log)["error"] for log in logs] == [failure.word for failure in TCP_FAILURES]
    assert [log.filter for log in logs] == [failed(failure) for failure in TCP_FAILURES]


@pytest.mark.parametrize("log", [http_log, tcp_log])
def test_without_a_file_nothing_is_logged(log: Any) -> None:
    assert log(journal(path="")) == []
