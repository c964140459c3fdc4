"""DNS messages: queries read, replies written and recognised (RFC 1035 section 4, RFC 6891 for EDNS).

Owns: what stands where in a message. Leaves to others: what is answered (`wire.dns.answer`).

Rule: nothing here answers a message that is itself a reply, so two servers can never keep each other busy.
"""

import enum
import struct

import msgspec

from aether.errors import RemoteError
from aether.wire.dns.zone import LABEL_LIMIT_BYTES, NAME_LIMIT_BYTES

HEADER_BYTES = 12  # RFC 1035, section 4.1.1: id, flags, four counts
PLAIN_UDP_LIMIT_BYTES = 512  # RFC 1035, section 4.2.1: without EDNS
EDNS_UDP_LIMIT_BYTES = 1232
"""The most that is sent over UDP, whatever a client offers: no path splits it (minimum IPv6 MTU without headers)."""
TCP_LIMIT_BYTES = 65_535  # RFC 1035, section 4.2.2: the length prefix has two bytes

_QR = 0x80  # in the first flag byte: this is a reply
_OPCODE = 0x78
_AA = 0x04
_TC = 0x02
_RD = 0x01
_RA = 0x80  # in the second flag byte
_CD = 0x10
_RCODE = 0x0F

_HEADER = struct.Struct("!HBBHHHH")
_RECORD = struct.Struct("!HHIH")  # type, class, TTL, length of the data
_QUESTION_END = struct.Struct("!HH")
_OPT = 41  # RFC 6891, section 6.1.1
_DO = 0x8000  # RFC 3225, section 3
_POINTER = 0xC0  # RFC 1035, section 4.1.4
_ADDITIONAL_LIMIT = 4
"""Records after the question: EDNS and a signature are all that a query has a use for."""


class Rcode(enum.IntEnum):
    """RFC 1035, section 4.1.1; BADVERS: RFC 6891, section 9."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


class Malformed(RemoteError):
    """A message that is no query."""

    code = "dns-malformed"


class Edns(msgspec.Struct, frozen=True, gc=False):
    """What the client says of itself: the largest datagram it takes, its version, and whether it wants signatures."""

    payload_bytes: int
    version: int
    is_dnssec_ok: bool


class Query(msgspec.Struct, frozen=True, gc=False):
    """A query with one question. `question` is its bytes as asked, `name` the name in it in lower case."""

    message_id: int
    flags: int
    question: bytes
    name: bytes
    record_type: int
    record_class: int
    edns: Edns | None


class Reply(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is said to a query besides its question. `answers` and `authority` are records as in a message."""

    rcode: Rcode = Rcode.NOERROR
    answers: tuple[bytes, ...] = ()
    authority: tuple[bytes, ...] = ()
    is_authoritative: bool = False
    is_truncated: bool = False


def is_query(data: bytes) -> bool:
    """Whether a message can be answered at all: replies and pieces of a header cannot."""
    return len(data) >= HEADER_BYTES and not data[2] & _QR


def opcode_of(data: bytes) -> int:
    return (data[2] & _OPCODE) >> 3


def parse_query(data: bytes) -> Query:
    """Read a query (of `is_query`, opcode 0). Bytes behind its last record are ignored.

    Raises:
        Malformed: not exactly one question, a broken name or record, or records that a query does not have.
    """
    message_id, high, low, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    if questions != 1 or answers or authorities or additional > _ADDITIONAL_LIMIT:
        raise Malformed(f"{questions} questions and {answers + authorities + additional} records")
    end = _find_name_end(data, HEADER_BYTES)
    if end + _QUESTION_END.size > len(data):
        raise Malformed("the question is cut off")
    record_type, record_class = _QUESTION_END.unpack_from(data, end)
    return Query(
        message_id=message_id,
        flags=high << 8 | low,
        question=data[HEADER_BYTES : end + _QUESTION_END.size],
        name=data[HEADER_BYTES:end].lower(),
        record_type=record_type,
        record_class=record_class,
        edns=_parse_edns(data, end + _QUESTION_END.size, additional) if additional else None,
    )


def udp_limit_bytes(query: Query) -> int:
    """How long a datagram for the client may be."""
    if query.edns is None:
        return PLAIN_UDP_LIMIT_BYTES
    return min(max(query.edns.payload_bytes, PLAIN_UDP_LIMIT_BYTES), EDNS_UDP_LIMIT_BYTES)


