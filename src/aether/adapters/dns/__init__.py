"""Mesh DNS on a node: its servers, other servers behind it, and the file of its zone."""

from aether.adapters.dns.resolver import DnsStatistics, Resolver
from aether.adapters.dns.server import DnsServer, PortUnavailable
from aether.adapters.dns.upstream import BadUpstream, Upstream, Upstreams, parse_upstream
from aether.adapters.dns.zone_file import ReloadUnavailable, ZoneFile, ZoneNotWritten, ZoneUnreadable, write_zone

__all__ = [
    "BadUpstream",
    "DnsServer",
    "DnsStatistics",
    "PortUnavailable",
    "ReloadUnavailable",
    "Resolver",
    "Upstream",
    "Upstreams",
    "ZoneFile",
    "ZoneNotWritten",
    "ZoneUnreadable",
    "parse_upstream",
    "write_zone",
]
