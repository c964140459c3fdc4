"""HTTP/2 with prior knowledge for the echo workload, gRPC included."""

import asyncio
import socket
import struct
from typing import Any, Protocol

import h2.config
import h2.connection
import h2.events
import h2.exceptions


class Answers(Protocol):
    """Who answers a request."""

    def answer(
        self, port: int, method: str, path: str, headers: dict[str, str], body_bytes: int
    ) -> tuple[int, bytes]: ...

    def opened(self, port: int) -> None: ...


def delay_s(path: str) -> float:
    """Seconds that ``/slow/<ms>`` asks for, else 0."""
    parts = path.split("?", maxsplit=1)[0].split("/")
    return int(parts[2]) / 1000 if len(parts) > 2 and parts[1] == "slow" else 0.0


class H2Server:
    def __init__(self, answers: Answers, port: int) -> None:
        self._answers, self._port = answers, port

    async def start(self, tcp_socket: socket.socket) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: _Connection(self._answers, self._port), sock=tcp_socket)


class _Connection(asyncio.Protocol):
    """One connection: requests are answered when their body has ended."""

    def __init__(self, answers: Answers, port: int) -> None:
        self._answers, self._port = answers, port
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self._transport: Any = None
        self._requests: dict[int, tuple[dict[str, str], int]] = {}
        self._unsent: dict[int, tuple[bytes, list[tuple[str, str]] | None]] = {}

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._answers.opened(self._port)
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            self._flush()
            self._transport.close()
            return
        for event in events:
            self._on_event(event)
        self._flush()

    def _on_event(self, event: Any) -> None:
        match event:
            case h2.events.RequestReceived():
                self._requests[event.stream_id] = ({str(name): str(value) for name, value in event.headers}, 0)
            case h2.events.DataReceived():
                headers, size = self._requests[event.stream_id]
                self._requests[event.stream_id] = (headers, size + len(event.data))
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                self._answer_later(event.stream_id)
            case h2.events.StreamReset():
                self._requests.pop(event.stream_id, None)
                self._unsent.pop(event.stream_id, None)
            case h2.events.WindowUpdated():
                for stream_id in list(self._unsent):
                    self._send_body(stream_id)
            case h2.events.ConnectionTerminated():
                self._transport.close()
            case _:
                pass

    def _answer_later(self, stream_id: int) -> None:
        path = self._requests[stream_id][0].get(":path", "/")
        if wait_s := delay_s(path):
            asyncio.get_running_loop().call_later(wait_s, self._answer, stream_id)
        else:
            self._answer(stream_id)

    def _answer(self, stream_id: int) -> None:
        if (request := self._requests.pop(stream_id, None)) is None:
            return
        headers, size = request
        is_grpc = headers.get("content-type", "").startswith("application/grpc")
        method, path = headers.get(":method", ""), headers.get(":path", "/")
        status, body = self._answers.answer(self._port, method, path, headers, size)
        kind = "application/grpc" if is_grpc else "application/json"
        self._h2.send_headers(stream_id, [(":status", "200" if is_grpc else str(status)), ("content-type", kind)])
        if is_grpc:
            body = struct.pack(">BI", 0, len(body)) + body
        self._unsent[stream_id] = (body, [("grpc-status", "0")] if is_grpc else None)
        self._send_body(stream_id)
        self._flush()

    def _send_body(self, stream_id: int) -> None:
        body, trailers = self._unsent[stream_id]
        while body:
            room = min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size)
            if room <= 0:
                self._unsent[stream_id] = (body, trailers)
                return
            self._h2.send_data(stream_id, body[:room])
            body = body[room:]
        if trailers:
            self._h2.send_headers(stream_id, trailers, end_stream=True)
        else:
            self._h2.end_stream(stream_id)
        del self._unsent[stream_id]

    def _flush(self) -> None:
        if self._transport is not None and (data := self._h2.data_to_send()):
            self._transport.write(data)