def overhead_bytes(query: Query) -> int:
    """The length of a reply without answers and authority."""
    edns = 0 if query.edns is None else 1 + _RECORD.size
    return HEADER_BYTES + len(query.question) + edns


def format_reply(query: Query, reply: Reply) -> bytes:
    """A reply that echoes the question as it was spelled."""
    high = _QR | query.flags >> 8 & _RD
    high |= _AA if reply.is_authoritative else 0
    high |= _TC if reply.is_truncated else 0
    low = _RA | query.flags & _CD | reply.rcode & _RCODE
    edns = b"" if query.edns is None else _format_edns(query.edns, reply.rcode)
    header = _HEADER.pack(query.message_id, high, low, 1, len(reply.answers), len(reply.authority), 1 if edns else 0)
    return b"".join((header, query.question, *reply.answers, *reply.authority, edns))


def format_failure(query: Query, rcode: Rcode) -> bytes:
    """A reply with nothing but its code."""
    return format_reply(query, Reply(rcode=rcode))


def format_bare_failure(data: bytes, rcode: Rcode) -> bytes:
    """A header alone: the reply to a query that was not understood beyond its header."""
    return _HEADER.pack(data[0] << 8 | data[1], _QR | data[2] & (_OPCODE | _RD), _RA | rcode & _RCODE, 0, 0, 0, 0)


def format_record(owner: bytes, record_type: int, ttl_s: int, data: bytes) -> bytes:
    """A record of class IN. `owner` may end in a pointer."""
    return owner + _RECORD.pack(record_type, 1, ttl_s, len(data)) + data


def format_pointer(offset: int) -> bytes:
    """The name that begins `offset` bytes into the question's name."""
    return struct.pack("!H", _POINTER << 8 | HEADER_BYTES + offset)


def with_id(data: bytes, message_id: int) -> bytes:
    """The same message under another id."""
    return message_id.to_bytes(2, "big") + data[2:]


def is_reply_to(query: Query, message_id: int, data: bytes) -> bool:
    """Whether `data` is a reply to `query`, which was sent on under `message_id`.

    The question must be the same in any case; a failure may leave it out.
    """
    if len(data) < HEADER_BYTES or not data[2] & _QR:
        return False
    replied_id, _, low, questions, *_ = _HEADER.unpack_from(data)
    if replied_id != message_id:
        return False
    if not questions:
        return bool(low & _RCODE)
    question = data[HEADER_BYTES : HEADER_BYTES + len(query.question)]
    return questions == 1 and question.lower() == query.question.lower()


def _find_name_end(data: bytes, start: int) -> int:
    """Behind the root label of a name without pointers."""
    at = start
    while True:
        if at >= len(data):
            raise Malformed("a name is cut off")
        length = data[at]
        if length > LABEL_LIMIT_BYTES:
            raise Malformed(f"a label begins with {length:#x}")
        at += 1 + length
        if at - start > NAME_LIMIT_BYTES:
            raise Malformed("a name is too long")
        if not length:
            return at


def _parse_edns(data: bytes, at: int, records: int) -> Edns | None:
    edns = None
    for _ in range(records):
        start = at
        at = _skip_owner(data, at)
        if at + _RECORD.size > len(data):
            raise Malformed("a record is cut off")
        record_type, payload_bytes, ttl, length = _RECORD.unpack_from(data, at)
        if record_type == _OPT:
            if edns is not None or data[start]:
                raise Malformed("EDNS twice, or with a name")
            edns = Edns(payload_bytes, ttl >> 16 & 0xFF, bool(ttl & _DO))
        at += _RECORD.size + length
        if at > len(data):
            raise Malformed("a record is cut off")
    return edns


def _skip_owner(data: bytes, at: int) -> int:
    """Behind a record's name: labels, then the root or a pointer."""
    start = at
    while at < len(data) and at - start <= NAME_LIMIT_BYTES:
        length = data[at]
        if length >= _POINTER:
            return at + 2
        if length > LABEL_LIMIT_BYTES:
            raise Malformed(f"a label begins with {length:#x}")
        at += 1 + length
        if not length:
            return at
    raise Malformed("a record's name is cut off or too long")


def _format_edns(edns: Edns, rcode: Rcode) -> bytes:
    ttl = (rcode >> 4) << 24 | (_DO if edns.is_dnssec_ok else 0)
    return b"\x00" + _RECORD.pack(_OPT, EDNS_UDP_LIMIT_BYTES, ttl, 0)
