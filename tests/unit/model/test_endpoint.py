import msgspec
import pytest
from tests.support.facts import row

from aether.model.endpoint import row_problem
from aether.model.ports import DeclaredPort, PortClass

GOOD = row("shop/cart", "53=tcp 53=udp 8080")


def test_a_row_that_names_its_ports_is_served() -> None:
    assert row_problem(GOOD) is None


def test_a_reserved_port_does_not_spoil_a_row() -> None:
    assert row_problem(row("shop/cart", "8080 18081")) is None


@pytest.mark.parametrize(
    ("ports", "item", "why"),
    [
        ((), "", "it names no port"),
        ((DeclaredPort(0, PortClass.HTTP),), "0=http", "port 0 is not from 1 to 65535"),
        ((DeclaredPort(65536, PortClass.UDP),), "65536=udp", "port 65536 is not from 1 to 65535"),
        (
            (DeclaredPort(80, PortClass.HTTP), DeclaredPort(80, PortClass.TCP)),
            "80=tcp",
            "port 80 stands twice for tcp",
        ),
    ],
)
def test_a_row_that_does_not_say_what_each_port_is_is_refused(
    ports: tuple[DeclaredPort, ...], item: str, why: str
) -> None:
    problem = row_problem(msgspec.structs.replace(GOOD, ports=ports))
    assert problem is not None
    assert (problem.code, problem.item) == ("bad-row", item)
    assert str(problem) == f"n1: Pod shop/cart-2: ports: the endpoint is not served: {why}"


def test_a_row_without_an_address_is_refused() -> None:
    problem = row_problem(msgspec.structs.replace(GOOD, address=""))
    assert problem is not None
    assert "it has no address" in problem.message
