"""Requests from a pod, many at a time, and whom each answer says that it came from.

    python3 multiplex.py h2|h1 HOST:PORT CONNECTIONS STREAMS REQUESTS AUTHORITY…

`h2`: HTTP/2 with prior knowledge, `STREAMS` requests of a connection open at any time. `h1`: keep-alive, one at a time.
`REQUESTS` in all go to the authorities in turn. Prints JSON: how many answers of each `service identity`, and failures.
"""

import asyncio
import json
import re
import sys
from collections import Counter

import h2.config
import h2.connection
import h2.events

_URI = re.compile("URI=([^;,]*)")


class Tally:
    """What is still to be asked, and what came of it."""

    def __init__(self, requests: int, authorities: list[str]) -> None:
        self.seen: Counter[str] = Counter()
        self._left = requests
        self._authorities = authorities

    def next_authority(self) -> str | None:
        if self._left == 0:
            return None
        self._left -= 1
        return self._authorities[self._left % len(self._authorities)]

    def answered(self, authority: str, status: int, body: bytes) -> None:
        if status != 200:
            self.seen[f"{authority} status {status}"] += 1
            return
        answer = json.loads(body)
        identities = _URI.findall(answer["xfcc"])
        self.seen[f"{answer['service']} {' and '.join(identities)}"] += 1


class Multiplexed(asyncio.Protocol):
    """One HTTP/2 connection that keeps `streams` requests open until the tally has none left."""

    def __init__(self, tally: Tally, streams: int, ended: "asyncio.Future[None]") -> None:
        self._tally, self._streams, self._ended = tally, streams, ended
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self._open: dict[int, tuple[str, int, bytes]] = {}
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._h2.initiate_connection()
        self._go_on()

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            self._on_event(event)
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        for authority, _, _ in self._open.values():
            self._tally.answered(authority, 0, b"")
        if not self._ended.done():
            self._ended.set_result(None)

    def _on_event(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                authority, _, body = self._open[event.stream_id]
                self._open[event.stream_id] = (authority, _status(event), body)
            case h2.events.DataReceived():
                authority, status, body = self._open[event.stream_id]
                self._open[event.stream_id] = (authority, status, body + event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self._tally.answered(*self._open.pop(event.stream_id))
            case h2.events.StreamReset():
                self._tally.answered(self._open.pop(event.stream_id)[0], -1, b"")
            case _:
                pass

    def _go_on(self) -> None:
        assert self._transport is not None
        while len(self._open) < self._streams and (authority := self._tally.next_authority()) is not None:
            stream = self._h2.get_next_available_stream_id()
            headers = [(":method", "GET"), (":scheme", "http"), (":authority", authority), (":path", "/")]
            self._h2.send_headers(stream, headers, end_stream=True)
            self._open[stream] = (authority, 0, b"")
        if data := self._h2.data_to_send():
            self._transport.write(data)
        if not self._open:
            self._transport.close()


def _status(event: h2.events.ResponseReceived) -> int:
    return int(next(value for name, value in event.headers or () if str(name) == ":status"))


async def multiplexed(tally: Tally, host: str, port: int, streams: int) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    await loop.create_connection(lambda: Multiplexed(tally, streams, ended), host, port)
    await ended


async def kept_alive(tally: Tally, host: str, port: int, streams: int) -> None:
    del streams
    reader, writer = await asyncio.open_connection(host, port)
    while (authority := tally.next_authority()) is not None:
        writer.write(f"GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        tally.answered(authority, int(head.split(" ")[1]), await _body(reader, head))
    writer.close()


async def _body(reader: asyncio.StreamReader, head: str) -> bytes:
    if length := re.findall(r"content-length: (\d+)", head):
        return await reader.readexactly(int(length[0]))
    body = b""
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return body


async def main(how: str, target: str, connections: str, streams: str, requests: str, *authorities: str) -> None:
    host, _, port = target.rpartition(":")
    tally = Tally(int(requests), list(authorities))
    drive = {"h2": multiplexed, "h1": kept_alive}[how]
    async with asyncio.TaskGroup() as group:
        for _ in range(int(connections)):
            group.create_task(drive(tally, host, int(port), int(streams)))
    sys.stdout.write(json.dumps(tally.seen))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
