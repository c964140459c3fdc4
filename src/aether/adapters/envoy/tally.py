"""What an ADS server has said and heard, in numbers."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from aether.wire.xds.message import DeltaRequest, SendResponse


class TypeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one resource type since the server started; `held` is what the newest Envoy has acknowledged."""

    type_url: str
    messages: int = 0
    resources: int = 0
    removals: int = 0
    acked: int = 0
    nacked: int = 0
    held: int = 0


class AdsStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """`streams` are open now, `streams_opened` ever were. Types are sorted."""

    streams: int
    streams_opened: int
    types: tuple[TypeStatistics, ...] = ()

    def of(self, type_url: str) -> TypeStatistics:
        return next((one for one in self.types if one.type_url == type_url), TypeStatistics(type_url=type_url))


class Tally:
    """Counters by type URL."""

    def __init__(self) -> None:
        self.streams_opened = 0
        self._messages: Counter[str] = Counter()
        self._resources: Counter[str] = Counter()
        self._removals: Counter[str] = Counter()
        self._acked: Counter[str] = Counter()
        self._nacked: Counter[str] = Counter()

    def count_response(self, response: SendResponse) -> None:
        self._messages[response.type_url] += 1
        self._resources[response.type_url] += len(response.resources)
        self._removals[response.type_url] += len(response.removed)

    def count_request(self, request: DeltaRequest) -> None:
        if request.nonce:
            counts = self._acked if request.error is None else self._nacked
            counts[request.type_url] += 1

    def statistics(self, *, streams: int, held: Mapping[str, int]) -> AdsStatistics:
        return AdsStatistics(
            streams=streams,
            streams_opened=self.streams_opened,
            types=tuple(
                TypeStatistics(
                    type_url=url,
                    messages=self._messages[url],
                    resources=self._resources[url],
                    removals=self._removals[url],
                    acked=self._acked[url],
                    nacked=self._nacked[url],
                    held=held.get(url, 0),
                )
                for url in sorted({*self._messages, *held})
            ),
        )
