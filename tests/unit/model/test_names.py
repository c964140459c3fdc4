import pytest

from aether.model.names import (
    Authority,
    Domains,
    FullName,
    ServiceId,
    ShortName,
    is_label,
    is_service_label,
    kubernetes_names,
    mesh_name,
    parse_authority,
    parse_name,
    spelled_host,
)

CART = ServiceId("shop", "cart")
DOMAINS = Domains()


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("cart.shop", "cart.shop", None),
        ("cart.shop:8080", "cart.shop", "8080"),
        ("Cart.SHOP:8080", "cart.shop", "8080"),
        ("cart.shop.", "cart.shop", None),
        ("cart.shop.:8080", "cart.shop", "8080"),
        ("cart.shop..", "cart.shop.", None),
        ("cart.shop:", "cart.shop", ""),
        ("cart.shop:http", "cart.shop", "http"),
        ("cart.shop:080", "cart.shop", "080"),
        ("cart.shop:80.", "cart.shop", "80"),
        ("", "", None),
        (".", "", None),
        (":80", "", "80"),
        ("10.96.0.5:80", "10.96.0.5", "80"),
        ("[fd96::5]:80", "[fd96::5]", "80"),
        ("[fd96::5]", "[fd96::5]", None),
    ],
)
def test_an_authority_is_host_and_port_text(text: str, host: str, port: str | None) -> None:
    assert parse_authority(text) == Authority(host, port)


@pytest.mark.parametrize("text", ["cart:80:80", "cart.shop:1:2", "fd96::5", "a::", "::"])
def test_two_colons_outside_brackets_name_nothing(text: str) -> None:
    authority = parse_authority(text)
    assert authority.port is None
    assert parse_name(authority.host, DOMAINS) is None


def test_letters_that_only_lower_case_makes_ascii_name_nothing() -> None:
    assert parse_name(parse_authority("\u212aart.shop").host, DOMAINS) is None


@pytest.mark.parametrize(
    ("host", "is_mesh_name"),
    [
        ("cart.shop.aether.internal", True),
        ("cart.shop.svc.cluster.local", False),
        ("cart.shop.svc", False),
        ("cart.shop", False),
    ],
)
def test_a_service_has_four_full_spellings(host: str, is_mesh_name: bool) -> None:
    assert parse_name(host, DOMAINS) == FullName(CART, is_mesh_name)


def test_the_spellings_parse_as_they_are_formatted() -> None:
    domains = Domains(mesh="mesh.example", cluster="kube.example")
    spellings = (mesh_name(CART, domains), *kubernetes_names(CART, domains))
    assert spellings == ("cart.shop.mesh.example", "cart.shop.svc.kube.example", "cart.shop.svc", "cart.shop")
    assert [parse_name(name, domains) for name in spellings] == [
        FullName(CART, name == spellings[0]) for name in spellings
    ]


def test_a_label_alone_is_a_short_name() -> None:
    assert parse_name("cart", DOMAINS) == ShortName("cart")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "-cart",
        "cart_",
        "1cart",
        "cart.shop.svc.cluster",
        "cart.shop.cluster.local",
        "a.cart.shop.aether.internal",
        "cart.shop.svc.aether.internal",
        "cart.shop.example.org",
        "cart..aether.internal",
        ".shop",
        "cart.",
        "10.96.0.5",
        "[fd96::5]",
        "c" * 64,
        f"cart.{'s' * 64}",
    ],
)
def test_other_spellings_name_nothing(host: str) -> None:
    assert parse_name(host, DOMAINS) is None


def test_a_name_of_253_bytes_parses() -> None:
    service = ServiceId("n" * 63, "s" * 63)
    domains = Domains(mesh=".".join(["d" * 62, "e" * 62]))
    name = mesh_name(service, domains)
    assert len(name) == 253
    assert parse_name(name, domains) == FullName(service, is_mesh_name=True)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("Cart.Shop:8080", "Cart.Shop"),
        ("Cart.Shop.:8080", "Cart.Shop"),
        ("cart", "cart"),
        ("a:1:2", "a:1:2"),
        ("é:1", "é:1"),
    ],
)
def test_the_spelled_host_keeps_its_case(text: str, spelled: str) -> None:
    assert spelled_host(text) == spelled


@pytest.mark.parametrize("text", ["a", "a-b", "a1", "x" * 63])
def test_a_service_label_is_rfc_1035(text: str) -> None:
    assert is_service_label(text)


@pytest.mark.parametrize("text", ["", "1a", "-a", "a-", "A", "a.b", "a_b", "x" * 64, "a\n"])
def test_other_text_is_no_service_label(text: str) -> None:
    assert not is_service_label(text)


def test_a_namespace_may_begin_with_a_digit() -> None:
    assert is_label("1a")
    assert not is_label("a.b")


def test_a_service_prints_namespace_and_name() -> None:
    assert str(CART) == "shop/cart"
