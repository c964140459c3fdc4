"""Mesh DNS, without sockets: the zone, messages, and the answer to a query (RFC 1034, RFC 1035)."""

from aether.wire.dns.answer import Forward, answer
from aether.wire.dns.message import Query, Rcode, format_failure, is_reply_to
from aether.wire.dns.zone import BadZone, Directory, Host, Zone

__all__ = [
    "BadZone",
    "Directory",
    "Forward",
    "Host",
    "Query",
    "Rcode",
    "Zone",
    "answer",
    "format_failure",
    "is_reply_to",
]
