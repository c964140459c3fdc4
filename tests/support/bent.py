"""Worlds whose agents can be told to bend what their Envoy is told (`tests.support.bends`), and whose mesh is of the
test's own configuration. Everything else in them is the product's.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
from tests.support.bent_agent import Orders
from tests.support.processes import processes_of
from tests.support.world import AETHER, RunningWorld

from aether.adapters.kernel.world import spawn_world
from aether.adapters.paths import WorldPaths, runtime_root, state_root
from aether.cli.world.process import claim_runtime, read_process, write_process
from aether.model.facts import MeshConfig
from aether.model.world import WorldOptions

REPOSITORY = Path(__file__).parents[2]


class BentWorld(RunningWorld):
    """A world whose Envoys may be told something else than the plan says."""

    def __init__(self, name: str, env: dict[str, str]) -> None:
        super().__init__(name, env)
        self._serial = 0

    def bend(self, *bends: tuple[str, ...], node: str = "node-1") -> None:
        """Bend what `node`'s Envoy is told: exactly so, until told otherwise. Returns when Envoy has answered."""
        self._serial += 1
        folder = self.paths.node(node).directory
        (folder / "bends.json").write_bytes(msgspec.json.encode(Orders(serial=self._serial, bends=bends)))
        (agent,) = processes_of(self.paths, "tests.support.bent_agent", f'"node":"{node}"')
        os.kill(agent, signal.SIGHUP)
        done = folder / "bends.done"
        self.wait("the agent to obey", lambda: done.exists() and done.read_text() == str(self._serial))

    @contextlib.contextmanager
    def bent(self, *bends: tuple[str, ...], node: str = "node-1") -> Iterator[None]:
        """Bent within the block, straight after it."""
        self.bend(*bends, node=node)
        try:
            yield
        finally:
            self.bend(node=node)

    def rotate_root(self) -> None:
        """Have the certificate authority begin with a new root."""
        pid = read_process(self.paths)
        assert pid is not None
        os.kill(pid, signal.SIGHUP)


@contextlib.contextmanager
def bent_world(name: str, manifests: str, *, nodes: int = 1, config: MeshConfig | None = None) -> Iterator[BentWorld]:
    """A fresh world of its own, ready with these manifests, ended with the block, or with this process if that ends."""
    env = {**os.environ, "NO_COLOR": "1"}
    running = BentWorld(name, env)
    pid = _spawn(running.paths, nodes, config or MeshConfig())
    try:
        running.wait("the world's API", running.paths.api_socket.exists, limit_s=20)
        applied = running.apply(manifests)
        assert applied.code == 0, f"{applied.err}\n{running.paths.log.read_text()}"
        running.wait_ready()
        yield running
    finally:
        subprocess.run([AETHER, "down", "--world", name], capture_output=True, timeout=60, check=False, env=env)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        shutil.rmtree(running.paths.state, ignore_errors=True)


def _spawn(paths: WorldPaths, nodes: int, config: MeshConfig) -> int:
    options = WorldOptions(
        name=paths.name,
        runtime_root=str(runtime_root()),
        state_root=str(state_root()),
        nodes=nodes,
        keeps_applied=False,
        config=config,
    )
    python = (sys.executable, "-P", "-m", "tests.support.bent_standalone", msgspec.json.encode(options).decode())
    with claim_runtime(paths), paths.log.open("ab") as log:
        argv = ("env", f"PYTHONPATH={REPOSITORY}", *python)
        pid = spawn_world(argv, name=paths.name, netns_dir=paths.netns, log=log)
        write_process(paths, pid)
    return pid
