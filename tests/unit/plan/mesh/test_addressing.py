"""The table of spec section 3, row by row, and the rulings B and C on it."""

import pytest
from tests.support.facts import generated, node_facts, row, service_id, user_service

from aether.model.ports import PortClass, Transport
from aether.plan.capture import plan_mesh_sets
from aether.plan.mesh.addressing import (
    NAME_LIMIT_BYTES,
    Deliver,
    EntryPath,
    HttpRequest,
    NotFound,
    Outcome,
    PassThrough,
    RawConnection,
    Reason,
    Refuse,
    answer_http,
    answer_raw,
    find_port,
    is_mesh_address,
    refusal_body,
    refusal_ports,
)
from aether.plan.mesh.clusters import plan_context
from aether.plan.mesh.services import ServicePort

CONTEXT = plan_context(
    node_facts(
        rows=[
            row("red/web", "80 8080 9000=tcp 5353=udp", address="10.244.1.1"),
            row("red/bus", "8080=tcp", address="10.244.1.2"),
            row("red/echo", "8080 80=tcp", address="10.244.1.3"),
            row("blue/echo", "8080 80=udp", address="10.244.1.4"),
            row("blue/rare", "8080", address="fd00:244:1::5"),
            row("red/own", "8080 7000 9000=tcp", address="10.244.1.6"),
            row("red/ring", "8000 7000=tcp 53=udp", address="10.244.1.7"),
            row("red/ring", "8000=tcp 18081", address="10.244.1.8"),
        ],
        services=[
            generated("red/web", "10.96.0.1", "fd96::1"),
            generated("red/bus", "10.96.0.2"),
            generated("red/echo", "10.96.0.3"),
            generated("blue/echo", "10.96.0.4"),
            generated("blue/rare", "10.96.0.5"),
            generated("blue/gone", "10.96.0.8", ports="8080"),
            user_service("red/own", "10.96.0.6", ports="80:8080 3306:9000 7000:8080"),
            user_service("red/ring", ports="8000:8000"),
            user_service("red/plain", "10.96.0.9", ports="80:80"),
        ],
    )
)
DIRECTORY = CONTEXT.directory

WEB, WEB6, BUS, ECHO, RARE, GONE, OWN, PLAIN = (
    "10.96.0.1", "fd96::1", "10.96.0.2", "10.96.0.3", "10.96.0.5", "10.96.0.8", "10.96.0.6", "10.96.0.9"
)  # fmt: skip
NAMES = ("web.red.aether.internal", "web.red.svc.cluster.local", "web.red.svc", "web.red", "web")
PASS, NOT_FOUND = PassThrough(), NotFound()


def captured(authority: str, address: str, port: int, namespace: str | None = "red") -> Outcome:
    request = HttpRequest(
        path=EntryPath.CAPTURED,
        authority=authority,
        dialled_address=address,
        dialled_port=port,
        caller_namespace=namespace,
    )
    return answer_http(request, DIRECTORY)


def through_proxy(authority: str, namespace: str | None = "red") -> Outcome:
    request = HttpRequest(
        path=EntryPath.PROXY_PORT,
        authority=authority,
        dialled_address="127.0.0.1",
        dialled_port=18081,
        caller_namespace=namespace,
    )
    return answer_http(request, DIRECTORY)


def raw(address: str, port: int) -> Outcome:
    return answer_raw(RawConnection(dialled_address=address, dialled_port=port), DIRECTORY)


def deliver(service: str, port: int, target: int = 0, cluster: str = "") -> Deliver:
    owner = service_id(service)
    name = cluster or f"{owner.name}.{owner.namespace}.aether.internal:{port}"
    return Deliver(owner, port, target or port, name)


def refuse(reason: Reason, service: str = "red/web") -> Refuse:
    return Refuse(reason, service_id(service))


MISMATCH, REQUIRED, NOT_DECLARED, NOT_HTTP, CALLER_UNKNOWN = (
    Reason.PORT_MISMATCH,
    Reason.PORT_REQUIRED,
    Reason.PORT_NOT_DECLARED,
    Reason.PORT_NOT_HTTP,
    Reason.CALLER_NAMESPACE_UNKNOWN,
)


