"""Worlds for tests: start one, run commands in its pods, end it. Everything through the product's own doors."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from aether.adapters.paths import WorldPaths
from aether.cli.client import ApiClient
from aether.model.world import AgentStatus, ExecAnswer, ExecRequest, Exited, Refused, WorldStatus

START_LIMIT_S = 90.0
EXEC_LIMIT_S = 30.0

AETHER = str(Path(sys.executable).with_name("aether"))


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """What a command in a pod left."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP answer as curl saw it. Header names are in lower case."""

    code: int
    status: int
    headers: Mapping[str, str]
    body: str
    seconds: float

    @property
    def error(self) -> str:
        """`x-aether-error`, "" without one."""
        return self.headers.get("x-aether-error", "")

    def json(self) -> Any:
        return json.loads(self.body)


class RunningWorld:
    """A detached world."""

    def __init__(self, name: str, env: Mapping[str, str]) -> None:
        self.name = name
        self.paths = WorldPaths.of_user(name)
        self._env = dict(env)
        self.api = ApiClient(self.paths.api_socket)

    def aether(self, *arguments: str, stdin: str = "", limit_s: float = 60.0) -> Ran:
        """Run a command (the first argument) on this world."""
        command, *rest = arguments
        done = subprocess.run(
            [AETHER, command, "--world", self.name, *rest],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
            env=self._env,
        )
        return Ran(code=done.returncode, out=done.stdout, err=done.stderr)

    def apply(self, text: str) -> Ran:
        return self.aether("apply", "-f", "-", stdin=text)

    def status(self) -> WorldStatus:
        return self.api.get("/v1/status", reply=WorldStatus)

    def exec(self, pod: str, *command: str, stdin: bytes = b"", limit_s: float = EXEC_LIMIT_S) -> Ran:
        """Run a command in pod ``namespace/name`` (or ``namespace/deploy/name``), whatever its exit code."""
        with self.start(pod, *command, stdin=stdin) as running:
            return running.finish(limit_s)

    @contextlib.contextmanager
    def start(self, pod: str, *command: str, stdin: bytes = b"") -> Iterator["RunningCommand"]:
        """A command in a pod that goes on while the test does other things; it is ended with the block."""
        running = RunningCommand(self.paths.exec_socket, pod, command, stdin)
        try:
            yield running
        finally:
            running.close()

    def python(self, pod: str, script: str, *arguments: str, limit_s: float = EXEC_LIMIT_S) -> Ran:
        return self.exec(pod, "python3", "-c", script, *arguments, limit_s=limit_s)

    def curl(self, pod: str, url: str, *options: str, limit_s: float = EXEC_LIMIT_S) -> Answer:
        """One request by the real curl; a connection that fails gives status 0 and curl's exit code."""
        form = "\n%{http_code} %{time_total}"
        ran = self.exec(pod, "curl", "-sS", "-i", "-m", "10", "-w", form, *options, url, limit_s=limit_s)
        text, _, tail = ran.out.rpartition("\n")
        status, seconds = tail.split(" ")
        head, _, body = text.replace("\r\n", "\n").partition("\n\n")
        while body.startswith("HTTP/") or (head.split(" ")[1:2] == ["100"]):
            head, _, body = body.partition("\n\n")
        lines = head.split("\n")[1:]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        return Answer(code=ran.code, status=int(status), headers=headers, body=body, seconds=float(seconds))

    def wait(self, what: str, holds: Callable[[], Any], *, limit_s: float = 30.0) -> Any:
        """Poll until `holds()` is true; its value. Says what it waited for when it gives up."""
        deadline = time.monotonic() + limit_s
        while not (value := holds()):
            assert time.monotonic() < deadline, f"waited {limit_s} s for: {what}\n{self.describe()}"
            time.sleep(0.05)
        return value

    def wait_ready(self, *, limit_s: float = START_LIMIT_S) -> None:
        """Until every pod is ready and every endpoint healthy."""
        self.wait("every pod ready, every endpoint healthy", self._is_ready, limit_s=limit_s)

    def pods(self, namespace: str, app: str) -> list[dict[str, Any]]:
        """The live pods with the label ``app``."""
        found = self.api.get("/v1/objects/Pod", reply=dict[str, Any], query={"namespace": namespace})["items"]
        return [
            pod
            for pod in found
            if pod["metadata"].get("labels", {}).get("app") == app and "deletionTimestamp" not in pod["metadata"]
        ]

    def describe(self) -> str:
        """What a failed test should show."""
        return msgspec.json.format(msgspec.json.encode(self.status())).decode()[:6000]

    def _is_ready(self) -> bool:
        status = self.status()
        healthy = sum(service.healthy for service in status.services)
        return (
            status.pods_ready == status.pods_wanted
            and healthy == status.endpoints_wanted
            and all(node.is_proxy_live and node.is_agent_connected for node in status.nodes)
        )


