import dnslib
import pytest
from tests.support.dns import query, with_edns

from aether.wire.dns import Query, Rcode, format_failure, is_reply_to
from aether.wire.dns.message import (
    Edns,
    Malformed,
    is_query,
    opcode_of,
    parse_query,
    udp_limit_bytes,
    with_id,
)

PLAIN = bytes(query("Cart.Shop", "AAAA", message_id=0x1234).pack())
HEADER = bytes.fromhex("1234 0100 0001 0000 0000 0000")
NAME = b"\x04cart\x04shop\x00"
QUESTION = NAME + b"\x00\x01\x00\x01"


def header(questions: int = 1, answers: int = 0, authorities: int = 0, additional: int = 0) -> bytes:
    counts = (questions, answers, authorities, additional)
    return HEADER[:4] + b"".join(count.to_bytes(2, "big") for count in counts)


def test_a_question_is_read_and_its_name_lowered() -> None:
    assert parse_query(PLAIN) == Query(
        message_id=0x1234,
        flags=0x0100,
        question=b"\x04Cart\x04Shop\x00\x00\x1c\x00\x01",
        name=NAME,
        record_type=28,
        record_class=1,
        edns=None,
    )


def test_edns_is_read_wherever_it_stands() -> None:
    data = with_edns(query("cart.shop"), 1400, flags="do").pack()
    assert parse_query(bytes(data)).edns == Edns(1400, 0, is_dnssec_ok=True)
    key = b"\x03key\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x02hi"
    pointing = b"\xc0\x0c\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x00"
    opt = b"\x00\x00\x29\x10\x00\x00\x03\x00\x00\x00\x04abcd"
    for records in ((key, opt), (opt, key), (pointing, opt, pointing)):
        message = header(additional=len(records)) + QUESTION + b"".join(records)
        assert parse_query(message).edns == Edns(4096, 3, is_dnssec_ok=False)


@pytest.mark.parametrize(
    ("payload_bytes", "limit_bytes"), [(0, 512), (511, 512), (513, 513), (1232, 1232), (4096, 1232), (65_535, 1232)]
)
def test_a_datagram_is_as_long_as_the_client_takes_and_never_in_pieces(payload_bytes: int, limit_bytes: int) -> None:
    assert udp_limit_bytes(parse_query(bytes(with_edns(query("a"), payload_bytes).pack()))) == limit_bytes
    assert udp_limit_bytes(parse_query(bytes(query("a").pack()))) == 512


RECORD = b"\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"


@pytest.mark.parametrize(
    "data",
    [
        header(questions=0) + QUESTION,
        header(questions=2) + QUESTION + QUESTION,
        header(answers=1) + QUESTION + RECORD,
        header(authorities=1) + QUESTION + RECORD,
        header(additional=5) + QUESTION + RECORD * 5,
        header(),
        header() + NAME[:-1],
        header() + NAME,
        header() + QUESTION[:-1],
        header() + b"\x3f" + b"x" * 62,
        header() + b"\xc0\x0c\x00\x01\x00\x01",
        header() + b"\x40" + b"x" * 64 + b"\x00\x00\x01\x00\x01",
        header() + (b"\x3f" + b"x" * 63) * 4 + b"\x00\x00\x01\x00\x01",
        header(additional=1) + QUESTION,
        header(additional=1) + QUESTION + RECORD[:-1],
        header(additional=1) + QUESTION + RECORD[:-1] + b"\x01",
        header(additional=2) + QUESTION + RECORD * 2,
        header(additional=1) + QUESTION + b"\x01x" + RECORD,
        header(additional=1) + QUESTION + b"\x40x" + RECORD,
        header(additional=1) + QUESTION + b"\x01x" * 200 + RECORD,
        header(additional=1) + QUESTION + b"\x04x",
    ],
)
def test_what_is_no_query_is_malformed(data: bytes) -> None:
    with pytest.raises(Malformed) as raised:
        parse_query(data)
    assert raised.value.code == "dns-malformed"


def test_the_longest_name_is_read() -> None:
    name = (b"\x3f" + b"x" * 63) * 3 + b"\x3d" + b"x" * 61 + b"\x00"
    assert len(name) == 255
    assert parse_query(header() + name + b"\x00\x01\x00\x01").name == name


@pytest.mark.parametrize("data", [b"", PLAIN[:11], PLAIN[:2] + b"\x81" + PLAIN[3:]])
def test_replies_and_pieces_are_no_queries(data: bytes) -> None:
    assert not is_query(data)


def test_the_opcode_is_read() -> None:
    assert is_query(PLAIN)
    assert [opcode_of(PLAIN[:2] + bytes([high]) + PLAIN[3:]) for high in (0x01, 0x09, 0x28, 0x7F)] == [0, 1, 5, 15]


def test_a_failure_echoes_question_id_and_edns() -> None:
    asked = with_edns(query("Cart.Shop"), 1400, flags="do")
    failure = dnslib.DNSRecord.parse(format_failure(parse_query(bytes(asked.pack())), Rcode.BADVERS))
    assert failure.header.id == asked.header.id
    assert failure.header.rcode == 0
    assert str(failure.q.qname) == "Cart.Shop."
    (edns,) = failure.ar
    assert edns.edns_len == 1232
    assert (edns.edns_rcode, edns.edns_ver, edns.edns_do) == (1, 0, 1)


def reply(record: dnslib.DNSRecord, *, message_id: int = 9) -> bytes:
    answered = record.reply()
    answered.header.id = message_id
    return bytes(answered.pack())


def test_a_reply_is_recognised_by_id_and_question() -> None:
    asked = parse_query(PLAIN)
    right = reply(query("CART.shop", "AAAA"))
    assert is_reply_to(asked, 9, right)
    assert not is_reply_to(asked, 8, right)
    assert not is_reply_to(asked, 9, reply(query("cart.shop", "A")))
    assert not is_reply_to(asked, 9, reply(query("cart.shop.x", "AAAA")))
    assert not is_reply_to(asked, 9, with_id(PLAIN, 9)), "a query is no reply"
    assert not is_reply_to(asked, 9, right[:11])
    assert not is_reply_to(asked, 9, right[:20])


def test_a_failure_may_leave_the_question_out_and_an_answer_may_not() -> None:
    asked = parse_query(PLAIN)
    assert is_reply_to(asked, 9, bytes.fromhex("0009 8001 0000 0000 0000 0000"))
    assert not is_reply_to(asked, 9, bytes.fromhex("0009 8000 0000 0000 0000 0000"))
