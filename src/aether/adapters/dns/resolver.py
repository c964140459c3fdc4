"""What both servers of a node's DNS share: the directory that is served now, and the servers behind it."""

import msgspec

from aether.adapters.dns.upstream import Upstreams
from aether.model.ports import Transport
from aether.wire.dns.answer import Forward, answer
from aether.wire.dns.message import Rcode, format_failure
from aether.wire.dns.zone import Directory


class DnsStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts since the start. `failed`: forwarded, and no server replied. `dropped`: no reply was due."""

    answered: int
    forwarded: int
    failed: int
    dropped: int


class Resolver:
    """Answers messages; `directory` may be replaced at any time."""

    def __init__(self, upstreams: Upstreams) -> None:
        self.directory: Directory | None = None
        self._upstreams = upstreams
        self._answered = self._forwarded = self._failed = self._dropped = 0

    def answer(self, data: bytes, transport: Transport) -> bytes | Forward | None:
        """The reply; a query to `forward`; None when there is nothing to send."""
        reply = answer(data, self.directory, transport=transport)
        match reply:
            case bytes():
                self._answered += 1
            case Forward():
                self._forwarded += 1
            case None:
                self._dropped += 1
        return reply

    async def forward(self, forward: Forward, data: bytes, transport: Transport) -> bytes:
        """The reply of another server, else a failure."""
        reply = await self._upstreams.ask(forward.query, data, transport)
        if reply is not None:
            return reply
        self._failed += 1
        return format_failure(forward.query, Rcode.SERVFAIL)

    def statistics(self) -> DnsStatistics:
        return DnsStatistics(
            answered=self._answered, forwarded=self._forwarded, failed=self._failed, dropped=self._dropped
        )
