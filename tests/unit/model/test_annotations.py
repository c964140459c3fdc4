from collections.abc import Mapping

import pytest
from tests.support.facts import declared

from aether.errors import Rejected
from aether.model import annotations as keys
from aether.model.annotations import Declaration, is_managed, parse_declaration, validate_account
from aether.model.names import ServiceId
from aether.model.ports import RESERVED_PORTS, Codec, DeclaredPort, PortClass
from aether.model.settings import PORTS_PER_POD_LIMIT


def parse(annotations: Mapping[str, str]) -> Declaration:
    return parse_declaration(annotations, namespace="shop", pod="cart-1")


def refuse(annotations: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """(code, annotation, item) of everything found."""
    with pytest.raises(Rejected) as caught:
        parse(annotations)
    assert {found.subject for found in caught.value.diagnostics} == {"Pod shop/cart-1"}
    return [
        (found.code, found.field.removeprefix("metadata.annotations[").removesuffix("]"), found.item)
        for found in caught.value.diagnostics
    ]


@pytest.mark.parametrize(
    ("ports", "spelled"),
    [
        ("8080", "8080"),
        ("8080,9090=h2,9000=tcp,53=tcp,53=udp", "8080 9090 9000=tcp 53=tcp 53=udp"),
        ("1=h1,2=h2,3=http2,4=grpc,5=tcp,6=udp", "1 2 3 4 5=tcp 6=udp"),
        (" 9000=tcp , 8080 ", "8080 9000=tcp"),
        ("443=tcp", "443=tcp"),
        ("53=udp", "53=udp"),
    ],
)
def test_ports_are_read_with_their_classes(ports: str, spelled: str) -> None:
    assert parse({keys.PORTS: ports}).ports == declared(spelled)


def test_every_http_port_has_a_codec_and_no_other_port() -> None:
    declaration = parse({keys.PORTS: "1,2=h1,3=h2,4=http2,5=grpc,6=tcp,7=udp"})
    assert declaration.codecs == ((1, Codec.H1), (2, Codec.H1), (3, Codec.H2), (4, Codec.H2), (5, Codec.H2))


@pytest.mark.parametrize(
    ("protocol", "port_class"), [("http", PortClass.HTTP), ("tcp", PortClass.TCP), ("udp", PortClass.UDP)]
)
def test_protocol_is_the_class_of_ports_without_a_suffix(protocol: str, port_class: PortClass) -> None:
    bare = DeclaredPort(8080, port_class)
    assert parse({keys.PROTOCOL: protocol}).ports == (bare,)
    assert parse({keys.PROTOCOL: protocol, keys.PORTS: "8080"}).ports == (bare,)
    assert parse({keys.PROTOCOL: protocol, keys.PORT: "8080"}).ports == (bare,)
    assert parse({keys.PROTOCOL: protocol, keys.PORTS: "9090=h2"}).ports == declared("9090")


def test_a_pod_that_says_nothing_of_ports_declares_8080() -> None:
    assert parse({}) == Declaration(
        ports=declared("8080"), codecs=((8080, Codec.H1),), liveness=DeclaredPort(8080, PortClass.HTTP)
    )


@pytest.mark.parametrize(
    ("annotations", "ports", "liveness"),
    [
        ({keys.PORT: "9000"}, "9000", "9000"),
        ({keys.PORT: "9000", keys.PORTS: "8080"}, "8080 9000", "9000"),
        ({keys.PORT: "9000", keys.PORTS: "8080,9000=tcp"}, "8080 9000=tcp", "9000=tcp"),
        ({keys.PORT: "53", keys.PORTS: "53=udp,53=tcp"}, "53=tcp 53=udp", "53=tcp"),
        ({keys.PORT: "53", keys.PORTS: "53=udp,9000=tcp"}, "53=udp 9000=tcp", "9000=tcp"),
        ({keys.PORT: " 9000 ", keys.PROTOCOL: "tcp"}, "9000=tcp", "9000=tcp"),
        ({keys.PORTS: "9000=tcp,9090,8080"}, "8080 9000=tcp 9090", "8080"),
        ({keys.PORTS: "9000=tcp,7000=tcp"}, "7000=tcp 9000=tcp", "7000=tcp"),
        ({keys.PORTS: "53=udp"}, "53=udp", ""),
    ],
    ids=str,
)
def test_liveness_probes_the_port_port_else_the_lowest_http_else_the_lowest_tcp(
    annotations: Mapping[str, str], ports: str, liveness: str
) -> None:
    declaration = parse(annotations)
    assert declaration.ports == declared(ports)
    assert declaration.liveness == (declared(liveness)[0] if liveness else None)


@pytest.mark.parametrize(
    "item",
    ["", "x", "0", "080", "65536", "8080=", "8080=H2", "8080=http", "8080=h3", "8080=tcp=udp", "=tcp", "80 80", "-1"],
)
def test_an_item_that_is_no_port_is_named(item: str) -> None:
    assert refuse({keys.PORTS: f"9090,{item},9000=tcp"}) == [("bad-port", keys.PORTS, item)]


@pytest.mark.parametrize("text", ["", "8080,9090", "8080=tcp", "x"])
def test_port_is_one_number(text: str) -> None:
    assert refuse({keys.PORT: text}) == [("bad-port", keys.PORT, text)]


@pytest.mark.parametrize("number", sorted(RESERVED_PORTS))
@pytest.mark.parametrize("suffix", ["", "=h2", "=tcp", "=udp"])
def test_a_reserved_number_is_refused_in_any_transport(number: int, suffix: str) -> None:
    item = f"{number}{suffix}"
    assert refuse({keys.PORTS: f"8080,{item}"}) == [("reserved-port", keys.PORTS, item)]
    assert refuse({keys.PORT: str(number)}) == [("reserved-port", keys.PORT, str(number))]


@pytest.mark.parametrize("ports", ["80,80", "80=tcp,80", "80=h1,80=h2", "80=tcp,80=tcp", "80=udp,80=udp"])
def test_a_number_twice_in_one_transport_is_refused_whatever_the_classes(ports: str) -> None:
    assert refuse({keys.PORTS: ports}) == [("duplicate-port", keys.PORTS, ports.split(",")[1])]


def test_sixty_four_ports_are_fine_and_too_many_are_one_clear_error() -> None:
    assert len(parse({keys.PORTS: ",".join(str(number) for number in range(1, 65))}).ports) == 64
    most = ",".join(str(number) for number in range(1, PORTS_PER_POD_LIMIT + 1))
    assert len(parse({keys.PORTS: most}).ports) == PORTS_PER_POD_LIMIT
    too_many = [("too-many-ports", keys.PORTS, str(PORTS_PER_POD_LIMIT + 1))]
    assert refuse({keys.PORTS: f"{most},9000"}) == too_many
    assert refuse({keys.PORTS: most, keys.PORT: "9000"}) == too_many


@pytest.mark.parametrize("text", ["", "h2", "HTTP", "sctp"])
def test_an_unknown_protocol_is_refused(text: str) -> None:
    assert refuse({keys.PROTOCOL: text}) == [("bad-protocol", keys.PROTOCOL, text)]


def test_an_upstream_without_a_namespace_is_the_pods_own() -> None:
    assert parse({keys.UPSTREAMS: "pay, bank/ledger,pay,shop/pay"}).upstreams == (
        ServiceId("bank", "ledger"),
        ServiceId("shop", "pay"),
    )


@pytest.mark.parametrize("text", ["", " "])
def test_no_upstreams_are_none(text: str) -> None:
    assert parse({keys.UPSTREAMS: text}).upstreams == ()


@pytest.mark.parametrize("item", ["", "a/b/c", "/a", "a/", "Pay", "a.b", "pay:80", "1pay", "x" * 64])
def test_an_item_that_is_no_service_is_named(item: str) -> None:
    assert refuse({keys.UPSTREAMS: f"pay,{item},bank/ledger"}) == [("bad-upstream", keys.UPSTREAMS, item)]


@pytest.mark.parametrize("key", [keys.REDIRECT_ALL, keys.MANAGED])
@pytest.mark.parametrize("text", ["", "no", "False", "0"])
def test_a_flag_is_true_or_false(key: str, text: str) -> None:
    assert refuse({key: text}) == [("bad-flag", key, text)]


def test_flags_are_read() -> None:
    assert parse({}).is_captured
    assert not parse({keys.REDIRECT_ALL: "false"}).is_captured
    assert parse({keys.REDIRECT_ALL: "true"}).is_captured
    assert not parse({keys.MANAGED: "false"}).is_managed


def test_excluded_ports_are_ranges_in_order_that_do_not_touch() -> None:
    assert parse({keys.EXCLUDED_PORTS: "9000-9010, 5432,9005-9020,9021,5432"}).excluded_ports == (
        (5432, 5432),
        (9000, 9021),
    )
    assert parse({keys.EXCLUDED_PORTS: ""}).excluded_ports == ()


@pytest.mark.parametrize("item", ["", "0", "x", "10-5", "5-", "-5", "1-2-3", "65536", "80 - 90"])
def test_an_item_that_is_no_range_of_ports_is_named(item: str) -> None:
    assert refuse({keys.EXCLUDED_PORTS: f"80,{item},90"}) == [("bad-port-range", keys.EXCLUDED_PORTS, item)]


def test_excluded_ranges_are_networks_of_both_families_that_do_not_overlap() -> None:
    text = "fd00::/8, 10.0.0.0/9,10.128.0.0/9,10.1.0.0/16,192.0.2.7,fd00:1::/32"
    assert parse({keys.EXCLUDED_RANGES: text}).excluded_ranges == ("10.0.0.0/8", "192.0.2.7/32", "fd00::/8")
    assert parse({keys.EXCLUDED_RANGES: ""}).excluded_ranges == ()


@pytest.mark.parametrize("item", ["", "x", "10.0.0.1/8", "10.0.0.0/33", "10.0.0.0-10.0.0.9", "fd00::1/8"])
def test_an_item_that_is_no_network_is_named(item: str) -> None:
    assert refuse({keys.EXCLUDED_RANGES: f"10.0.0.0/8,{item}"}) == [("bad-range", keys.EXCLUDED_RANGES, item)]


def test_a_weight_is_a_number_within_the_limit() -> None:
    assert parse({}).weight == 1
    assert parse({keys.WEIGHT: "10000"}).weight == 10_000


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "10001", "01", "123456", "x"])
def test_another_weight_is_refused(text: str) -> None:
    assert refuse({keys.WEIGHT: text}) == [("bad-weight", keys.WEIGHT, text)]


