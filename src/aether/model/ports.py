"""Ports: transport, class, codec, and the numbers that the mesh keeps for itself (spec sections 1 and 2)."""

import enum
import re

import msgspec

CAPTURE_PORT = 18001
"""TCP: captured connections to mesh addresses; with protocol inspectors."""
CAPTURE_RAW_PORT = 18002
"""TCP: captured connections to declared raw-TCP ports and to everything that is not the mesh's; no inspectors."""
INBOUND_PORT = 18008
"""TCP: the mutual-TLS hop into a pod."""
DNS_PORT = 18054
"""TCP and UDP: mesh DNS, on the node."""
PROXY_PORT = 18081
"""TCP: the HTTP proxy port, 127.0.0.1 in every managed pod."""
RETIRED_PORT = 18082
"""Reserved for ever."""

RESERVED_PORTS = frozenset({CAPTURE_PORT, CAPTURE_RAW_PORT, INBOUND_PORT, DNS_PORT, PROXY_PORT, RETIRED_PORT})
"""What no application can declare, in any transport."""


class Transport(enum.StrEnum):
    TCP = "tcp"
    UDP = "udp"


class PortClass(enum.StrEnum):
    HTTP = "http"
    TCP = "tcp"
    UDP = "udp"

    @property
    def transport(self) -> Transport:
        return Transport.UDP if self is PortClass.UDP else Transport.TCP


class Codec(enum.StrEnum):
    """What an http port's application speaks on the last hop. Known to the pod's node only."""

    H1 = "h1"
    H2 = "h2"


class DeclaredPort(msgspec.Struct, frozen=True, order=True, gc=False):
    """A port a workload serves: what it is called by clients, and what speaks there."""

    number: int
    port_class: PortClass

    @property
    def transport(self) -> Transport:
        return self.port_class.transport

    def __str__(self) -> str:
        return f"{self.number}={self.port_class}"


_NUMBER = re.compile("[1-9][0-9]{0,4}")
PORT_LIMIT = 65535


def parse_port_number(text: str) -> int | None:
    """The port that `text` spells: 1 to 5 ASCII digits without a leading zero, from 1 to 65535; else None."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= PORT_LIMIT else None