# Captured


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}." for name in NAMES), *(name.upper() for name in NAMES)])
@pytest.mark.parametrize(
    ("dialled", "host_port", "outcome"),
    [
        (8080, "", deliver("red/web", 8080)),
        (8080, ":8080", deliver("red/web", 8080)),
        (80, "", deliver("red/web", 80)),
        (80, ":80", deliver("red/web", 80)),
        (8080, ":80", refuse(MISMATCH)),
        (8080, ":9000", refuse(MISMATCH)),
        (8080, ":7777", refuse(MISMATCH)),
        (8080, ":18081", refuse(MISMATCH)),
        (7777, "", refuse(NOT_DECLARED)),
        (7777, ":7777", refuse(NOT_DECLARED)),
        (7777, ":8080", refuse(NOT_DECLARED)),
        (7777, ":18082", refuse(NOT_DECLARED)),
        (5353, "", refuse(NOT_DECLARED)),
        (5353, ":5353", refuse(NOT_DECLARED)),
    ],
)
def test_captured_the_dialled_port_decides_and_host_names_the_service(
    name: str, dialled: int, host_port: str, outcome: Outcome
) -> None:
    assert captured(f"{name}{host_port}", WEB, dialled) == outcome
    assert captured(f"{name}{host_port}", WEB6, dialled) == outcome


@pytest.mark.parametrize("authority", ["web.red:9000", "example.org", "", "echo.blue:8080"])
def test_a_raw_tcp_port_takes_the_bytes_whatever_host_says(authority: str) -> None:
    assert captured(authority, WEB, 9000) == deliver("red/web", 9000, cluster="tcp|10.96.0.1:9000")
    assert captured(authority, WEB6, 9000) == deliver("red/web", 9000, cluster="tcp|[fd96::1]:9000")


@pytest.mark.parametrize(
    "text", ["", "0", "080", "08080", "65536", "99999", "123456", "http", "+8080", "8080x", " 8080"]
)
def test_a_port_text_that_is_no_port_is_one_nobody_declares(text: str) -> None:
    assert captured(f"web.red:{text}", WEB, 8080) == refuse(MISMATCH)
    assert captured(f"web.red:{text}", WEB, 7777) == refuse(NOT_DECLARED)
    assert through_proxy(f"web.red:{text}") == refuse(NOT_DECLARED)


@pytest.mark.parametrize(
    "authority",
    ["example.org", "web.green", "nobody", "10.96.0.1:8080", "[fd96::1]:8080", "web.red:80:80", "", "web.red.example"],
)
def test_a_name_that_is_no_mesh_service_passes_through_or_is_not_found(authority: str) -> None:
    assert captured(authority, WEB, 8080) == PASS
    assert through_proxy(authority) == NOT_FOUND


@pytest.mark.parametrize("authority", ["web.red", "web.red.aether.internal:8080", "echo", "web.red:18081"])
@pytest.mark.parametrize("address", ["192.0.2.1", "10.96.99.9", PLAIN, "2001:db8::1"])
@pytest.mark.parametrize("port", [80, 8080, 18081])
def test_what_is_dialled_elsewhere_passes_through_whatever_host_says(authority: str, address: str, port: int) -> None:
    assert captured(authority, address, port) == PASS
    assert raw(address, port) == PASS


def test_one_number_is_http_for_one_service_and_raw_tcp_for_another() -> None:
    assert captured("web.red", WEB, 8080) == deliver("red/web", 8080)
    assert raw(WEB, 8080) == PASS
    assert raw(BUS, 8080) == captured("bus.red", BUS, 8080) == deliver("red/bus", 8080, cluster="tcp|10.96.0.2:8080")


def test_host_names_the_service_also_when_anothers_address_was_dialled() -> None:
    assert captured("rare.blue", WEB, 8080) == deliver("blue/rare", 8080)
    assert captured("rare.blue", WEB, 80) == refuse(NOT_DECLARED, "blue/rare")
    assert captured("rare.blue:80", WEB, 8080) == refuse(MISMATCH, "blue/rare")


