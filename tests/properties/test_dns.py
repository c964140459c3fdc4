"""Mesh DNS: any bytes get a proper answer, none, or are for other servers; and answers hold what the zone holds."""

import dnslib
from hypothesis import given
from hypothesis import strategies as st
from tests.support.dns import DOMAINS, addresses, query, rcode, with_edns

from aether.model.ports import Transport
from aether.wire.dns import Directory, Forward, Host, Zone, answer, format_failure, is_reply_to
from aether.wire.dns.message import Rcode, parse_query, with_id

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.builds(
    lambda labels, domain: ".".join((*labels, domain)), st.lists(LABELS, max_size=4), st.sampled_from(DOMAINS)
)
IPV4 = st.ip_addresses(v=4).map(str)
IPV6 = st.ip_addresses(v=6).map(str)
HOSTS = st.builds(
    Host,
    name=NAMES,
    ipv4=st.lists(IPV4, max_size=60, unique=True).map(tuple),
    ipv6=st.lists(IPV6, max_size=60, unique=True).map(tuple),
)
ZONES = st.builds(
    Zone, domains=st.just(DOMAINS), names=st.lists(HOSTS, max_size=6, unique_by=lambda host: host.name).map(tuple)
)
TRANSPORTS = st.sampled_from(Transport)
SHOP = Directory(
    Zone(domains=DOMAINS, names=(Host(name="cart.shop.aether.internal", ipv4=("10.96.0.5",), ipv6=("fd96::5",)),))
)
SAMPLES = [
    bytes(with_edns(query(name, record_type), 1232).pack())
    for name in ("cart.shop.aether.internal", "nobody.aether.internal", "example.com", "5.0.96.10.in-addr.arpa")
    for record_type in ("A", "AAAA", "ANY", "PTR")
]


@st.composite
def broken_queries(draw: st.DrawFn) -> bytes:
    """A query with some bytes changed, cut or added: it is still a query more often than not."""
    data = bytearray(draw(st.sampled_from(SAMPLES)))
    for at, value in draw(st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), max_size=4)):
        data[at] = value
    return bytes(data[: draw(st.integers(0, len(data)))]) + draw(st.binary(max_size=8))


def is_text(name: bytes) -> bool:
    """Whether a name is one that dnslib reads: in DNS any byte may stand in a label."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(data=st.one_of(st.binary(max_size=80), broken_queries()), transport=TRANSPORTS)
def test_any_bytes_are_answered_forwarded_or_dropped(data: bytes, transport: Transport) -> None:
    reply = answer(data, SHOP, transport=transport)
    if isinstance(reply, Forward):
        reply = format_failure(reply.query, Rcode.SERVFAIL)
    if reply is None:
        assert len(data) < 12 or data[2] & 0x80
        return
    header = dnslib.DNSHeader.parse(dnslib.DNSBuffer(reply))
    assert header.id == int.from_bytes(data[:2], "big")
    assert header.qr == 1
    if not header.q or is_text(parse_query(data).name):
        dnslib.DNSRecord.parse(reply)
    assert answer(reply, SHOP, transport=transport) is None, "a reply is not answered"


@given(data=st.one_of(st.binary(max_size=80), broken_queries()))
def test_an_answer_is_hardly_longer_than_its_question(data: bytes) -> None:
    """Nobody can have a small zone's server flood somebody else: two addresses, or one authority."""
    reply = answer(data, SHOP, transport=Transport.UDP)
    assert not isinstance(reply, bytes) or len(reply) <= len(data) + 80


@given(data=st.one_of(st.binary(max_size=80), broken_queries()), message_id=st.integers(0, 65_535))
def test_any_bytes_are_a_reply_or_not(data: bytes, message_id: int) -> None:
    asked = parse_query(SAMPLES[0])
    assert is_reply_to(asked, message_id, with_id(data, message_id)) in (True, False)


@given(zone=ZONES, others=st.lists(NAMES, max_size=3), transport=TRANSPORTS, message_id=st.integers(0, 65_535))
def test_an_answer_holds_what_the_zone_holds(
    zone: Zone, others: list[str], transport: Transport, message_id: int
) -> None:
    directory = Directory(zone)
    hosts = {host.name: host for host in zone.names}
    for name in (*hosts, *others):
        for record_type in ("A", "AAAA"):
            data = answer(
                bytes(query(name.upper(), record_type, message_id=message_id).pack()), directory, transport=transport
            )
            assert isinstance(data, bytes)
            reply = dnslib.DNSRecord.parse(data)
            known = hosts.get(name, Host(name=name))
            wanted = known.ipv4 if record_type == "A" else known.ipv6
            assert rcode(reply) == ("NOERROR" if name in (*hosts, *DOMAINS) else "NXDOMAIN")
            assert bool(reply.auth) == (not wanted)
            assert set(addresses(reply)) <= set(wanted)
            assert reply.header.tc == (len(reply.rr) < len(wanted))
            assert transport is Transport.UDP or not reply.header.tc
            assert len(data) <= (512 if transport is Transport.UDP else 65_535)
