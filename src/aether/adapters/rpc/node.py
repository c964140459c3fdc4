"""The node channel: facts to an agent, reports and certificate requests from it, over gRPC on a unix socket.

Both directions carry levels (`model/facts.py`): every message replaces the one before it, so a lost or skipped message
loses nothing, and a reconnect is the same as a start. Messages are msgpack; one is at most `MESSAGE_LIMIT_BYTES`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import grpc
import msgspec
import structlog

from aether.adapters.clock import Clock
from aether.adapters.latest import Latest
from aether.errors import AetherError
from aether.model.facts import NodeFacts, NodeReport

MESSAGE_LIMIT_BYTES = 256 * 1024 * 1024
_SERVICE = "aether.node.v1.Node"
_OPTIONS = [
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.max_send_message_length", MESSAGE_LIMIT_BYTES),
]
_RETRY_S = 0.2

log = structlog.get_logger()


class ChannelFailed(AetherError):
    """The control plane cannot be reached, or refused what was asked."""

    code = "channel-failed"


class SignRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for a leaf: the CSR carries the public key, `namespace` and `account` say whose it is."""

    node: str
    namespace: str
    account: str
    csr_pem: bytes


class SignReply(msgspec.Struct, frozen=True, kw_only=True):
    """`chain_pem` is the leaf and what is between it and a root; `ca_pem` the roots to trust. `error` refuses."""

    chain_pem: bytes = b""
    ca_pem: bytes = b""
    error: str = ""


class NodeHandler(Protocol):
    """What the control plane does for its agents."""

    def facts(self, node: str) -> AsyncIterator[NodeFacts]:
        """The node's facts, then each newer value. Raises AetherError for a node that does not exist."""

    def on_report(self, report: NodeReport) -> None: ...

    def sign(self, request: SignRequest) -> SignReply: ...


class NodeServer:
    """Serves the node channel on a unix socket."""

    def __init__(self, socket_path: Path, handler: NodeHandler) -> None:
        self._socket_path = socket_path
        self._handler = handler
        self._server: Any = None

    async def start(self) -> None:
        self._server = grpc.aio.server(options=_OPTIONS)
        methods = {
            "Sync": grpc.stream_stream_rpc_method_handler(self._sync),
            "Sign": grpc.unary_unary_rpc_method_handler(self._sign),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
        self._socket_path.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{self._socket_path}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0.2)

    async def _sync(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """The first message names the node; the rest are its reports."""
        node = msgspec.msgpack.decode(await anext(aiter(requests)), type=str)
        log.info("agent-connected", node=node)
        async with asyncio.TaskGroup() as group:
            pushing = group.create_task(self._push_facts(node, context.write))
            async for message in requests:
                self._handler.on_report(msgspec.msgpack.decode(message, type=NodeReport))
            pushing.cancel()
        log.info("agent-disconnected", node=node)

    async def _push_facts(self, node: str, write: Callable[[bytes], Awaitable[None]]) -> None:
        async for facts in self._handler.facts(node):
            await write(msgspec.msgpack.encode(facts))

    async def _sign(self, message: bytes, context: Any) -> bytes:
        try:
            reply = self._handler.sign(msgspec.msgpack.decode(message, type=SignRequest))
        except AetherError as error:
            reply = SignReply(error=str(error))
        return msgspec.msgpack.encode(reply)


class NodeClient:
    """An agent's end of the channel: reconnects for ever, keeps the last facts while the control plane is away."""

    def __init__(self, socket_path: Path, node: str, *, clock: Clock) -> None:
        self._target = f"unix:{socket_path}"
        self._node = node
        self._clock = clock
        self._channel: Any = None
        self.reports: Latest[NodeReport] = Latest()

    async def run(self, on_facts: Callable[[NodeFacts], None]) -> None:
        """Keep the stream open; call `on_facts` with each value received."""
        while True:
            await self._stream(on_facts)
            await self._clock.sleep(_RETRY_S)

    async def sign(self, request: SignRequest) -> SignReply:
        """Raises ChannelFailed when the control plane is away or refuses."""
        call = self._open().unary_unary(f"/{_SERVICE}/Sign")
        try:
            reply = msgspec.msgpack.decode(await call(msgspec.msgpack.encode(request), timeout=10), type=SignReply)
        except grpc.aio.AioRpcError as error:
            raise ChannelFailed(f"certificate for {request.namespace}/{request.account}: {error.details()}") from error
        if reply.error:
            raise ChannelFailed(f"certificate for {request.namespace}/{request.account}: {reply.error}")
        return reply

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    def _open(self) -> Any:
        if self._channel is None:
            options = [*_OPTIONS, ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
            self._channel = grpc.aio.insecure_channel(self._target, options=options)
        return self._channel

    async def _stream(self, on_facts: Callable[[NodeFacts], None]) -> None:
        call = self._open().stream_stream(f"/{_SERVICE}/Sync")(wait_for_ready=True)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_reports(call.write))
            try:
                async for message in call:
                    on_facts(msgspec.msgpack.decode(message, type=NodeFacts))
            except grpc.aio.AioRpcError as error:
                log.info("channel-lost", node=self._node, detail=error.details())
            finally:
                sending.cancel()

    async def _send_reports(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        try:
            await write(msgspec.msgpack.encode(self._node))
            async for report in self.reports.values():
                await write(msgspec.msgpack.encode(report))
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # the reading side sees the same end, and reconnects
