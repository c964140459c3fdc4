"""Figures that tests measure: printed at the end of the run, whichever worker measured them."""

from collections.abc import Callable, Iterable
from typing import Protocol

import pytest


class Figure(Protocol):
    """Note a measured value under its name, which ends with the unit."""

    def __call__(self, name: str, value: float) -> None: ...


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    def note(name: str, value: float) -> None:
        record_property(name, value)

    return note


def figure_lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """One line a figure, sorted by name."""
    return sorted(f"{name}: {value:.3g}" for report in reports for name, value in report.user_properties)
