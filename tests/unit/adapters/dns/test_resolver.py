import dnslib
import pytest
from tests.support.dns import query, rcode, zone

from aether.adapters.dns import Resolver, Upstreams
from aether.model.ports import Transport
from aether.wire.dns import Directory, Forward

NAME = bytes(query("cart.shop.aether.internal").pack())
OTHER = bytes(query("example.com").pack())


@pytest.mark.parametrize("transport", Transport)
async def test_without_other_servers_their_names_fail_at_once_and_everything_is_counted(transport: Transport) -> None:
    resolver = Resolver(Upstreams(()))
    resolver.directory = Directory(zone("cart.shop.aether.internal 10.96.0.5"))
    assert isinstance(resolver.answer(NAME, transport), bytes)
    assert resolver.answer(b"", transport) is None
    forward = resolver.answer(OTHER, transport)
    assert isinstance(forward, Forward)
    reply = dnslib.DNSRecord.parse(await resolver.forward(forward, OTHER, transport))
    assert (rcode(reply), reply.header.id) == ("SERVFAIL", 7)
    statistics = resolver.statistics()
    assert (statistics.answered, statistics.dropped, statistics.forwarded, statistics.failed) == (1, 1, 1, 1)


def test_before_the_first_zone_names_fail() -> None:
    reply = Resolver(Upstreams(())).answer(NAME, Transport.UDP)
    assert isinstance(reply, bytes)
    assert rcode(dnslib.DNSRecord.parse(reply)) == "SERVFAIL"
