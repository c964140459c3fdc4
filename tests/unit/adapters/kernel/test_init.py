"""The order that PID 1 of a world carries out, and its reports. Carrying it out is in tests/netns."""

import signal

import msgspec
import pytest

from aether.adapters.kernel.init import FORWARDED, Failed, Report, Started, WorldOrder

ORDER = WorldOrder(
    name="demo",
    argv=("sleep", "1"),
    netns_dir="/run/demo/netns",
    is_detached=False,
    needs_user_namespace=True,
    report=4,
    alive=5,
)


def test_an_order_survives_the_command_line() -> None:
    assert msgspec.json.decode(msgspec.json.encode(ORDER).decode(), type=WorldOrder) == ORDER


@pytest.mark.parametrize("report", [Started(4711), Failed("proc", "mount proc at /proc: not permitted", 1)])
def test_a_report_survives_the_pipe(report: Report) -> None:
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_the_signals_that_ask_a_process_to_end_are_passed_on() -> None:
    assert {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT} <= set(FORWARDED)
    assert not {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD} & set(FORWARDED)
