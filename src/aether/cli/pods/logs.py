"""`aether logs`: what a container writes, byte for byte."""

import contextlib
import sys

from aether.cli.address import PodReference
from aether.cli.client import open_world


def run_logs(world: str | None, pod: PodReference, *, container: str, tail: int | None, is_following: bool) -> None:
    query = pod.query() | {"container": container, "follow": str(is_following).lower()}
    if tail is not None:
        query["tail"] = str(tail)
    with contextlib.suppress(KeyboardInterrupt):
        for line in open_world(world).stream("/v1/logs", query=query):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
