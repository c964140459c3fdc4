"""Logs are JSON, one object a line, with the event's name and fields."""

import json
import subprocess
import sys

SCRIPT = """
import structlog
from aether.adapters.telemetry.logs import configure_logs
configure_logs()
structlog.get_logger().info("pod-ready", pod="shop/cart", took_s=0.5)
structlog.get_logger().debug("not-shown")
try:
    raise ValueError("x")
except ValueError:
    structlog.get_logger().exception("failed")
"""


def test_a_log_line_is_an_event_and_its_fields() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, second = (json.loads(line) for line in ran.stderr.splitlines())
    assert (first["event"], first["pod"], first["took_s"], first["level"]) == ("pod-ready", "shop/cart", 0.5, "info")
    assert "ValueError: x" in second["exception"]
