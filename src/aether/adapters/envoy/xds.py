"""The delta ADS server of one node: gRPC on a unix socket around one `DeltaStream` per connected Envoy.

Owns: the socket, the streams, who is asked about a name that is not published. Leaves to others: what a stream says and
when (`wire.xds`), what exists (the publisher).
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, assert_never

import grpc
import msgspec
import structlog

from aether.adapters.clock import Clock, SystemClock
from aether.adapters.envoy.frames import Frames, Snapshot, frame_of
from aether.adapters.envoy.requests import BadRequest, parse_request
from aether.adapters.envoy.tally import AdsStatistics, Tally
from aether.model.facts import Rejection
from aether.render.envoy.clusters import tombstone
from aether.render.envoy.resource import encode, resource_of
from aether.wire.xds.delta import DeltaStream, Wanted
from aether.wire.xds.message import (
    DeltaRequest,
    Event,
    Frame,
    NamesKnown,
    OnDemandAsked,
    Rejected,
    SecretAsked,
    Stalled,
    encode_response,
)
from aether.wire.xds.order import CLUSTER, SECRET

TICK_S = 0.25
"""How often a stream's deadlines are looked at; they are seconds long."""

_SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
"""A reconnecting Envoy lists every name it ever asked for; a route table is as large as the mesh."""

log = structlog.get_logger()


class Stream(msgspec.Struct, eq=False):
    """A connected Envoy. `woken` says that there may be something to send."""

    machine: DeltaStream
    woken: asyncio.Event


