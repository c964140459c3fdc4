"""What mesh DNS says to a query (rulings F).

Owns: answers for the mesh's and the cluster's names, and which queries are for other servers.
Leaves to others: bytes (`wire.dns.message`), sockets and asking other servers (`adapters.dns`).

Rule: a name that exists without an address of the asked family is "no data" (NOERROR), never NXDOMAIN: a client that
hears NXDOMAIN for AAAA does not ask for A.
"""

import enum
import struct

import msgspec

from aether.model.ports import Transport
from aether.wire.dns.message import (
    TCP_LIMIT_BYTES,
    Malformed,
    Query,
    Rcode,
    Reply,
    format_bare_failure,
    format_failure,
    format_pointer,
    format_record,
    format_reply,
    is_query,
    opcode_of,
    overhead_bytes,
    parse_query,
    udp_limit_bytes,
)
from aether.wire.dns.zone import Directory

TTL_S = 5
"""Of every record, and of "there is none" (rulings F)."""

_CLASS_IN = 1


class _Type(enum.IntEnum):
    A = 1
    SOA = 6
    PTR = 12
    HINFO = 13
    AAAA = 28
    OPT = 41
    ANY = 255


_META_TYPES = frozenset({0, _Type.OPT, *range(128, _Type.ANY)})
"""Types of no record (RFC 6895, section 3.1): zone transfers, signatures, EDNS itself."""

_ASKED = format_pointer(0)
_RFC8482 = format_record(_ASKED, _Type.HINFO, TTL_S, b"\x07RFC8482\x00")  # RFC 8482, section 4.2: the answer to ANY
_SOA_NUMBERS = struct.pack("!5I", 1, 7200, 1800, 86_400, TTL_S)  # serial, refresh, retry, expire, negative TTL


class Forward(msgspec.Struct, frozen=True):
    """The query is for other servers: ask one, or reply with a failure."""

    query: Query


def answer(data: bytes, directory: Directory | None, *, transport: Transport) -> bytes | Forward | None:
    """The reply to a message, or what to do instead; None: it gets no reply. Never raises, whatever the bytes.

    Without a directory every proper query fails (SERVFAIL): what exists is not known, and not knowing is not NXDOMAIN.
    """
    if not is_query(data):
        return None
    if opcode_of(data):
        return format_bare_failure(data, Rcode.NOTIMP)
    try:
        query = parse_query(data)
    except Malformed:
        return format_bare_failure(data, Rcode.FORMERR)
    if (refusal := _refusal(query)) is not None:
        return format_failure(query, refusal)
    if directory is None:
        return format_failure(query, Rcode.SERVFAIL)
    return _answer_name(query, directory, transport)


def _refusal(query: Query) -> Rcode | None:
    if query.edns is not None and query.edns.version:
        return Rcode.BADVERS
    if query.record_class != _CLASS_IN or query.record_type in _META_TYPES:
        return Rcode.REFUSED
    return None


def _answer_name(query: Query, directory: Directory, transport: Transport) -> bytes | Forward:
    offset = directory.domain_offset(query.name)
    if directory.exists(query.name):
        return _answer_existing(query, directory, offset or 0, transport)
    if offset is not None:
        return _deny(query, Rcode.NXDOMAIN, offset)
    if query.record_type == _Type.PTR and (name := directory.name_of(query.name)) is not None:
        pointer = format_record(_ASKED, _Type.PTR, TTL_S, name)
        return format_reply(query, Reply(answers=(pointer,), is_authoritative=True))
    return Forward(query)


def _answer_existing(query: Query, directory: Directory, offset: int, transport: Transport) -> bytes:
    match query.record_type:
        case _Type.A | _Type.AAAA:
            addresses = directory.addresses(query.name, is_ipv6=query.record_type == _Type.AAAA)
            return _answer_addresses(query, addresses, transport) if addresses else _deny(query, Rcode.NOERROR, offset)
        case _Type.ANY:
            return format_reply(query, Reply(answers=(_RFC8482,), is_authoritative=True))
        case _Type.SOA if not offset:
            return format_reply(query, Reply(answers=(_soa(0),), is_authoritative=True))
        case _:
            return _deny(query, Rcode.NOERROR, offset)


def _answer_addresses(query: Query, addresses: tuple[bytes, ...], transport: Transport) -> bytes:
    """As many addresses as fit; each query begins with another, so that clients that take the first one spread."""
    first = query.message_id % len(addresses)
    limit_bytes = udp_limit_bytes(query) if transport is Transport.UDP else TCP_LIMIT_BYTES
    record_bytes = len(format_record(_ASKED, query.record_type, TTL_S, addresses[0]))
    fitting = (limit_bytes - overhead_bytes(query)) // record_bytes
    records = tuple(
        format_record(_ASKED, query.record_type, TTL_S, address)
        for address in (*addresses[first:], *addresses[:first])[:fitting]
    )
    is_truncated = transport is Transport.UDP and fitting < len(addresses)
    return format_reply(query, Reply(answers=records, is_authoritative=True, is_truncated=is_truncated))


def _deny(query: Query, rcode: Rcode, offset: int) -> bytes:
    """Say that there is none, and for how long that holds (RFC 2308, section 5)."""
    return format_reply(query, Reply(rcode=rcode, authority=(_soa(offset),), is_authoritative=True))


def _soa(offset: int) -> bytes:
    """The start of authority of the domain that begins at `offset` in the question's name."""
    domain = format_pointer(offset)
    data = b"\x02ns\x03dns" + domain + b"\x0ahostmaster" + domain + _SOA_NUMBERS
    return format_record(domain, _Type.SOA, TTL_S, data)
