from tests.support.facts import CONFIG, generated, local_pod, node_facts, row, service_id

from aether.model.identity import WorkloadIdentity
from aether.model.ports import Codec, PortClass
from aether.plan.mesh.node import (
    InboundPort,
    PassThroughCluster,
    PodPlan,
    Tombstone,
    plan_context,
    plan_node,
    plan_node_in,
)

HTTP, TCP = PortClass.HTTP, PortClass.TCP
FACTS = node_facts(
    rows=[row("shop/cart", "8080 9000=tcp"), row("shop/pay", "80 18081", address="10.244.2.1")],
    services=[generated("shop/cart", "10.96.0.5"), generated("shop/pay", "10.96.0.6")],
    pods=[
        local_pod("cart-2", "10.244.1.3", ports="8080,8081=grpc,9000=tcp,53=udp", uds_socket="/run/app.sock"),
        local_pod("cart-1", "10.244.1.2", "fd00:244:1::2", ports="8080,9000=tcp", upstreams="pay"),
        local_pod("bad", "10.244.1.4", ports="8080=x"),
        local_pod("out", "10.244.1.5", managed="false"),
    ],
)


def test_a_pod_is_planned_with_its_identity_its_certificates_and_its_tcp_ports() -> None:
    plan = plan_node(FACTS, observed=frozenset())
    assert [pod.pod for pod in plan.pods] == ["bad", "cart-1", "cart-2"]
    assert plan.pods[1] == PodPlan(
        uid="uid-cart-1",
        service=service_id("shop/cart"),
        pod="cart-1",
        addresses=("10.244.1.2", "fd00:244:1::2"),
        netns="/run/netns/pod-uid-cart-1",
        identity=WorkloadIdentity("aether.internal", "shop", "cart"),
        inbound_secret="in/shop/cart-1",
        outbound_secret="out/shop/cart",
        inbound=(InboundPort(number=8080, port_class=HTTP), InboundPort(number=9000, port_class=TCP)),
    )


def test_a_unix_socket_takes_the_last_hop_of_http_ports_only() -> None:
    assert plan_node(FACTS, observed=frozenset()).pods[2].inbound == (
        InboundPort(number=8080, port_class=HTTP, uds_socket="/run/app.sock"),
        InboundPort(number=8081, port_class=HTTP, codec=Codec.H2, uds_socket="/run/app.sock"),
        InboundPort(number=9000, port_class=TCP),
    )


def test_a_pod_that_is_refused_is_planned_without_inbound_ports_and_said() -> None:
    plan = plan_node(FACTS, observed=frozenset())
    assert plan.pods[0].inbound == ()
    assert [(problem.code, problem.subject, problem.where) for problem in plan.problems] == [
        ("bad-port", "Pod shop/bad", "n1"),
        ("reserved-port", "Service shop/pay", ""),
    ]


def test_the_directory_is_of_the_whole_mesh_and_the_clusters_of_what_is_wanted() -> None:
    rows = [*FACTS.rows, row("bank/rare", address="10.244.2.2")]
    plan = plan_node(node_facts(rows=rows, services=FACTS.services, pods=FACTS.pods), observed=frozenset())
    assert (plan.node, plan.config) == ("n1", CONFIG)
    assert [str(view.service) for view in plan.directory] == ["bank/rare", "shop/cart", "shop/pay"]
    assert [pod.address for pod in plan.dialled_pods] == ["10.244.1.2", "10.244.2.1", "10.244.2.2"]
    assert [cluster.name for cluster in plan.clusters] == [
        "cart.shop.aether.internal:8080",
        "pay.shop.aether.internal:80",
        "tcp|10.96.0.5:9000",
    ]


def test_every_observed_name_is_answered() -> None:
    observed = frozenset({"gone.shop.aether.internal:80", "tcp|192.0.2.1:5432", "tcp|10.96.0.5:9000"})
    answers = {cluster.name: cluster for cluster in plan_node(FACTS, observed=observed).clusters}
    assert observed <= answers.keys()
    assert isinstance(answers["gone.shop.aether.internal:80"], Tombstone)
    assert isinstance(answers["tcp|192.0.2.1:5432"], PassThroughCluster)


def test_a_plan_from_a_context_is_the_plan_from_its_facts() -> None:
    observed = frozenset({"tcp|192.0.2.1:5432"})
    assert plan_node_in(plan_context(FACTS), observed=observed) == plan_node(FACTS, observed=observed)