def test_http_that_reaches_anothers_raw_tcp_port_is_refused_and_never_delivered() -> None:
    assert captured("bus.red", WEB, 8080) == refuse(NOT_HTTP, "red/bus")
    assert captured("bus.red:8080", WEB, 8080) == refuse(NOT_HTTP, "red/bus")


def test_a_service_without_endpoints_keeps_its_answers() -> None:
    assert captured("gone.blue", GONE, 8080) == deliver("blue/gone", 8080)
    assert captured("gone.blue", GONE, 80) == refuse(NOT_DECLARED, "blue/gone")


# Short names


def test_a_short_name_means_the_callers_namespace_and_no_other() -> None:
    for authority in ("echo", "ECHO.", "echo:8080"):
        assert captured(authority, WEB, 8080, "red") == deliver("red/echo", 8080)
        assert captured(authority, WEB, 8080, "blue") == deliver("blue/echo", 8080)
        assert captured(authority, WEB, 8080, "green") == PASS
    assert through_proxy("echo:8080", "red") == deliver("red/echo", 8080)
    assert through_proxy("echo:8080", "green") == NOT_FOUND
    assert through_proxy("echo.red:8080", "green") == deliver("red/echo", 8080)


def test_a_short_name_that_only_another_namespace_has_is_any_other_name() -> None:
    assert captured("rare", WEB, 8080, "red") == PASS
    assert through_proxy("rare:8080", "red") == NOT_FOUND
    assert through_proxy("rare:18081", "red") == NOT_FOUND


def test_a_short_name_without_a_caller_namespace_is_refused_if_some_namespace_has_it() -> None:
    assert captured("echo", WEB, 8080, None) == refuse(CALLER_UNKNOWN, "blue/echo")
    assert through_proxy("echo:8080", None) == refuse(CALLER_UNKNOWN, "blue/echo")
    assert captured("nobody", WEB, 8080, None) == PASS
    assert through_proxy("nobody", None) == NOT_FOUND


def test_full_names_need_no_caller_namespace() -> None:
    assert captured("echo.red", WEB, 8080, None) == deliver("red/echo", 8080)
    assert through_proxy("echo.red.svc:8080", None) == deliver("red/echo", 8080)


# The proxy port


@pytest.mark.parametrize("name", [*NAMES, *(name.upper() for name in NAMES)])
@pytest.mark.parametrize(
    ("host_port", "outcome"),
    [
        ("", deliver("red/web", 80)),
        (":80", deliver("red/web", 80)),
        (":8080", deliver("red/web", 8080)),
        (":9000", refuse(NOT_HTTP)),
        (":5353", refuse(NOT_HTTP)),
        (":7777", refuse(NOT_DECLARED)),
        (":18081", refuse(NOT_DECLARED)),
        (":18082", refuse(NOT_DECLARED)),
    ],
)
def test_on_the_proxy_port_the_port_in_host_is_the_port(name: str, host_port: str, outcome: Outcome) -> None:
    assert through_proxy(f"{name}{host_port}") == outcome
    assert captured(f"{name}{host_port}", ECHO, 18081) == outcome
    assert captured(f"{name}{host_port}", "10.244.1.1", 18081) == outcome


def test_a_host_without_a_port_is_port_80_or_refused() -> None:
    assert through_proxy("rare.blue") == refuse(REQUIRED, "blue/rare")
    assert through_proxy("echo.red") == refuse(NOT_HTTP, "red/echo")
    assert through_proxy("echo.blue") == refuse(NOT_HTTP, "blue/echo")


@pytest.mark.parametrize(
    "name", ["ghost.red.aether.internal", "ghost.red.svc.cluster.local", "ghost.red.svc", "ghost.red", "GHOST.red."]
)
@pytest.mark.parametrize("port", [18081, 18082])
def test_the_proxys_own_port_is_refused_at_once_though_the_name_is_unknown(name: str, port: int) -> None:
    assert through_proxy(f"{name}:{port}") == refuse(NOT_DECLARED, "red/ghost")
    assert captured(f"{name}:{port}", WEB, 18081) == refuse(NOT_DECLARED, "red/ghost")
    assert through_proxy(f"{name}:8080") == NOT_FOUND


