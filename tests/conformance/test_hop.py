"""The rendered mesh hop on a real Envoy: who is presented, what failures are called, what passes unchanged.

Source and destination stand on loopback instead of in pods' namespaces: a PROXY header says what was dialled.
"""

import concurrent.futures
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import msgspec
import pytest
from tests.support.app import applications
from tests.support.certificates import Authority
from tests.support.envoy import (
    AdsServer,
    EnvoyProcess,
    at_address,
    on_loopback,
    with_factory,
    without_namespace,
)
from tests.support.facts import generated, local_pod, node_facts, row
from tests.support.http import Answer, HttpConnection, proxy_header
from tests.support.ports import free_ports

from aether.model.endpoint import Health
from aether.model.identity import WorkloadIdentity, agent_identity
from aether.plan.mesh.node import MeshContext, NodePlan, plan_cluster, plan_context, plan_node_in
from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.resource import Resource
from aether.render.envoy.secrets import render_certificate, render_validation
from aether.render.envoy.snapshot import render_cluster, render_snapshot

pytestmark = pytest.mark.envoy

CART_VIP, SICK_VIP, GONE_VIP, NEVER_VIP = "10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"


class Ports(msgspec.Struct, frozen=True):
    """Loopback ports: the applications' (`dead`: declared, and nobody listens), and each caller's listeners."""

    http: int
    raw: int
    dead: int
    shop: int
    blog: int
    shop_raw: int
    shop_proxy: int


class Mesh:
    """One Envoy with a destination `shop/cart` and the callers `shop/web` and `blog/web`."""

    def __init__(self, folder: Path) -> None:
        self.ports = Ports(*free_ports(7))
        self.log = folder / "access.log"
        self.authority = Authority()
        self.context = context_of(self.ports)
        self.plan = plan_node_in(self.context, observed=frozenset())
        self.ads = AdsServer(folder / "ads.sock", on_demand=self._find)
        self.snapshot = render_snapshot(self.plan, access_log=str(self.log))
        rest = [*self.snapshot[names.ENDPOINT].values(), *self.snapshot[names.ROUTE].values()]
        self.ads.put([*self.secrets(), *self.clusters(), *self.listeners(), *rest])
        settings = BootstrapSettings(
            node="n1", ads_socket=str(folder / "ads.sock"), admin_socket=str(folder / "admin.sock")
        )
        self.envoy = EnvoyProcess(render_bootstrap(settings), folder)

    def secrets(self) -> Iterator[Resource]:
        yield render_validation(names.CA_SECRET, self.authority.root_pem)
        yield render_certificate(names.NODE_SECRET, *self.authority.issue(str(agent_identity("aether.internal"))))
        for pod in self.plan.pods:
            for name in (pod.inbound_secret, pod.outbound_secret):
                yield render_certificate(name, *self.authority.issue(str(pod.identity)))

    def clusters(self) -> Iterator[Resource]:
        for resource in self.snapshot[names.CLUSTER].values():
            yield without_namespace(resource) if resource.name.startswith("app|") else resource

    def listeners(self) -> Iterator[Resource]:
        held = self.snapshot[names.LISTENER]
        cart, shop, blog = (uid_of(self.plan, name) for name in ("cart-1", "shop-web", "blog-web"))
        yield at_address(held[names.inbound_listener(cart)], ADDRESS)
        yield on_loopback(held[names.capture_listener(shop)], self.ports.shop)
        yield on_loopback(held[names.capture_listener(blog)], self.ports.blog)
        yield on_loopback(held[names.raw_listener(shop)], self.ports.shop_raw)
        yield on_loopback(held[names.proxy_listener(shop)], self.ports.shop_proxy)

    def get(self, host: str, *, dialled: tuple[str, int], path: str = "/", listener: int = 0) -> Answer:
        connection = HttpConnection(listener or self.ports.shop, dialled=dialled)
        try:
            return connection.get(host, path=path)
        finally:
            connection.close()

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _find(self, name: str) -> list[Resource]:
        if name.startswith("never."):
            return []
        return [each for each in render_cluster(plan_cluster(name, self.context), self.context.facts.config) if each]


def uid_of(plan: NodePlan, pod: str) -> str:
    return next(each.uid for each in plan.pods if each.pod == pod)


ADDRESS = f"127.{os.getpid() % 250 + 1}.{os.getpid() // 250 % 250}.2"
"""The destination pod's: 18008 is a fixed port, so each test process has an address of its own."""


