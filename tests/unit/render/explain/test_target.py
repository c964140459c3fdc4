import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.render.explain.target import BadTarget, Speech, Target, parse_target


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "http://cart.shop:8080/x?y=1",
            Target(speech=Speech.HTTP, host="cart.shop", port=8080, authority="cart.shop:8080", path="/x?y=1"),
        ),
        ("http://Cart", Target(speech=Speech.HTTP, host="cart", port=80, authority="Cart")),
        ("http://cart:80/", Target(speech=Speech.HTTP, host="cart", port=80, authority="cart")),
        ("http://[fd96::5]:81/", Target(speech=Speech.HTTP, host="fd96::5", port=81, authority="[fd96::5]:81")),
        ("http://[fd96::5]/", Target(speech=Speech.HTTP, host="fd96::5", port=80, authority="[fd96::5]")),
        ("https://cart/", Target(speech=Speech.TLS, host="cart", port=443)),
        ("db:3306", Target(speech=Speech.RAW, host="db", port=3306)),
        ("tcp://db:3306", Target(speech=Speech.RAW, host="db", port=3306)),
        ("[fd96::5]:9000", Target(speech=Speech.RAW, host="fd96::5", port=9000)),
    ],
)
def test_a_url_or_a_host_and_a_port_is_a_target(text: str, expected: Target) -> None:
    assert parse_target(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "db",
        "db:",
        "db:x",
        "db:0",
        "db:65536",
        "http://",
        "http://:80/",
        "http://a:99999/",
        "ftp://a",
        "[::1",
        "a:1:2",
    ],
)
def test_anything_else_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(BadTarget) as refused:
        parse_target(text)
    assert repr(text)[1:-1] in str(refused.value)


def test_a_target_prints_as_it_is_dialled() -> None:
    assert str(parse_target("http://[fd96::5]/x")) == "[fd96::5]:80"


@given(
    text=st.text(max_size=40)
    | st.from_regex(r"(https?://|tcp://)?[\[\]a-z0-9.:@%-]{0,12}(:[0-9]{0,6})?(/.*)?", fullmatch=True)
)
def test_any_text_is_a_target_or_refused(text: str) -> None:
    try:
        target = parse_target(text)
    except BadTarget:
        return
    assert 0 < target.port < 65536
    assert target.host
    assert bool(target.authority) == (target.speech is Speech.HTTP)
