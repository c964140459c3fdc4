"""Forget UDP flows that are pinned to an endpoint which is gone (nfnetlink_conntrack).

Rules act on the first packet of a flow; a connected UDP client would keep sending to the old endpoint for as long as it
sends at all. Deleting the entry makes its next packet a first packet.
"""

import errno
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from aether.adapters.kernel.netns import socket_in
from aether.adapters.kernel.syscall import KernelError
from aether.plan.routing import UdpFlow

_NETLINK_NETFILTER = 12
_CT_GET = 1 << 8 | 1  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_GET
_CT_DELETE = 1 << 8 | 2
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_TUPLE_ORIG, _TUPLE_REPLY, _ID = 1, 2, 12  # ctattr_type
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_PROTO_NUMBER, _PROTO_SOURCE, _PROTO_DESTINATION = 1, 2, 3
_IP_SOURCES, _IP_DESTINATIONS = (1, 3), (2, 4)  # IPv4, IPv6
_TYPE_MASK = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_HEADER = struct.Struct("=IHHII")
_FAMILY = struct.Struct("=BBH")
_ATTRIBUTE = struct.Struct("=HH")
_BUFFER_BYTES = 1 << 18
_TIMEOUT_S = 5.0


class _Tuple(msgspec.Struct, frozen=True):
    """One direction of a flow, in network bytes."""

    protocol: int
    source: bytes
    source_port: int
    destination: bytes
    destination_port: int


class _Entry(msgspec.Struct, frozen=True):
    """A conntrack entry: both directions, and the attributes by which the kernel finds it again."""

    original: _Tuple
    reply: _Tuple
    handle: bytes


def delete_udp_flows(netns: Path, flows: Iterable[UdpFlow]) -> int:
    """Delete every entry of the namespace that belongs to one of `flows`; how many there were.

    Raises:
        KernelError: the namespace cannot be entered, or conntrack is not available in it.
    """
    wanted = {_key_of_flow(flow) for flow in flows}
    families = {family for family, *_ in wanted}
    if not wanted:
        return 0
    try:
        with socket_in(netns, socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as sock:
            sock.settimeout(_TIMEOUT_S)
            doomed = [
                (family, entry.handle)
                for family in sorted(families)
                for entry in list(_dump(sock, family))
                if (family, *_key_of_entry(entry)) in wanted
            ]
            for sequence, (family, handle) in enumerate(doomed, start=1):
                _delete(sock, family, handle, sequence)
    except OSError as error:
        raise KernelError("conntrack", error.errno or errno.ETIMEDOUT) from error
    return len(doomed)


def _key_of_flow(flow: UdpFlow) -> tuple[int, bytes, int, bytes, int]:
    family = socket.AF_INET6 if ":" in flow.address else socket.AF_INET
    address, backend = socket.inet_pton(family, flow.address), socket.inet_pton(family, flow.backend.address)
    return (family, address, flow.port, backend, flow.backend.port)


def _key_of_entry(entry: _Entry) -> tuple[bytes, int, bytes, int]:
    original, reply = entry.original, entry.reply
    if original.protocol != socket.IPPROTO_UDP:
        return (b"", 0, b"", 0)
    return (original.destination, original.destination_port, reply.source, reply.source_port)


def _dump(sock: socket.socket, family: int) -> Iterator[_Entry]:
    sock.send(_message(_CT_GET, _REQUEST | _DUMP, 0, family, b""))
    while True:
        for kind, payload in _messages(sock.recv(_BUFFER_BYTES)):
            if kind == _DONE:
                return
            if kind == _ERROR:
                _raise_error(payload)
            attributes = dict(_attributes(payload[_FAMILY.size :]))
            handle = b"".join(_attribute(kind, attributes[kind]) for kind in (_TUPLE_ORIG, _ID))
            yield _Entry(_tuple(attributes[_TUPLE_ORIG]), _tuple(attributes[_TUPLE_REPLY]), handle)


def _delete(sock: socket.socket, family: int, handle: bytes, sequence: int) -> None:
    sock.send(_message(_CT_DELETE, _REQUEST | _ACK, sequence, family, handle))
    for kind, payload in _messages(sock.recv(_BUFFER_BYTES)):
        if kind == _ERROR:
            _raise_error(payload)


def _raise_error(payload: bytes) -> None:
    code = -struct.unpack_from("=i", payload)[0]
    if code not in (0, errno.ENOENT):  # it may have ended by itself
        raise OSError(code, "conntrack")


def _tuple(data: bytes) -> _Tuple:
    outer = dict(_attributes(data))
    address, protocol = dict(_attributes(outer[_TUPLE_IP])), dict(_attributes(outer[_TUPLE_PROTO]))
    return _Tuple(
        protocol=protocol[_PROTO_NUMBER][0],
        source=next(address[kind] for kind in _IP_SOURCES if kind in address),
        source_port=int.from_bytes(protocol.get(_PROTO_SOURCE, b"")),
        destination=next(address[kind] for kind in _IP_DESTINATIONS if kind in address),
        destination_port=int.from_bytes(protocol.get(_PROTO_DESTINATION, b"")),
    )


def _message(kind: int, flags: int, sequence: int, family: int, attributes: bytes) -> bytes:
    body = _FAMILY.pack(family, 0, 0) + attributes
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(data)
        if length < _HEADER.size:
            return
        yield kind, data[_HEADER.size : length]
        data = data[_aligned(length) :]


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    nested = 0x8000 if kind == _TUPLE_ORIG else 0
    return (_ATTRIBUTE.pack(length, kind | nested) + value).ljust(_aligned(length), b"\0")


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, data[_ATTRIBUTE.size : length]
        data = data[_aligned(length) :]


def _aligned(length: int) -> int:
    return (length + 3) & ~3
