"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds."""

import datetime


def format_time(wall_s: float) -> str:
    """``2026-11-29T12:00:00Z`` for seconds since 1970."""
    return datetime.datetime.fromtimestamp(int(wall_s), tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """The inverse of `format_time`; 0 for text that is none."""
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
