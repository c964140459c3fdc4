"""A bare delta ADS client: what tests say for Envoy, byte for byte."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
from envoy.service.discovery.v3 import discovery_pb2

METHOD = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
ANSWER_LIMIT_S = 5.0


class AdsClient:
    def __init__(self, call: Any) -> None:
        self._call = call

    async def say(self, type_url: str, *subscribe: str, nonce: str = "", error: str = "", **held: str) -> None:
        """A request; `held` are initial versions."""
        request = discovery_pb2.DeltaDiscoveryRequest(
            type_url=type_url,
            resource_names_subscribe=subscribe,
            initial_resource_versions=held,
            response_nonce=nonce,
        )
        request.node.id = "test"
        if error:
            request.error_detail.message = error
        await self._call.write(request.SerializeToString())

    async def say_bytes(self, payload: bytes) -> None:
        await self._call.write(payload)

    async def hear(self, *, limit_s: float | None = ANSWER_LIMIT_S) -> discovery_pb2.DeltaDiscoveryResponse:
        """The next response; None waits for ever."""
        async with asyncio.timeout(limit_s):
            return discovery_pb2.DeltaDiscoveryResponse.FromString(await self._call.read())

    async def hear_and_ack(self) -> discovery_pb2.DeltaDiscoveryResponse:
        response = await self.hear()
        await self.say(response.type_url, nonce=response.nonce)
        return response

    async def status(self) -> grpc.StatusCode:
        """How the server ended the stream."""
        async with asyncio.timeout(ANSWER_LIMIT_S):
            code: grpc.StatusCode = await self._call.code()
            return code


@contextlib.asynccontextmanager
async def ads_client(socket: Path) -> AsyncIterator[AdsClient]:
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        call = channel.stream_stream(METHOD)()
        try:
            yield AdsClient(call)
        finally:
            call.cancel()


def names_in(response: discovery_pb2.DeltaDiscoveryResponse) -> list[str]:
    return list(_names(response))


def _names(response: discovery_pb2.DeltaDiscoveryResponse) -> Iterator[str]:
    for resource in response.resources:
        yield resource.name
    for name in response.removed_resources:
        yield f"-{name}"