class RunningCommand:
    """A command in a pod, its output in pipes."""

    def __init__(self, path: Path, pod: str, command: Sequence[str], stdin: bytes) -> None:
        namespace, _, name = pod.partition("/")
        kind, name = ("deployment", name.removeprefix("deploy/")) if name.startswith("deploy/") else ("pod", name)
        request = ExecRequest(namespace=namespace, pod=name, kind=kind, command=tuple(command))
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect(str(path))
        read_in, write_in = os.pipe()
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        socket.send_fds(self._socket, [msgspec.json.encode(request)], [read_in, out_write, err_write])
        for fd in (read_in, out_write, err_write):
            os.close(fd)
        with os.fdopen(write_in, "wb") as pipe, contextlib.suppress(BrokenPipeError):
            pipe.write(stdin)
        self.out = os.fdopen(out_read, "rb")
        self._err = os.fdopen(err_read, "rb")

    def finish(self, limit_s: float) -> Ran:
        """Its end, and everything it wrote."""
        self._socket.settimeout(limit_s)
        out, err = _drain([self.out, self._err], limit_s)
        answer = msgspec.json.decode(self._socket.recv(128 * 1024), type=ExecAnswer)
        match answer:
            case Exited(code=code):
                return Ran(code=code, out=out.decode(errors="replace"), err=err.decode(errors="replace"))
            case Refused() as refused:
                raise AssertionError(f"exec refused: {refused.detail}")

    def close(self) -> None:
        self._socket.close()
        self.out.close()
        self._err.close()


def _drain(pipes: Sequence[Any], limit_s: float) -> list[bytes]:
    deadline = time.monotonic() + limit_s
    chunks: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            assert left > 0, f"the command still runs after {limit_s} s; so far: {chunks}"
            for key, _ in selector.select(left):
                data = os.read(key.fd, 65536)
                if data:
                    chunks[key.fd].append(data)
                else:
                    selector.unregister(key.fileobj)
    return [b"".join(chunks[pipe.fileno()]) for pipe in pipes]


@contextlib.contextmanager
def world(name: str, *directories: Path, nodes: int = 1, ready: bool = True) -> Iterator[RunningWorld]:
    """A fresh world of its own, ended with the block whatever happens."""
    env = {**os.environ, "NO_COLOR": "1"}
    command = [AETHER, "up", *map(str, directories), "--world", name, "--nodes", str(nodes), "--detach", "--fresh"]
    started = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=env)
    running = RunningWorld(name, env)
    try:
        assert started.returncode == 0, f"{started.stdout}\n{started.stderr}\n{_logs(running)}"
        if ready:
            running.wait_ready()
        yield running
    finally:
        subprocess.run([AETHER, "down", "--world", name], capture_output=True, timeout=60, check=False, env=env)
        for left in (running.paths.state, running.paths.runtime):
            shutil.rmtree(left, ignore_errors=True)


def _logs(running: RunningWorld) -> str:
    logs = [running.paths.log, *running.paths.runtime.glob("nodes/*/*.log")]
    return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs if log.exists())


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def agent_status(running: RunningWorld, node: str) -> AgentStatus:
    """What the node's agent says of itself, by its own socket."""
    return ApiClient(running.paths.node(node).agent_socket).get("/status", reply=AgentStatus)
