from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.objects.timestamps import format_time, parse_time


def test_times_are_utc_in_whole_seconds() -> None:
    assert format_time(1_700_000_000.9) == "2023-11-14T22:13:20Z"


@given(st.integers(min_value=0, max_value=4_000_000_000))
def test_parsing_inverts_formatting(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


def test_what_is_no_time_is_zero() -> None:
    assert parse_time("yesterday") == 0.0
