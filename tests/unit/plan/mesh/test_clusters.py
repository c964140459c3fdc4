import msgspec
import pytest
from tests.support.facts import generated, node_facts, row, service_id, user_service

from aether.model.endpoint import EndpointRow, Health
from aether.model.facts import ServiceRecord
from aether.model.identity import WorkloadIdentity
from aether.model.ports import PortClass
from aether.plan.mesh.addressing import DialledPod, Reason
from aether.plan.mesh.clusters import (
    ClusterPlan,
    EndpointPlan,
    MeshCluster,
    PassThroughCluster,
    Tombstone,
    plan_cluster,
    plan_context,
)

CART = service_id("shop/cart")
PIN = WorkloadIdentity("aether.internal", "shop", "cart")
ROWS = (
    row("shop/cart", "8080 9000=tcp", address="10.244.1.2", weight=3),
    row("shop/cart", "8080", address="10.244.1.3", health=Health.DRAINING),
    row("shop/cart", "8080=tcp 9000", address="10.244.1.4", health=Health.UNHEALTHY),
)
SERVICE = generated("shop/cart", "10.96.0.5", "fd96::5")
USERS = user_service("shop/cart", "10.96.0.7", ports="80:8080 8080:9090 3306:9000")


def plan(name: str, *rows: EndpointRow, services: tuple[ServiceRecord, ...] = (SERVICE,)) -> ClusterPlan:
    return plan_cluster(name, plan_context(node_facts(rows=rows, services=services)))


def members(cluster: ClusterPlan) -> list[str]:
    assert isinstance(cluster, MeshCluster)
    return [endpoint.address for endpoint in cluster.endpoints]


def test_an_http_cluster_is_pinned_to_its_service_and_has_the_endpoints_of_its_port_and_class() -> None:
    assert plan("cart.shop.aether.internal:8080", *ROWS) == MeshCluster(
        name="cart.shop.aether.internal:8080",
        service=CART,
        server_name="8080",
        pinned=PIN,
        stat_key="shop/cart",
        is_http=True,
        endpoints=(
            EndpointPlan(address="10.244.1.2", health=Health.HEALTHY, weight=3, node="n1"),
            EndpointPlan(address="10.244.1.3", health=Health.DRAINING, weight=1, node="n1"),
        ),
    )


@pytest.mark.parametrize("address", ["10.96.0.5", "[fd96::5]"])
def test_a_raw_cluster_is_one_address_and_port_of_a_service(address: str) -> None:
    cluster = plan(f"tcp|{address}:9000", *ROWS[:2])
    assert cluster == MeshCluster(
        name=f"tcp|{address}:9000",
        service=CART,
        server_name="9000",
        pinned=PIN,
        stat_key="tcp_shop/cart_9000",
        is_http=False,
        endpoints=(EndpointPlan(address="10.244.1.2", health=Health.HEALTHY, weight=3, node="n1"),),
    )


def test_a_raw_dial_of_a_pod_has_that_pod_alone() -> None:
    others = row("shop/cart", "9000=tcp", address="10.244.1.9")
    cluster = plan("tcp|10.244.1.2:9000", *ROWS, others)
    assert members(cluster) == ["10.244.1.2"]
    assert isinstance(cluster, MeshCluster)
    assert (cluster.pinned, cluster.server_name, cluster.stat_key) == (PIN, "9000", "tcp_shop/cart_9000")


def test_a_raw_dial_of_a_pods_second_address_goes_to_its_first() -> None:
    dual = msgspec.structs.replace(ROWS[0], addresses=("10.244.1.2", "fd00:244:1::2"))
    assert members(plan("tcp|[fd00:244:1::2]:9000", dual)) == ["10.244.1.2"]


def test_an_http_dial_of_a_pod_is_that_pod_alone_pinned_to_its_service() -> None:
    assert plan("pod|10.244.1.2:8080", *ROWS) == MeshCluster(
        name="pod|10.244.1.2:8080",
        service=CART,
        server_name="8080",
        pinned=PIN,
        stat_key="shop/cart",
        is_http=True,
        endpoints=(EndpointPlan(address="10.244.1.2", health=Health.HEALTHY, weight=3, node="n1"),),
    )


def test_an_http_dial_of_a_pods_second_address_goes_to_its_first() -> None:
    dual = msgspec.structs.replace(ROWS[0], addresses=("10.244.1.2", "fd00:244:1::2"))
    assert members(plan("pod|[fd00:244:1::2]:8080", dual)) == ["10.244.1.2"]


@pytest.mark.parametrize("health", Health)
def test_a_dialled_pod_is_reached_whatever_its_health_since_the_client_chose_it(health: Health) -> None:
    cluster = plan("pod|10.244.1.2:8080", msgspec.structs.replace(ROWS[0], health=health))
    assert isinstance(cluster, MeshCluster)
    assert [endpoint.health for endpoint in cluster.endpoints] == [Health.HEALTHY]


def test_a_pod_is_dialled_by_what_it_declares_itself_however_the_vote_went() -> None:
    voted_down = (ROWS[0], row("shop/cart", "9000=tcp", address="10.244.1.5"), ROWS[2])
    assert members(plan("pod|10.244.1.4:9000", *voted_down)) == ["10.244.1.4"]


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        (7777, Reason.PORT_NOT_DECLARED),
        (53, Reason.PORT_NOT_DECLARED),
        (18081, Reason.PORT_NOT_DECLARED),
        (9000, Reason.PORT_NOT_HTTP),
    ],
)
def test_http_at_any_other_port_of_a_pod_is_refused_with_what_the_pod_serves(port: int, reason: Reason) -> None:
    name = f"pod|10.244.1.2:{port}"
    found = plan(name, row("shop/cart", "8080 9000=tcp 53=udp 18081", address="10.244.1.2"))
    assert found == Tombstone(name=name, reason=reason, listing="serves 8080=http, 9000=tcp")


