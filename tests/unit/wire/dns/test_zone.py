import pytest
from tests.support.dns import zone

from aether.wire.dns import BadZone, Directory

CART = b"\x04cart\x04shop\x06aether\x08internal\x00"


def test_a_name_is_found_by_its_bytes_in_a_message() -> None:
    directory = Directory(zone("cart.shop.aether.internal 10.96.0.5 10.96.0.6 fd96::5"))
    assert directory.exists(CART)
    assert directory.addresses(CART, is_ipv6=False) == (b"\x0a\x60\x00\x05", b"\x0a\x60\x00\x06")
    assert directory.addresses(CART, is_ipv6=True) == (b"\xfd\x96" + bytes(13) + b"\x05",)
    assert directory.addresses(CART, is_ipv6=True) is directory.addresses(CART, is_ipv6=True)


def test_a_domain_exists_without_being_listed() -> None:
    directory = Directory(zone())
    assert directory.exists(b"\x06aether\x08internal\x00")
    assert not directory.exists(b"\x08internal\x00")
    assert len(directory) == 2


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        (CART, 10),
        (b"\x06aether\x08internal\x00", 0),
        (b"\x07cluster\x05local\x00", 0),
        (b"\x08internal\x00", None),
        (b"\x07xaether\x08internal\x00", None),
        (b"\x11x\x06aether\x08internal\x00", None),
        (b"\x00", None),
    ],
)
def test_a_domain_is_found_at_the_border_of_labels_only(name: bytes, offset: int | None) -> None:
    assert Directory(zone()).domain_offset(name) == offset


@pytest.mark.parametrize(
    "line",
    [
        "a..b",
        ".a",
        "Cart.shop",
        "x" * 64,
        ".".join(["x" * 63] * 4),
        "cart 10.96.0.256",
        "cart 10.96.0",
        "cart fd96::g",
        "cart ::ffff:10.96.0.5.6",
    ],
)
def test_a_zone_with_a_broken_name_or_address_is_refused(line: str) -> None:
    with pytest.raises(BadZone) as raised:
        Directory(zone(line))
    assert raised.value.code == "bad-zone"


def test_the_longest_name_is_taken() -> None:
    name = ".".join(["x" * 63, "y" * 63, "z" * 63, "w" * 61])
    assert len(Directory(zone(name))) == 3


DIRECTORY = Directory(
    zone(
        "cart.shop.aether.internal 10.96.0.5 fd96::5",
        "cart.shop.svc.cluster.local 10.96.0.5 fd96::5",
        "cart.shop.svc 10.96.0.5",
        "db.shop.aether.internal 10.244.1.7",
        "db.shop.svc.cluster.local 10.244.1.7",
        "db-0.db.shop.svc.cluster.local 10.244.1.7",
        "elsewhere.test 192.0.2.1",
    )
)


def reverse4(*octets: str) -> bytes:
    labels = b"".join(bytes([len(octet)]) + octet.encode() for octet in reversed(octets))
    return labels + b"\x07in-addr\x04arpa\x00"


FD96_5 = "5" + "0" * 27 + "69df"


def reverse6(nibbles: str) -> bytes:
    return b"".join(b"\x01" + nibble.encode() for nibble in nibbles) + b"\x03ip6\x04arpa\x00"


@pytest.mark.parametrize(
    ("reverse", "name"),
    [
        (reverse4("10", "96", "0", "5"), b"\x04cart\x04shop\x03svc\x07cluster\x05local\x00"),
        (reverse4("10", "244", "1", "7"), b"\x04db-0\x02db\x04shop\x03svc\x07cluster\x05local\x00"),
        (reverse6(FD96_5), b"\x04cart\x04shop\x03svc\x07cluster\x05local\x00"),
        (reverse4("192", "0", "2", "1"), None),
        (reverse4("10", "96", "0", "7"), None),
        (reverse4("10", "96", "0", "256"), None),
        (reverse4("10", "96", "0", "0005"), None),
        (reverse4("10", "96", "0", "x"), None),
        (reverse4("96", "0", "5"), None),
        (reverse4(), None),
        (reverse6("g" + FD96_5[1:]), None),
        (reverse6(FD96_5[1:]), None),
        (b"\x02" + b"x" * 2 + b"\x01x" * 30 + b"\x00" * 1 + b"\x03ip6\x04arpa\x00", None),
        (CART, None),
    ],
)
def test_an_address_is_named_by_the_most_specific_name_of_a_domain(reverse: bytes, name: bytes | None) -> None:
    assert DIRECTORY.name_of(reverse) == name