def context_of(ports: Ports) -> MeshContext:
    declared = f"{ports.http} {ports.dead} {ports.raw}=tcp"
    annotated = declared.replace(" ", ",")
    return plan_context(
        node_facts(
            rows=[
                row("shop/cart", declared, address=ADDRESS),
                row("shop/sick", declared, address="10.244.9.9", health=Health.UNHEALTHY),
            ],
            services=[
                generated("shop/cart", CART_VIP, ports=declared),
                generated("shop/sick", SICK_VIP, ports=declared),
                generated("shop/gone", GONE_VIP, ports=declared),
                generated("shop/never", NEVER_VIP, ports=declared),
            ],
            pods=[
                local_pod("cart-1", ADDRESS, namespace="shop", account="cart", ports=annotated),
                local_pod("shop-web", "10.244.0.2", namespace="shop", account="web"),
                local_pod("blog-web", "10.244.0.3", namespace="blog", account="web"),
            ],
        )
    )


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    mesh = Mesh(tmp_path_factory.mktemp("hop"))
    with mesh.envoy, applications(http=mesh.ports.http, raw=mesh.ports.raw):
        mesh.envoy.wait_live()
        yield mesh
    mesh.ads.stop()
    assert not mesh.ads.rejected


def presented(answer: Answer) -> str:
    """The caller that the destination saw."""
    return str(json.loads(answer.body)["x-forwarded-client-cert"]).rpartition("URI=")[2]


def test_a_request_arrives_as_the_caller_with_nothing_of_the_mesh_in_it(mesh: Mesh) -> None:
    answer = mesh.get("cart.shop", dialled=(CART_VIP, mesh.ports.http), path="/some/path?q=1")
    seen = json.loads(answer.body)
    assert (answer.status, seen["path"], seen["host"]) == (200, "/some/path?q=1", "cart.shop")
    assert presented(answer) == "spiffe://aether.internal/ns/shop/sa/web"
    assert set(seen) == {"path", "host", "x-forwarded-client-cert", "x-forwarded-proto"}


def test_two_callers_of_one_cluster_are_never_each_other(mesh: Mesh) -> None:
    assert ask_as_both(mesh, rounds=40) == 0


def test_with_a_factory_that_is_not_hashable_one_caller_speaks_as_the_other(tmp_path: Path) -> None:
    """The trap that the test above must be able to see. Either key alone would still part the pools."""
    spoiled = Mesh(tmp_path)
    for key in (names.IDENTITY_KEY, names.NETNS_KEY):
        spoiled.ads.put(with_factory(each, key, "envoy.string") for each in spoiled.ads.held(names.LISTENER))
    with spoiled.envoy, applications(http=spoiled.ports.http, raw=spoiled.ports.raw):
        spoiled.envoy.wait_live()
        assert ask_as_both(spoiled, rounds=40) > 0
    spoiled.ads.stop()


def ask_as_both(mesh: Mesh, *, rounds: int) -> int:
    """How many of many parallel requests of two callers arrived as the wrong one."""

    def ask(number: int) -> bool:
        caller, listener = [("shop", mesh.ports.shop), ("blog", mesh.ports.blog)][number % 2]
        answer = mesh.get("cart.shop", dialled=(CART_VIP, mesh.ports.http), listener=listener)
        return presented(answer) != f"spiffe://aether.internal/ns/{caller}/sa/web"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return sum(pool.map(ask, range(2 * rounds)))


@pytest.mark.parametrize(
    ("host", "address", "word"),
    [
        ("gone.shop", GONE_VIP, "no-endpoint"),
        ("sick.shop", SICK_VIP, "unhealthy"),
        ("never.shop", NEVER_VIP, "cold-timeout"),
    ],
)
def test_what_cannot_be_served_is_503_with_its_word_in_the_answer_and_the_log(
    mesh: Mesh, host: str, address: str, word: str
) -> None:
    answer = mesh.get(host, dialled=(address, mesh.ports.http))
    assert (answer.status, answer.headers[names.ERROR_HEADER]) == (503, word)
    assert word in answer.body
    mesh.envoy.wait(lambda: (host, word) in [(each["authority"], each.get("error")) for each in mesh.lines()], word)


def test_an_application_that_does_not_listen_refuses_and_both_ends_say_so(mesh: Mesh) -> None:
    answer = mesh.get(f"cart.shop:{mesh.ports.dead}", dialled=(CART_VIP, mesh.ports.dead))
    assert (answer.status, answer.headers[names.ERROR_HEADER]) == (503, "upstream-refused")
    mesh.envoy.wait(
        lambda: (
            {"captured", "inbound"}
            <= {str(each["entry"]) for each in mesh.lines() if "upstream-refused" in each.values()}
        ),
        "both lines",
    )


