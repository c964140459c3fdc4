"""The echo workload as the process it is, on free ports of this machine."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.ports import free_port

SERVICE, POD = "cart", "cart-1"


class RunningEcho:
    """`ports` has the port of each kind that was asked for."""

    def __init__(self, process: subprocess.Popen[str], ports: dict[str, int]) -> None:
        self.process = process
        self.ports = ports

    def line(self, kind: str) -> bytes:
        """What the port says of itself."""
        return f"service={SERVICE} port={self.ports[kind]} pod={POD}".encode()


@contextmanager
def running_echo(*kinds: str, linger_s: float = 0.0) -> Iterator[RunningEcho]:
    ports = {kind: free_port() for kind in kinds}
    options = ("--service", SERVICE, "--pod", POD, "--linger", str(linger_s))
    command = (sys.executable, "-m", "aether.workloads.echo", *(f"{ports[kind]}={kind}" for kind in kinds), *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "serving" in process.stdout.readline()
            yield RunningEcho(process, ports)
        finally:
            process.kill()