class AdsServer:
    """`publish` replaces everything that is wanted; the streams carry the difference to Envoy.

    Nothing is answered before the first `publish`. `on_demand(name)` is called for a cluster that Envoy asked for and
    that is not published: publish it, then or later, and return True; False answers that it does not exist, which
    Envoy believes for good. `on_secret(name)` likewise for secrets, where False may be asked again. `on_known_names`
    is called on every new stream with the on-demand names that this Envoy remembers, before anything is answered.
    `on_rejections` is called when `rejections` are others than before.
    """

    def __init__(self, socket_path: Path, *, clock: Clock | None = None) -> None:
        self.on_demand: Callable[[str], bool] = _never
        self.on_secret: Callable[[str], bool] = _never
        self.on_known_names: Callable[[frozenset[str]], None] = _ignore
        self.on_rejections: Callable[[], None] = _nothing
        self._socket_path = socket_path
        self._clock = clock or SystemClock()
        self._server: grpc.aio.Server | None = None
        self._frames = Frames()
        self._wanted: Wanted | None = None
        self._streams: list[Stream] = []
        self._events: deque[tuple[Stream, Event]] = deque()
        self._is_dispatching = False
        self._answered = asyncio.Event()
        self._tally = Tally()
        self._rejections: tuple[Rejection, ...] = ()

    async def start(self) -> None:
        """Listen. A socket file that an earlier life left is replaced."""
        self._socket_path.unlink(missing_ok=True)
        server = grpc.aio.server(options=_UNLIMITED)
        method = grpc.stream_stream_rpc_method_handler(self._serve)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {"DeltaAggregatedResources": method}),)
        )
        server.add_insecure_port(f"unix:{self._socket_path}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """End every stream. Envoy keeps what it has and tries to come back."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    def publish(self, snapshot: Snapshot) -> None:
        """Make this what Envoy should have. Call it from the event loop; nothing is sent before it returns."""
        self._wanted = self._frames.replace(snapshot)
        for stream in tuple(self._streams):
            self._take(stream, stream.machine.publish(self._wanted))
        self._note_answer()
        self._dispatch()

    async def wait_acked(self, type_url: str, names: frozenset[str], timeout_s: float) -> bool:
        """Wait until the newest Envoy has what was published last under these names (or no longer has it).

        False after `timeout_s`, or as soon as every name is settled and one of them was refused.
        """
        in_order = list(names)
        try:
            async with asyncio.timeout(timeout_s):
                while (verdict := self._verdict(type_url, in_order)) is None:
                    await self._answered.wait()
        except TimeoutError:
            return False
        return verdict

    def rejections(self) -> tuple[Rejection, ...]:
        """What connected Envoys refuse of the published resources."""
        refused = {one for stream in self._streams for one in stream.machine.rejections()}
        return tuple(sorted({Rejection(type_url=one.type_url, name=one.name, text=one.text) for one in refused}))

    def statistics(self) -> AdsStatistics:
        held = self._streams[-1].machine.held() if self._streams else {}
        return self._tally.statistics(streams=len(self._streams), held=held)

    async def _serve(self, requests: AsyncIterator[bytes], context: Any) -> None:
        stream = Stream(DeltaStream(substitute=_substitute), asyncio.Event())
        if self._wanted is not None:
            stream.machine.publish(self._wanted)
        self._streams.append(stream)
        self._tally.streams_opened += 1
        try:
            async with asyncio.TaskGroup() as group:
                helpers = (group.create_task(self._write(stream, context)), group.create_task(self._tick(stream)))
                await self._read(stream, requests)
                for helper in helpers:
                    helper.cancel()
        except* BadRequest as bad:
            log.warning("xds-request-unreadable", error=str(bad.exceptions[0]))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(bad.exceptions[0]))
        finally:
            self._streams.remove(stream)
            self._note_answer()
            log.info("xds-stream-closed", node=stream.machine.node)

    async def _read(self, stream: Stream, requests: AsyncIterator[bytes]) -> None:
        is_first = True
        async for payload in requests:
            request = parse_request(payload)
            if is_first:
                log.info("xds-stream-opened", node=request.node)
                is_first = False
            self._on_request(stream, request)

    def _on_request(self, stream: Stream, request: DeltaRequest) -> None:
        self._tally.count_request(request)
        self._take(stream, stream.machine.on_request(request, now=self._clock.now()))
        self._note_answer()
        self._dispatch()

    async def _write(self, stream: Stream, context: Any) -> None:
        while True:
            await stream.woken.wait()
            stream.woken.clear()
            while (response := stream.machine.next_send(now=self._clock.now())) is not None:
                self._tally.count_response(response)
                await context.write(encode_response(response))

    async def _tick(self, stream: Stream) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            now, deadline = self._clock.now(), stream.machine.next_deadline()
            if deadline is not None and deadline <= now:
                self._take(stream, stream.machine.on_time(now=now))
                self._dispatch()

    def _take(self, stream: Stream, events: tuple[Event, ...]) -> None:
        self._events.extend((stream, event) for event in events)
        stream.woken.set()

    def _dispatch(self) -> None:
        """Tell the application. It may publish meanwhile: what that leads to is told after this."""
        if self._is_dispatching:
            return
        self._is_dispatching = True
        try:
            while self._events:
                stream, event = self._events.popleft()
                self._tell(stream, event)
        finally:
            self._is_dispatching = False

    def _tell(self, stream: Stream, event: Event) -> None:
        match event:
            case NamesKnown(names=names):
                self.on_known_names(names)
            case OnDemandAsked(name=name):
                self._ask(stream, CLUSTER, name, self.on_demand)
            case SecretAsked(name=name):
                self._ask(stream, SECRET, name, self.on_secret)
            case Rejected():
                log.warning("resource-rejected", type_url=event.type_url, name=event.name, text=event.text)
            case Stalled(names=names):
                log.warning("clusters-not-acknowledged", node=stream.machine.node, clusters=names)
            case _:
                assert_never(event)

    def _ask(self, stream: Stream, type_url: str, name: str, hook: Callable[[str], bool]) -> None:
        if self._wanted is None or name in self._wanted.get(type_url, {}):
            return
        if not hook(name):
            stream.machine.deny(type_url, name)
            stream.woken.set()

    def _verdict(self, type_url: str, names: list[str]) -> bool | None:
        """None while a name is open. That one is moved to the front: the next look begins, and mostly ends, there."""
        if not self._streams:
            return None
        machine = self._streams[-1].machine
        is_refused = False
        for index, name in enumerate(names):
            if machine.is_settled(type_url, name):
                continue
            if not machine.is_refused(type_url, name):
                names[0], names[index] = name, names[0]
                return None
            is_refused = True
        return not is_refused

    def _note_answer(self) -> None:
        answered, self._answered = self._answered, asyncio.Event()
        answered.set()
        before, self._rejections = self._rejections, self.rejections()
        if self._rejections != before:
            self.on_rejections()


def _substitute(name: str) -> Frame:
    return frame_of(resource_of(name, CLUSTER, encode(tombstone(name))))


def _never(name: str) -> bool:
    del name
    return False


def _ignore(names: frozenset[str]) -> None:
    del names


def _nothing() -> None:
    return
