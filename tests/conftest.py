"""Options and rules of all tests: golden files, what the machine can run, how hard hypothesis looks."""

import functools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.support.figures import figure, figure_lines
from tests.support.golden import Golden
from tests.support.machine import CHECKS, IMPLIED

__all__ = ["figure"]

settings.register_profile("default", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-golden", action="store_true", help="write the golden files instead of comparing them")


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(rewrite=bool(request.config.getoption("--rewrite-golden")))


def pytest_configure(config: pytest.Config) -> None:
    if unknown := _required() - CHECKS.keys():
        raise pytest.UsageError(
            f"AETHER_REQUIRE names {', '.join(sorted(unknown))}; known: {', '.join(sorted(CHECKS))}"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, [])]
    if lines := figure_lines(reports):
        terminalreporter.section("figures")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip with the reason what cannot run here, or fail when AETHER_REQUIRE says that it must."""
    for need in _needs(item):
        if not (reason := _why_not(need)):
            continue
        if need in _required():
            pytest.fail(f"AETHER_REQUIRE names {need}, and it cannot run here: {reason}", pytrace=False)
        pytest.skip(f"{need}: {reason}")


def _needs(item: pytest.Item) -> list[str]:
    marked = {marker.name for marker in item.iter_markers()}
    implied = {need for marker in marked for need in IMPLIED.get(marker, ())}
    return sorted((marked | implied) & CHECKS.keys())


@functools.cache
def _why_not(need: str) -> str:
    return CHECKS[need]()


def _required() -> frozenset[str]:
    return frozenset(filter(None, os.environ.get("AETHER_REQUIRE", "").split(",")))


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder with a short name: tests put unix sockets there, whose paths have at most 107 bytes (unix(7))."""
    return tmp_path_factory.mktemp("t")
