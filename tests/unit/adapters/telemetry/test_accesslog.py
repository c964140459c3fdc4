"""Counting refusals from an access log that grows, is cut, and holds half lines."""

from pathlib import Path

from aether.adapters.telemetry import accesslog
from aether.adapters.telemetry.accesslog import AccessLog
from aether.model.facts import Refusals

LINE = b'{"authority":"cart.shop.aether.internal:7777","error":"port-not-declared","code":421}\n'


def test_refusals_are_counted_by_authority_and_reason_once_each(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(LINE + LINE + b'{"authority":"x","error":null,"code":500}\n')
    log = AccessLog(path)
    assert log.read()
    assert not log.read()
    assert log.refusals() == (Refusals("cart.shop.aether.internal:7777", "port-not-declared", 2),)


def test_a_line_that_arrives_in_two_parts_counts_once_and_garbage_counts_never(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    log = AccessLog(path)
    assert not log.read()
    path.write_bytes(b"not json\n" + LINE[:30])
    log.read()
    assert log.refusals() == ()
    with path.open("ab") as file:
        file.write(LINE[30:])
    log.read()
    assert [refusal.count for refusal in log.refusals()] == [1]


def test_a_file_that_was_cut_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(LINE * 3)
    log = AccessLog(path)
    log.read()
    path.write_bytes(LINE)
    log.read()
    assert [refusal.count for refusal in log.refusals()] == [4]


def test_names_that_clients_choose_cannot_grow_the_table_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    lines = (b'{"authority":"n%d","error":"port-mismatch"}\n' % i for i in range(accesslog.MAX_KEYS + 10))
    path.write_bytes(b"".join(lines))
    log = AccessLog(path)
    while log.read():
        pass
    assert len(log.refusals()) == accesslog.MAX_KEYS + 1
    assert Refusals(accesslog.OVERFLOW_AUTHORITY, "port-mismatch", 10) in log.refusals()


def test_a_short_name_counts_for_the_service_it_means_in_its_callers_namespace(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(
        b'{"authority":"web:8081","source_namespace":"shop","error":"port-not-declared"}\n'
        b'{"authority":"web","source_namespace":"blog","error":"port-required"}\n'
        b'{"authority":"[fd96::1]:80","source_namespace":"blog","error":"no-endpoint"}\n'
    )
    log = AccessLog(path)
    log.read()
    assert [refusal.authority for refusal in log.refusals()] == ["[fd96::1]:80", "web.blog", "web.shop:8081"]