def test_a_socket_is_an_absolute_path() -> None:
    assert parse({}).uds_socket == ""
    assert parse({keys.UDS_SOCKET: "/run/app/http.sock"}).uds_socket == "/run/app/http.sock"
    assert parse({keys.UDS_SOCKET: "/" + "x" * 106}).uds_socket == "/" + "x" * 106


@pytest.mark.parametrize(
    "text", ["", "app.sock", "/", "/run/", "/run/../app.sock", "/run/\0", "/" + "x" * 107, "/" + "é" * 54, "@abstract"]
)
def test_another_socket_is_refused(text: str) -> None:
    assert refuse({keys.UDS_SOCKET: text}) == [("bad-socket", keys.UDS_SOCKET, text)]


def test_everything_wrong_is_found_at_once() -> None:
    assert refuse({keys.PORTS: "8080=x,0,18081,80,80", keys.PORT: "y", keys.WEIGHT: "0", keys.MANAGED: "1"}) == [
        ("bad-port", keys.PORTS, "8080=x"),
        ("bad-port", keys.PORTS, "0"),
        ("reserved-port", keys.PORTS, "18081"),
        ("duplicate-port", keys.PORTS, "80"),
        ("bad-port", keys.PORT, "y"),
        ("bad-weight", keys.WEIGHT, "0"),
        ("bad-flag", keys.MANAGED, "1"),
    ]


