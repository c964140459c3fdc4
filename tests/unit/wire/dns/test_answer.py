import dnslib
import pytest
from tests.support.dns import DOMAINS, addresses, ask, is_forwarded, query, rcode, with_edns, zone

from aether.model.ports import Transport
from aether.wire.dns import Directory, Zone, answer
from aether.wire.dns.answer import TTL_S

PODS = tuple(f"10.244.1.{number}" for number in range(1, 201))
DIRECTORY = Directory(
    zone(
        "shop.aether.internal",
        "svc.cluster.local",
        "shop.svc.cluster.local",
        "cart.shop.aether.internal 10.96.0.5 fd96::5",
        "cart.shop.svc.cluster.local 10.96.0.5 fd96::5",
        "cart.shop.svc 10.96.0.5 fd96::5",
        "cart.shop 10.96.0.5 fd96::5",
        "only4.shop.aether.internal 10.96.0.6",
        "db.shop.aether.internal " + " ".join(PODS),
    )
)


@pytest.mark.parametrize("name", ["cart.shop.aether.internal", "cart.shop.svc.cluster.local", "cart.shop.svc"])
@pytest.mark.parametrize(("record_type", "address"), [("A", "10.96.0.5"), ("AAAA", "fd96::5")])
def test_a_name_has_its_addresses_for_five_seconds(name: str, record_type: str, address: str) -> None:
    reply = ask(DIRECTORY, query(name, record_type))
    assert rcode(reply) == "NOERROR"
    assert addresses(reply) == [address]
    assert [record.ttl for record in reply.rr] == [TTL_S]
    assert (reply.header.qr, reply.header.aa, reply.header.ra, reply.header.rd, reply.header.tc) == (1, 1, 1, 1, 0)


def test_case_is_ignored_and_given_back() -> None:
    reply = ask(DIRECTORY, query("CaRt.Shop.AETHER.internal."))
    assert str(reply.q.qname) == str(reply.rr[0].rname) == "CaRt.Shop.AETHER.internal."
    assert addresses(reply) == ["10.96.0.5"]


@pytest.mark.parametrize(
    ("name", "record_type", "code"),
    [
        ("only4.shop.aether.internal", "AAAA", "NOERROR"),
        ("cart.shop.aether.internal", "MX", "NOERROR"),
        ("cart.shop.aether.internal", "SOA", "NOERROR"),
        ("shop.aether.internal", "A", "NOERROR"),
        ("aether.internal", "A", "NOERROR"),
        ("nobody.shop.aether.internal", "A", "NXDOMAIN"),
        ("nobody.shop.aether.internal", "ANY", "NXDOMAIN"),
        ("x.cart.shop.aether.internal", "A", "NXDOMAIN"),
        ("echo.ns.aether.internal.shop.svc.cluster.local", "A", "NXDOMAIN"),
        ("echo.ns.aether.internal.svc.cluster.local", "AAAA", "NXDOMAIN"),
        ("echo.ns.aether.internal.cluster.local", "A", "NXDOMAIN"),
        ("_http._tcp.cart.shop.svc.cluster.local", "SRV", "NXDOMAIN"),
    ],
)
def test_there_is_none_comes_with_the_authority_for_it(name: str, record_type: str, code: str) -> None:
    reply = ask(DIRECTORY, query(name, record_type))
    assert rcode(reply) == code
    assert reply.header.aa == 1
    assert not reply.rr
    (authority,) = reply.auth
    domain = next(domain for domain in DOMAINS if name.endswith(domain))
    assert authority.rname == dnslib.DNSLabel(domain)
    assert authority.ttl == authority.rdata.times[4] == TTL_S
    assert str(authority.rdata.mname) == f"ns.dns.{domain}."
    assert str(authority.rdata.rname) == f"hostmaster.{domain}."


def test_no_data_for_a_name_outside_the_domains_is_of_the_name_itself() -> None:
    reply = ask(DIRECTORY, query("cart.shop", "MX"))
    assert rcode(reply) == "NOERROR"
    assert [str(record.rname) for record in reply.auth] == ["cart.shop."]


def test_a_domain_has_a_start_of_authority() -> None:
    reply = ask(DIRECTORY, query("aether.internal", "SOA"))
    assert [str(record.rdata.mname) for record in reply.rr] == ["ns.dns.aether.internal."]


@pytest.mark.parametrize("name", ["example.com", ".", "internal", "xaether.internal", "other.shop.svc", "cart"])
@pytest.mark.parametrize("record_type", ["A", "ANY", "PTR"])
def test_every_other_name_is_for_other_servers(name: str, record_type: str) -> None:
    assert is_forwarded(DIRECTORY, query(name, record_type))