def test_a_peer_with_another_identity_is_not_spoken_to(mesh: Mesh) -> None:
    name = f"cart.shop.aether.internal:{mesh.ports.http}"
    right = plan_cluster(name, mesh.context)
    wrong = msgspec.structs.replace(right, pinned=WorkloadIdentity("aether.internal", "shop", "mallory"))
    config = mesh.context.facts.config

    def ask() -> Answer:
        return mesh.get("cart.shop", dialled=(CART_VIP, mesh.ports.http))

    try:
        mesh.ads.put(each for each in render_cluster(wrong, config) if each)
        mesh.envoy.wait(lambda: ask().headers.get(names.ERROR_HEADER) == "upstream-identity", "the refusal")
    finally:
        mesh.ads.put(each for each in render_cluster(right, config) if each)
    mesh.envoy.wait(lambda: ask().status == 200, "the right peer")


def test_a_caller_with_an_expired_certificate_is_told_that_it_is_a_matter_of_identity(mesh: Mesh) -> None:
    pod = next(each for each in mesh.plan.pods if each.pod == "blog-web")

    def ask() -> str | None:
        answer = mesh.get("cart.shop", dialled=(CART_VIP, mesh.ports.dead), listener=mesh.ports.blog)
        return answer.headers.get(names.ERROR_HEADER)

    mesh.ads.put([render_certificate(pod.outbound_secret, *mesh.authority.issue(str(pod.identity), is_expired=True))])
    mesh.envoy.wait(lambda: ask() == "upstream-identity", "the refusal")
    mesh.ads.put([render_certificate(pod.outbound_secret, *mesh.authority.issue(str(pod.identity)))])
    mesh.envoy.wait(lambda: ask() == "upstream-refused", "the application's own refusal")


@pytest.mark.parametrize("status", [200, 421, 500, 503])
def test_an_applications_own_status_is_passed_on_without_a_word_of_the_mesh(mesh: Mesh, status: int) -> None:
    answer = mesh.get("cart.shop", dialled=(CART_VIP, mesh.ports.http), path=f"/status/{status}")
    assert answer.status == status
    assert names.ERROR_HEADER not in answer.headers
    assert json.loads(answer.body)["path"] == f"/status/{status}"


def test_a_server_that_speaks_first_is_heard_at_once_through_the_hop(mesh: Mesh) -> None:
    with socket.create_connection(("127.0.0.1", mesh.ports.shop_raw), timeout=5) as connection:
        connection.sendall(proxy_header(CART_VIP, mesh.ports.raw))
        assert connection.recv(64) == b"hello\n"
        connection.sendall(b"more")
        assert connection.recv(64) == b"MORE"


def test_a_raw_port_without_endpoints_is_closed(mesh: Mesh) -> None:
    with socket.create_connection(("127.0.0.1", mesh.ports.shop_raw), timeout=5) as connection:
        connection.sendall(proxy_header(GONE_VIP, mesh.ports.raw))
        assert connection.recv(64) == b""


def test_a_web_socket_passes_end_to_end(mesh: Mesh) -> None:
    handshake = "GET / HTTP/1.1\r\nHost: cart.shop\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with socket.create_connection(("127.0.0.1", mesh.ports.shop), timeout=5) as connection:
        connection.sendall(proxy_header(CART_VIP, mesh.ports.http) + handshake.encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert head.startswith(b"HTTP/1.1 101")
        connection.sendall(b"ping")
        assert connection.recv(64) == b"PING"


def test_a_grpc_client_is_refused_in_its_own_words(mesh: Mesh) -> None:
    options = [("grpc.default_authority", "cart.shop"), ("grpc.enable_retries", 0)]
    channel = grpc.insecure_channel(f"127.0.0.1:{mesh.ports.shop_proxy}", options=options)
    with channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/some.Service/Method")(b"", timeout=5)
    call = refused.value
    assert isinstance(call, grpc.Call)
    assert call.code() is grpc.StatusCode.UNKNOWN
    assert str(call.details()).startswith("cart.shop serves ")
    metadata = {**dict(call.initial_metadata() or ()), **dict(call.trailing_metadata() or ())}
    assert metadata[names.ERROR_HEADER] == "port-required"
    mesh.envoy.wait(lambda: "port-required" in [each.get("error") for each in mesh.lines()], "the line of the refusal")


def test_readiness_is_true_only_while_the_inbound_accepts_the_node(mesh: Mesh) -> None:
    uid = uid_of(mesh.plan, "cart-1")
    gauge = names.probe_healthy_stat(uid)
    secret = next(pod.inbound_secret for pod in mesh.plan.pods if pod.uid == uid)
    identity = str(WorkloadIdentity("aether.internal", "shop", "cart"))

    def is_ready() -> bool:
        return f"{gauge}: 1" in mesh.envoy.admin("/stats")

    mesh.envoy.wait(is_ready, "readiness")
    mesh.ads.put([render_certificate(secret, *mesh.authority.issue(identity, is_expired=True))])
    mesh.envoy.wait(lambda: not is_ready(), "an expired certificate to be noticed")
    mesh.ads.put([render_certificate(secret, *mesh.authority.issue(identity))])
    mesh.envoy.wait(is_ready, "readiness to come back")
