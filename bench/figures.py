"""Small arithmetic of benchmarks, and how figures are printed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show(what: str, **figures: object) -> None:
    """One line: what was measured, then each figure by its name (the unit is in the name)."""
    parts = (
        f"{name}={value:.3f}" if isinstance(value, float) else f"{name}={value}" for name, value in figures.items()
    )
    print(f"{what:<44} {'  '.join(parts)}", flush=True)


def show_times(what: str, seconds: Sequence[float]) -> None:
    """Median, 99th percentile and worst of some times, in milliseconds."""
    show(
        what,
        n=len(seconds),
        p50_ms=quantile(seconds, 0.5) * 1000,
        p99_ms=quantile(seconds, 0.99) * 1000,
        max_ms=max(seconds) * 1000,
    )


@contextmanager
def once(what: str) -> Iterator[None]:
    """How long the block took, in milliseconds."""
    began_s = time.perf_counter()
    yield
    show(what, took_ms=(time.perf_counter() - began_s) * 1000)