def test_an_address_of_the_mesh_is_named_and_others_are_for_other_servers() -> None:
    reply = ask(DIRECTORY, query("5.0.96.10.in-addr.arpa", "PTR"))
    assert [str(record.rdata) for record in reply.rr] == ["cart.shop.svc.cluster.local."]
    assert is_forwarded(DIRECTORY, query("9.9.9.9.in-addr.arpa", "PTR"))
    assert is_forwarded(DIRECTORY, query("5.0.96.10.in-addr.arpa", "A"))


def test_any_gets_one_short_record() -> None:
    reply = ask(DIRECTORY, query("db.shop.aether.internal", "ANY"))
    assert [dnslib.QTYPE[record.rtype] for record in reply.rr] == ["HINFO"]


@pytest.mark.parametrize(
    ("record_type", "record_class"),
    [(1, 3), (16, 3), (1, 255), (252, 1), (251, 1), (250, 1), (249, 1), (41, 1), (0, 1)],
)
def test_other_classes_and_types_of_no_record_are_refused(record_type: int, record_class: int) -> None:
    record = query("cart.shop.aether.internal")
    record.questions[0].qtype, record.questions[0].qclass = record_type, record_class
    assert rcode(ask(DIRECTORY, record)) == "REFUSED"


def test_without_a_directory_nothing_is_denied() -> None:
    assert rcode(ask(None, query("cart.shop.aether.internal"))) == "SERVFAIL"
    assert rcode(ask(None, query("example.com"))) == "SERVFAIL"


def test_other_operations_are_not_implemented() -> None:
    record = query("cart.shop.aether.internal")
    for opcode in (1, 2, 4, 5, 15):
        record.header.opcode = opcode
        reply = ask(DIRECTORY, record)
        assert (rcode(reply), reply.header.opcode, reply.header.id) == ("NOTIMP", opcode, 7)


def test_a_later_edns_is_refused_by_its_own_code() -> None:
    reply = ask(DIRECTORY, with_edns(query("cart.shop.aether.internal"), 1232, version=1))
    assert not reply.rr
    assert [(record.edns_rcode, record.edns_ver) for record in reply.ar] == [(1, 0)]


def test_replies_are_never_answered() -> None:
    for record in (query("cart.shop.aether.internal"), query("example.com")):
        record.header.qr = 1
        assert answer(bytes(record.pack()), DIRECTORY, transport=Transport.UDP) is None
    assert answer(b"\x00" * 11, DIRECTORY, transport=Transport.UDP) is None


def test_what_is_malformed_gets_its_header_back_and_no_more() -> None:
    data = bytes(query("cart.shop.aether.internal").pack())[:-3]
    reply = answer(data, DIRECTORY, transport=Transport.UDP)
    assert reply == bytes.fromhex("0007 8181 0000 0000 0000 0000")


@pytest.mark.parametrize(("payload_bytes", "fitting"), [(None, 29), (512, 28), (1232, 73), (4096, 73)])
def test_over_udp_what_does_not_fit_is_cut_and_said_to_be(payload_bytes: int | None, fitting: int) -> None:
    record = query("db.shop.aether.internal")
    if payload_bytes is not None:
        record = with_edns(record, payload_bytes)
    reply = ask(DIRECTORY, record)
    assert reply.header.tc == 1
    assert len(reply.rr) == fitting
    assert len(reply.pack()) <= max(payload_bytes or 0, 512)


def test_over_tcp_the_answer_is_whole() -> None:
    reply = ask(DIRECTORY, query("db.shop.aether.internal"), Transport.TCP)
    assert reply.header.tc == 0
    assert sorted(addresses(reply)) == sorted(PODS)


def test_over_tcp_too_many_addresses_are_cut_to_one_message() -> None:
    many = [f"10.{high}.{low}.1" for high in range(20) for low in range(250)]
    directory = Directory(zone("db.shop.aether.internal " + " ".join(many)))
    data = answer(bytes(query("db.shop.aether.internal").pack()), directory, transport=Transport.TCP)
    assert isinstance(data, bytes)
    assert 65_000 < len(data) <= 65_535
    reply = dnslib.DNSRecord.parse(data)
    assert reply.header.tc == 0
    assert set(addresses(reply)) < set(many)


def test_every_query_begins_with_another_address() -> None:
    directory = Directory(zone("db.shop.aether.internal 10.244.1.1 10.244.1.2 10.244.1.3"))
    replies = [ask(directory, query("db.shop.aether.internal", message_id=number)) for number in range(3)]
    assert {addresses(reply)[0] for reply in replies} == {"10.244.1.1", "10.244.1.2", "10.244.1.3"}
    assert {tuple(sorted(addresses(reply))) for reply in replies} == {("10.244.1.1", "10.244.1.2", "10.244.1.3")}


def test_an_empty_zone_forwards_everything() -> None:
    assert is_forwarded(Directory(Zone(domains=(), names=())), query("cart.shop.aether.internal"))
