"""The names that mesh DNS answers itself, and finding one.

Names are looked up as they stand in a message (length-prefixed labels, RFC 1035 section 3.1) in lower case: a lookup
then takes no decoding. No length byte is a letter, so the lower case of a whole name is that of its labels.

Rule: whoever fills a zone lists the names above its names as well, or they do not exist (RFC 8020).
"""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from aether.errors import AetherError

LABEL_LIMIT_BYTES = 63  # RFC 1035, section 2.3.4
NAME_LIMIT_BYTES = 255  # the same; with length bytes and the root


class BadZone(AetherError):
    """A zone that cannot be served, with the first reason."""

    code = "bad-zone"


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A name that exists, in lower case without a trailing dot, and its addresses in their canonical text.

    No address of a family is a "no data" for that family, not an unknown name.
    """

    name: str
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """`names` exist; any other name under one of `domains` does not; everything else is for other servers."""

    domains: tuple[str, ...]
    names: tuple[Host, ...]


class Directory:
    """A zone, made for finding."""

    def __init__(self, zone: Zone) -> None:
        """Raises BadZone: a name or an address that is none."""
        encoded: dict[str, bytes] = {"": b"\x00"}
        self._domains = frozenset(_encode(domain, encoded) for domain in zone.domains)
        self._packed = _pack_addresses(zone.names)
        self._hosts: dict[bytes, Host] = {domain: Host(name="") for domain in self._domains}
        self._hosts.update((_encode(host.name, encoded), host) for host in zone.names)
        self._addresses: dict[tuple[bytes, bool], tuple[bytes, ...]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def exists(self, name: bytes) -> bool:
        return name in self._hosts

    def addresses(self, name: bytes, *, is_ipv6: bool) -> tuple[bytes, ...]:
        """The addresses of a name that exists, as they stand in a message."""
        key = (name, is_ipv6)
        if (found := self._addresses.get(key)) is None:
            host = self._hosts[name]
            texts = host.ipv6 if is_ipv6 else host.ipv4
            found = self._addresses[key] = tuple(self._packed[text] for text in texts)
        return found

    def domain_offset(self, name: bytes) -> int | None:
        """Where in `name` the domain that it is under begins; None for a name under none."""
        at = 0
        while name[at:] not in self._domains:
            if not name[at]:
                return None
            at += 1 + name[at]
        return at

    def name_of(self, reverse_name: bytes) -> bytes | None:
        """The name of the address that a name under in-addr.arpa or ip6.arpa stands for; None if unknown."""
        address = _address_of(reverse_name)
        return None if address is None else self._names_by_address.get(address)

    @cached_property
    def _names_by_address(self) -> Mapping[bytes, bytes]:
        """Of several names, one with the most labels: the pod's, else the Service's Kubernetes name; then the first."""
        best: dict[str, tuple[int, bytes]] = {}
        for name, host in sorted(self._hosts.items()):
            if not (host.ipv4 or host.ipv6) or self.domain_offset(name) is None:
                continue
            labels = host.name.count(".")
            for address in (*host.ipv4, *host.ipv6):
                if address not in best or best[address][0] < labels:
                    best[address] = (labels, name)
        return {self._packed[address]: name for address, (_, name) in best.items()}


def _encode(name: str, encoded: dict[str, bytes]) -> bytes:
    """A name as in a message. `encoded` keeps what was encoded: names share their ends."""
    if (found := encoded.get(name)) is not None:
        return found
    head, _, tail = name.partition(".")
    label = head.encode()
    if not 0 < len(label) <= LABEL_LIMIT_BYTES or label != label.lower():
        raise BadZone(f"name {name!r}: a label must have 1 to {LABEL_LIMIT_BYTES} bytes, in lower case")
    found = encoded[name] = bytes((len(label),)) + label + _encode(tail, encoded)
    if len(found) > NAME_LIMIT_BYTES:
        raise BadZone(f"name {name!r}: longer than {NAME_LIMIT_BYTES} bytes")
    return found


def _pack_addresses(hosts: Iterable[Host]) -> dict[str, bytes]:
    packed: dict[str, bytes] = {}
    for host in hosts:
        try:
            for text in host.ipv4:
                if text not in packed:
                    packed[text] = ipaddress.IPv4Address(text).packed
            for text in host.ipv6:
                if text not in packed:
                    packed[text] = ipaddress.IPv6Address(text).packed
        except ValueError as error:
            raise BadZone(f"name {host.name!r}: {error}") from error
    return packed


_REVERSE_IPV4 = b"\x07in-addr\x04arpa\x00"  # RFC 1035, section 3.5
_REVERSE_IPV6 = b"\x03ip6\x04arpa\x00"  # RFC 3596, section 2.5
_NIBBLES = b"0123456789abcdef"


def _address_of(reverse_name: bytes) -> bytes | None:
    if reverse_name.endswith(_REVERSE_IPV6) and len(reverse_name) == 64 + len(_REVERSE_IPV6):
        return _from_nibbles(reverse_name[:64])
    if reverse_name.endswith(_REVERSE_IPV4):
        return _from_octets(reverse_name[: -len(_REVERSE_IPV4)])
    return None


def _from_nibbles(labels: bytes) -> bytes | None:
    digits = labels[1::2]
    if labels[::2] != b"\x01" * 32 or not all(digit in _NIBBLES for digit in digits):
        return None
    return bytes.fromhex(digits[::-1].decode())


def _from_octets(labels: bytes) -> bytes | None:
    octets: list[int] = []
    at = 0
    while at < len(labels):
        digits = labels[at + 1 : at + 1 + labels[at]]
        if not digits.isdigit() or len(digits) > 3 or int(digits) > 255:
            return None
        octets.append(int(digits))
        at += 1 + labels[at]
    return bytes(octets[::-1]) if len(octets) == 4 else None