def test_the_answer_for_a_pod_follows_its_row() -> None:
    assert isinstance(plan("pod|10.244.1.2:8080", *ROWS), MeshCluster)
    assert isinstance(plan("pod|10.244.1.2:8080", row("shop/cart", "80", address="10.244.1.2")), Tombstone)
    assert isinstance(plan("pod|10.244.1.2:8080", *ROWS[1:]), PassThroughCluster)


def test_a_service_without_endpoints_has_an_empty_cluster() -> None:
    bare = generated("shop/cart", "10.96.0.5", ports="8080 9000=tcp")
    assert members(plan("cart.shop.aether.internal:8080", services=(bare,))) == []
    assert members(plan("tcp|10.96.0.5:9000", services=(bare,))) == []


@pytest.mark.parametrize(
    "name",
    [
        "cart.shop.aether.internal:9000",
        "cart.shop.aether.internal:7777",
        "cart.shop.aether.internal:18081",
        "ghost.shop.aether.internal:8080",
        "pod|10.96.0.5:8080",
        "own|cart.shop.aether.internal:8080",
        "own|ghost.shop.aether.internal:8080",
        "tcp|10.96.0.5:8080",
        "tcp|10.96.0.5:7777",
        "tcp|10.244.1.2:8080",
        "tcp|10.244.1.2:7777",
        "no such name",
        "",
    ],
)
def test_a_name_that_is_nobodys_is_a_tombstone(name: str) -> None:
    reserved = row("shop/cart", "8080 9000=tcp 18081", address="10.244.1.2")
    assert plan(name, reserved) == Tombstone(name=name)


@pytest.mark.parametrize(
    "name",
    ["tcp|192.0.2.1:5432", "tcp|10.96.9.9:80", "tcp|[2001:db8::1]:5432", "pod|10.244.1.99:80", "pod|[fd00:244::9]:80"],
)
def test_a_dial_of_an_address_that_is_not_the_meshs_passes_through(name: str) -> None:
    assert plan(name, *ROWS) == PassThroughCluster(name=name)


def test_a_user_owned_service_is_reached_by_its_map_and_by_its_pods_own_http_ports() -> None:
    rows = (row("shop/cart", "8080 9090 7000 9000=tcp"),)

    def target(name: str) -> str:
        cluster = plan(name, *rows, services=(USERS,))
        return cluster.server_name if isinstance(cluster, MeshCluster) else type(cluster).__name__

    assert target("cart.shop.aether.internal:80") == "8080"
    assert target("cart.shop.aether.internal:8080") == "9090"
    assert target("own|cart.shop.aether.internal:8080") == "8080"
    assert target("cart.shop.aether.internal:7000") == "7000"
    assert target("own|cart.shop.aether.internal:7000") == "Tombstone"
    assert target("own|cart.shop.aether.internal:9000") == "Tombstone"
    assert target("cart.shop.aether.internal:9000") == "Tombstone"


def test_raw_tcp_to_a_user_owned_service_passes_through() -> None:
    rows = (row("shop/cart", "8080 9000=tcp"),)
    assert isinstance(plan("tcp|10.96.0.7:3306", *rows, services=(USERS,)), PassThroughCluster)
    assert isinstance(plan("tcp|10.96.0.7:1", *rows, services=(USERS,)), PassThroughCluster)


def test_an_address_that_two_rows_claim_is_the_healthier_ones() -> None:
    old = msgspec.structs.replace(row("shop/old", "9000=tcp", health=Health.DRAINING), pod="old-1")
    new = msgspec.structs.replace(row("shop/new", "9000=tcp", health=Health.UNHEALTHY), pod="new-1")
    for rows in ((old, new), (new, old)):
        context = plan_context(msgspec.structs.replace(node_facts(), rows=rows))
        port = (9000, PortClass.TCP)
        assert context.dialled_pods == (
            DialledPod(address="10.244.1.2", service=service_id("shop/new"), ports=(port,)),
        )
        cluster = plan_cluster("tcp|10.244.1.2:9000", context)
        assert isinstance(cluster, MeshCluster)
        assert cluster.service == service_id("shop/new")


def test_an_address_stands_once_in_a_cluster_with_the_healthier_rows_word() -> None:
    old = msgspec.structs.replace(ROWS[0], pod="cart-0", health=Health.DRAINING, weight=9)
    for rows in ((old, ROWS[0]), (ROWS[0], old)):
        context = plan_context(msgspec.structs.replace(node_facts(), rows=rows))
        cluster = plan_cluster("cart.shop.aether.internal:8080", context)
        assert isinstance(cluster, MeshCluster)
        assert [(found.health, found.weight) for found in cluster.endpoints] == [(Health.HEALTHY, 3)]


def test_dialled_pods_are_every_address_of_every_registered_pod() -> None:
    dual = msgspec.structs.replace(ROWS[0], addresses=("10.244.1.2", "fd00:244:1::2"))
    plain = row("shop/pay", "443 53=udp 18081=tcp", address="10.244.1.9")
    pods = plan_context(node_facts(rows=(dual, plain))).dialled_pods
    ports = ((8080, PortClass.HTTP), (9000, PortClass.TCP))
    assert pods == (
        DialledPod(address="10.244.1.2", service=CART, ports=ports),
        DialledPod(address="10.244.1.9", service=service_id("shop/pay"), ports=((443, PortClass.HTTP),)),
        DialledPod(address="fd00:244:1::2", service=CART, ports=ports),
    )
