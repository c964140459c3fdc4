"""The netlink messages of conntrack: what is understood of them. Real entries are in tests/netns."""

import socket
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.kernel import conntrack
from aether.adapters.kernel.conntrack import delete_udp_flows
from aether.plan.routing import Backend, UdpFlow

FLOW = UdpFlow("10.96.0.5", 53, Backend("10.244.1.2", 5300))


def attribute(kind: int, value: bytes) -> bytes:
    return (struct.pack("=HH", 4 + len(value), kind) + value).ljust((4 + len(value) + 3) & ~3, b"\0")


def direction(kind: int, source: tuple[str, int], destination: tuple[str, int], protocol: int = 17) -> bytes:
    """CTA_TUPLE_ORIG or CTA_TUPLE_REPLY as linux/netfilter/nfnetlink_conntrack.h lays it out."""
    family = socket.AF_INET6 if ":" in source[0] else socket.AF_INET
    first = 3 if family == socket.AF_INET6 else 1
    addresses = b"".join(
        attribute(first + offset, socket.inet_pton(family, address))
        for offset, (address, _) in enumerate((source, destination))
    )
    ports = b"".join(
        attribute(2 + offset, struct.pack("!H", port)) for offset, (_, port) in enumerate((source, destination))
    )
    protocols = attribute(1, bytes([protocol])) + ports
    return attribute(kind | 0x8000, attribute(1 | 0x8000, addresses) + attribute(2 | 0x8000, protocols))


def entry_of(original: bytes, reply: bytes) -> conntrack._Entry:
    found = dict(conntrack._attributes(original + reply))
    return conntrack._Entry(conntrack._tuple(found[1]), conntrack._tuple(found[2]), b"")


def test_an_entry_is_known_by_the_service_it_dialled_and_the_backend_that_answers() -> None:
    entry = entry_of(
        direction(1, ("10.244.1.9", 40000), ("10.96.0.5", 53)),
        direction(2, ("10.244.1.2", 5300), ("10.244.1.9", 40000)),
    )
    assert (socket.AF_INET, *conntrack._key_of_entry(entry)) == conntrack._key_of_flow(FLOW)


def test_both_families_are_understood() -> None:
    flow = UdpFlow("fd96::5", 53, Backend("fd00:244:1::2", 5300))
    entry = entry_of(
        direction(1, ("fd00:244:1::9", 40000), ("fd96::5", 53)),
        direction(2, ("fd00:244:1::2", 5300), ("fd00:244:1::9", 40000)),
    )
    assert (socket.AF_INET6, *conntrack._key_of_entry(entry)) == conntrack._key_of_flow(flow)


def test_an_entry_of_another_protocol_is_never_the_flows() -> None:
    entry = entry_of(
        direction(1, ("10.244.1.9", 40000), ("10.96.0.5", 53), socket.IPPROTO_TCP),
        direction(2, ("10.244.1.2", 5300), ("10.244.1.9", 40000), socket.IPPROTO_TCP),
    )
    assert (socket.AF_INET, *conntrack._key_of_entry(entry)) != conntrack._key_of_flow(FLOW)


def test_without_flows_nothing_is_asked() -> None:
    assert delete_udp_flows(Path("/nonexistent"), []) == 0


@given(data=st.binary(max_size=64))
def test_any_bytes_come_to_an_end(data: bytes) -> None:
    assert len(list(conntrack._attributes(data))) <= len(data) // 4
    assert len(list(conntrack._messages(data))) <= len(data) // 16


@given(kind=st.integers(2, 0x3FFF), value=st.binary(max_size=40), tail=st.binary(max_size=8))
def test_an_attribute_is_read_as_it_was_written(kind: int, value: bytes, tail: bytes) -> None:
    assert next(conntrack._attributes(conntrack._attribute(kind, value) + tail)) == (kind, value)