# Services whose names a user Service owns


def test_a_user_owned_service_is_reached_by_its_mesh_name_at_its_pods_http_ports() -> None:
    name = "own.red.aether.internal"
    assert captured(name, OWN, 8080) == captured(f"{name}:8080", WEB, 8080) == deliver("red/own", 8080)


def test_a_pod_port_whose_number_the_map_means_otherwise_has_a_cluster_of_its_own() -> None:
    outcome = captured("own.red.aether.internal", OWN, 7000)
    assert outcome == deliver("red/own", 7000, cluster="own|own.red.aether.internal:7000")


@pytest.mark.parametrize(
    ("authority", "port"),
    [
        ("own.red.aether.internal", 80),
        ("own.red.aether.internal:80", 80),
        ("own.red.aether.internal", 9000),
        ("own.red.aether.internal:80", 8080),
        ("own.red.aether.internal:x", 8080),
        ("own.red.aether.internal", 7777),
        ("own.red.svc.cluster.local", 8080),
        ("own.red.svc", 8080),
        ("own.red", 8080),
        ("own", 8080),
        ("web.red", 3306),
    ],
)
def test_every_other_captured_dial_of_it_passes_through_and_is_never_refused(authority: str, port: int) -> None:
    assert captured(authority, OWN, port) == PASS
    assert raw(OWN, port) == PASS


def test_on_the_proxy_port_the_users_map_decides() -> None:
    assert through_proxy("own.red.aether.internal") == deliver("red/own", 80, 8080)
    assert through_proxy("own.red.aether.internal:80") == deliver("red/own", 80, 8080)
    assert through_proxy("own.red.aether.internal:7000") == deliver("red/own", 7000, 8080)
    assert through_proxy("own.red.aether.internal:3306") == refuse(NOT_HTTP, "red/own")
    assert through_proxy("own.red.aether.internal:8080") == refuse(NOT_DECLARED, "red/own")


@pytest.mark.parametrize("name", ["own.red.svc.cluster.local", "own.red.svc", "own.red", "own"])
def test_its_kubernetes_and_short_names_stay_unanswered(name: str) -> None:
    assert through_proxy(f"{name}:80") == NOT_FOUND
    assert captured(name, WEB, 8080) == PASS


# Pod addresses


@pytest.mark.parametrize("authority", ["ring.red", "web.red:9", "example.org", "10.244.1.7:8000", "", "ring-7.ring"])
def test_a_dialled_pod_is_meant_whatever_host_says(authority: str) -> None:
    http = deliver("red/ring", 8000, cluster="pod|10.244.1.7:8000")
    assert captured(authority, "10.244.1.7", 8000, None) == http
    assert captured(authority, "10.244.1.7", 7000) == deliver("red/ring", 7000, cluster="tcp|10.244.1.7:7000")
    assert captured(authority, "10.244.1.7", 53) == refuse(NOT_DECLARED, "red/ring")
    assert captured(authority, "10.244.1.7", 7777) == refuse(NOT_DECLARED, "red/ring")


def test_a_pod_is_dialled_by_what_it_declares_itself() -> None:
    assert captured("", "10.244.1.8", 8000) == raw("10.244.1.8", 8000)
    assert raw("10.244.1.8", 8000) == deliver("red/ring", 8000, cluster="tcp|10.244.1.8:8000")


def test_a_pods_reserved_port_is_no_port() -> None:
    assert all(port[0] != 18081 for port in DIRECTORY.pods["10.244.1.8"].ports)


def test_raw_tcp_to_a_pod_is_delivered_at_its_raw_ports_only() -> None:
    assert raw("10.244.1.7", 7000) == deliver("red/ring", 7000, cluster="tcp|10.244.1.7:7000")
    assert raw("10.244.1.7", 8000) == raw("10.244.1.7", 7777) == PASS
    assert raw("fd00:244:1::5", 8080) == PASS