def test_an_error_says_pod_annotation_and_item() -> None:
    with pytest.raises(Rejected, match="8080=x") as caught:
        parse({keys.PORTS: "8080=x"})
    assert str(caught.value) == (
        "Pod shop/cart-1: metadata.annotations[endpoint.aether.io/ports]: "
        "port '8080=x': unknown suffix 'x', use one of h1, h2, http2, grpc, tcp, udp"
    )


def test_keys_of_others_are_ignored() -> None:
    assert parse({"example.org/ports": "x", "endpoint.aether.io": "y"}) == parse({})


@pytest.mark.parametrize(("text", "expected"), [("false", False), ("true", True), ("no", True)])
def test_a_pod_is_in_the_mesh_unless_it_says_no_clearly(text: str, expected: bool) -> None:
    assert is_managed({keys.MANAGED: text}) is expected
    assert is_managed({})


def test_an_account_that_is_a_label_can_name_a_service() -> None:
    validate_account(namespace="shop", account="x" * 63, pod="cart-1")


@pytest.mark.parametrize("account", ["", "1cart", "cart.v2", "Cart", "x" * 64])
def test_another_account_is_refused_naming_pod_and_account(account: str) -> None:
    with pytest.raises(Rejected) as caught:
        validate_account(namespace="shop", account=account, pod="cart-1")
    (found,) = caught.value.diagnostics
    assert (found.code, found.subject, found.field, found.item) == (
        "bad-account",
        "Pod shop/cart-1",
        "spec.serviceAccountName",
        account,
    )
