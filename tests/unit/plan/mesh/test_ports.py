import pytest
from tests.support.facts import declared, row

from aether.model.endpoint import Health
from aether.model.names import ServiceId
from aether.model.ports import PortClass
from aether.plan.mesh.ports import Dispute, vote_ports

CART = ServiceId("shop", "cart")


@pytest.mark.parametrize(
    ("rows", "ports"),
    [
        ([], ""),
        (["8080"], "8080"),
        (["8080 9000=tcp", "8080 9000=tcp"], "8080 9000=tcp"),
        (["8080", "9090"], "8080 9090"),
        (["8080", "8080=tcp", "8080=tcp"], "8080=tcp"),
        (["8080", "8080", "8080=tcp"], "8080"),
        (["8080=tcp", "8080"], "8080"),
        (["53=tcp", "53=udp"], "53=tcp 53=udp"),
        (["53=udp", "53=udp", "53"], "53 53=udp"),
        (["8080 18081", "18008=tcp"], "8080"),
    ],
)
def test_the_class_that_most_endpoints_declare_wins_and_ties_go_to_http(rows: list[str], ports: str) -> None:
    assert vote_ports(CART, [row("shop/cart", text) for text in rows]).ports == declared(ports)


def test_every_row_votes_whatever_its_health() -> None:
    rows = [
        row("shop/cart", "8080", health=Health.HEALTHY),
        row("shop/cart", "8080=tcp", health=Health.UNHEALTHY),
        row("shop/cart", "8080=tcp", health=Health.DRAINING),
    ]
    assert vote_ports(CART, rows).ports == declared("8080=tcp")


def test_a_disagreement_is_said_once_with_its_votes() -> None:
    rows = [row("shop/cart", text) for text in ("8080", "8080=tcp", "8080=tcp", "8080=udp", "9090")]
    votes = ((PortClass.TCP, 2), (PortClass.HTTP, 1))
    assert vote_ports(CART, rows).disputes == (Dispute(service=CART, number=8080, votes=votes),)


def test_agreement_is_no_dispute() -> None:
    assert vote_ports(CART, [row("shop/cart"), row("shop/cart", "8080 9000=tcp")]).disputes == ()


def test_reserved_numbers_are_set_aside() -> None:
    vote = vote_ports(CART, [row("shop/cart", "8080 18081=tcp 18054=udp")])
    assert vote.ports == declared("8080")
    assert vote.reserved == declared("18054=udp 18081=tcp")