# Beside the table


def test_what_capture_takes_for_raw_tcp_is_answered_without_reading_host() -> None:
    sets = plan_mesh_sets(DIRECTORY.views.values(), DIRECTORY.pods.values())
    for address, port in sets.raw4 | sets.raw6:
        assert captured("web.red:80", address, port) == captured("example.org", address, port) == raw(address, port)


def test_mesh_addresses_are_those_of_services_and_pods() -> None:
    sets = plan_mesh_sets(DIRECTORY.views.values(), DIRECTORY.pods.values())
    for address in (*sets.mesh4, *sets.mesh6):
        assert is_mesh_address(address, DIRECTORY)
    assert not is_mesh_address(PLAIN, DIRECTORY)
    assert len(DIRECTORY.owners) + len(DIRECTORY.pods) == len(sets.mesh4) + len(sets.mesh6)


def test_an_address_that_two_services_claim_is_the_first_ones_by_name() -> None:
    facts = node_facts(services=[generated("red/b", "10.96.0.1"), generated("red/a", "10.96.0.1")])
    assert plan_context(facts).directory.owners == {"10.96.0.1": service_id("red/a")}


PORTS = DIRECTORY.views[service_id("red/web")].ports


@pytest.mark.parametrize(
    ("authority", "name"),
    [("web.red:7777", "web.red"), ("WEB.Red.:7777", "WEB.Red"), ("web", "web"), ("web.red:", "web.red")],
)
def test_a_refusal_names_the_service_as_spelled_and_lists_its_ports(authority: str, name: str) -> None:
    body = refusal_body(NOT_DECLARED, authority, PORTS)
    assert body == f"{name} serves 80=http, 5353=udp, 8080=http, 9000=tcp"


@pytest.mark.parametrize(
    ("host", "address", "port", "listed"),
    [
        ("web.red:1", WEB, 8080, "80=http, 5353=udp, 8080=http, 9000=tcp"),
        ("web.red", "10.244.1.7", 7777, "7000=tcp, 8000=http"),
        ("web.red:1", "10.244.1.7", 18081, "80=http, 5353=udp, 8080=http, 9000=tcp"),
        ("ghost.red:18081", WEB, 18081, ""),
        ("own.red:18081", WEB, 18081, ""),
        ("own.red.aether.internal:18081", WEB, 18081, "80=http, 3306=tcp, 7000=http"),
    ],
)
def test_a_refusal_lists_the_ports_of_the_dialled_pod_or_of_the_service(
    host: str, address: str, port: int, listed: str
) -> None:
    request = HttpRequest(
        path=EntryPath.CAPTURED, authority=host, dialled_address=address, dialled_port=port, caller_namespace="red"
    )
    refusal = answer_http(request, DIRECTORY)
    assert isinstance(refusal, Refuse)
    ports = refusal_ports(refusal, request, DIRECTORY)
    assert ", ".join(f"{found.number}={found.port_class}" for found in ports) == listed


def test_a_refusal_of_a_service_without_ports_says_so() -> None:
    assert refusal_body(NOT_DECLARED, "ghost.red:18081", ()) == "ghost.red serves no ports"


def test_a_refusal_for_want_of_a_caller_names_no_ports() -> None:
    body = refusal_body(CALLER_UNKNOWN, "echo:80", PORTS)
    assert body == "echo is a short name, and this connection does not carry its caller's namespace"


def test_a_refusal_repeats_253_bytes_of_a_name() -> None:
    assert refusal_body(NOT_DECLARED, "x" * 300, ()) == "x" * NAME_LIMIT_BYTES + " serves no ports"


def test_a_port_is_found_by_number_and_transport() -> None:
    ports = (ServicePort(53, PortClass.TCP, 53), ServicePort(53, PortClass.UDP, 53))
    assert find_port(ports, 53, Transport.UDP) == ports[1]
    assert find_port(ports, 53, Transport.TCP) == ports[0]
    assert find_port(ports, 54, Transport.TCP) is None
