"""Commands in pods: exec.sock, where a client hands over its own stdin, stdout and stderr.

The socket is SOCK_SEQPACKET, one JSON message a packet. The client's first carries an `ExecRequest` and three
descriptors (SCM_RIGHTS, unix(7)): the command reads and writes them itself, so a terminal is a terminal and no byte is
copied here. Then the client may send `Signal`s; the server's one answer is `Exited` or `Refused`. A client that goes
away takes its command along: SIGHUP, and `HANGUP_GRACE_S` later the end.
"""

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

import msgspec
import structlog

from aether.adapters.clock import Clock
from aether.api.backend import Execution, WorldBackend
from aether.api.lookup import PodQuery, find_pod
from aether.api.problem import BadRequest, problem_of
from aether.model.world import ExecRequest, Exited, Refused, Signal

PACKET_LIMIT_BYTES = 128 * 1024
CLIENTS_LIMIT = 64
"""Commands at a time. Each holds a process and three descriptors."""
REQUEST_TIMEOUT_S = 5.0
HANGUP_GRACE_S = 2.0

_STREAMS = 3

log = structlog.get_logger()


class ExecServer:
    """Serves exec.sock until cancelled; commands that run then are ended."""

    def __init__(self, path: Path, backend: WorldBackend, *, clock: Clock) -> None:
        self._path = path
        self._backend = backend
        self._clock = clock
        self._listener: socket.socket | None = None

    def listen(self) -> None:
        """Take the socket, mode 0600; a stale one at the path is replaced."""
        self._path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        listener.bind(str(self._path))
        self._path.chmod(0o600)
        listener.listen(CLIENTS_LIMIT)
        self._listener = listener

    async def run(self) -> None:
        if self._listener is None:
            self.listen()
        assert self._listener is not None
        slots = asyncio.Semaphore(CLIENTS_LIMIT)
        with self._listener as listener:
            async with asyncio.TaskGroup() as group:
                while True:
                    await slots.acquire()
                    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
                    serving = group.create_task(self._serve(connection))
                    serving.add_done_callback(lambda _: slots.release())

    async def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                answer: Exited | Refused = Exited(await self._execute(connection))
            except Exception as error:
                problem = problem_of(error)
                if problem.code == "internal":
                    log.exception("exec-failed")
                answer = Refused(code=problem.code, detail=problem.detail, status=problem.status)
            with contextlib.suppress(OSError):
                connection.send(msgspec.json.encode(answer))

    async def _execute(self, connection: socket.socket) -> int:
        """The exit code of what the client asked for."""
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            packet, descriptors = await _receive(connection)
        try:
            if len(descriptors) != _STREAMS:
                raise BadRequest("stdin, stdout and stderr must come with the request")
            stdin, stdout, stderr = descriptors
            execution = await self._backend.execute(self._resolve(packet), (stdin, stdout, stderr))
        finally:
            _close(descriptors)
        return await self._attend(connection, execution)

    def _resolve(self, packet: bytes) -> ExecRequest:
        request = msgspec.json.decode(packet, type=ExecRequest)
        if not request.command:
            raise BadRequest("the command is missing")
        query = PodQuery(namespace=request.namespace, kind=request.kind, name=request.pod)
        metadata = find_pod(self._backend.objects, query)["metadata"]
        return msgspec.structs.replace(request, namespace=metadata["namespace"], pod=metadata["name"], kind="pod")

    async def _attend(self, connection: socket.socket, execution: Execution) -> int:
        """Pass signals on until the command ends; end it when the client is gone."""
        try:
            async with asyncio.TaskGroup() as group:
                forwarding = group.create_task(self._forward(connection, execution))
                code = await execution.wait()
                forwarding.cancel()
        except asyncio.CancelledError:
            execution.signal(signal.SIGKILL)
            raise
        return code

    async def _forward(self, connection: socket.socket, execution: Execution) -> None:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            while True:
                packet, unasked = await _receive(connection)
                _close(unasked)
                if not packet:
                    break
                execution.signal(msgspec.json.decode(packet, type=Signal).number)
        execution.signal(signal.SIGHUP)
        await self._clock.sleep(HANGUP_GRACE_S)
        execution.signal(signal.SIGKILL)


async def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The next packet and the descriptors that came with it; an empty packet is the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(connection, PACKET_LIMIT_BYTES, _STREAMS, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(connection, _wake, readable)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
        else:
            return data, descriptors


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
