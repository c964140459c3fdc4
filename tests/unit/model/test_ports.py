import pytest

from aether.model.ports import RESERVED_PORTS, DeclaredPort, PortClass, Transport, parse_port_number


def test_the_reserved_numbers_are_the_six_of_the_data_plane() -> None:
    assert sorted(RESERVED_PORTS) == [18001, 18002, 18008, 18054, 18081, 18082]


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("80", 80), ("8080", 8080), ("65535", 65535)])
def test_a_port_is_one_to_five_digits(text: str, number: int) -> None:
    assert parse_port_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "0", "080", "65536", "123456", "-1", "+80", " 80", "80 ", "8_0", "x", "٨٠", "80\n"]
)
def test_other_text_is_no_port(text: str) -> None:
    assert parse_port_number(text) is None


@pytest.mark.parametrize(
    ("port_class", "transport"),
    [(PortClass.HTTP, Transport.TCP), (PortClass.TCP, Transport.TCP), (PortClass.UDP, Transport.UDP)],
)
def test_a_class_has_a_transport(port_class: PortClass, transport: Transport) -> None:
    assert DeclaredPort(80, port_class).transport is transport


def test_a_declared_port_prints_number_and_class() -> None:
    assert str(DeclaredPort(9000, PortClass.TCP)) == "9000=tcp"
