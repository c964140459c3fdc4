from tests.support.facts import generated, local_pod, node_facts, row, service_id, user_service

from aether.plan.mesh.clusters import plan_context
from aether.plan.mesh.demand import wanted_clusters, wanted_services
from aether.plan.mesh.pods import declared_pods

PODS = (
    local_pod("cart-1", "10.244.1.2", upstreams="pay,bank/ledger,ghost"),
    local_pod("bad-1", "10.244.1.3", account="bad", ports="x", upstreams="secret"),
)
FACTS = node_facts(
    rows=[
        row("shop/cart", "8080 9000=tcp 53=udp"),
        row("shop/pay", "80", address="10.244.2.1"),
        row("bank/ledger", "8080 9090 9000=tcp", address="10.244.2.2"),
        row("shop/secret", "80", address="10.244.2.3"),
    ],
    services=[
        generated("shop/cart", "10.96.0.5", "fd96::5"),
        user_service("bank/ledger", "10.96.0.7", ports="80:8080 9090:8080 9000:9000"),
        user_service("shop/pay", ports="80:80"),
    ],
    pods=PODS,
)


def test_a_node_wants_its_own_services_and_what_its_pods_declare_to_call() -> None:
    assert wanted_services(declared_pods(FACTS)) == {
        service_id(text) for text in ("shop/cart", "shop/pay", "bank/ledger", "shop/ghost", "shop/bad")
    }


def test_a_wanted_service_is_wanted_by_every_name_it_is_delivered_to() -> None:
    names = wanted_clusters(declared_pods(FACTS), plan_context(FACTS).directory, observed=frozenset())
    assert names == (
        "cart.shop.aether.internal:8080",
        "ledger.bank.aether.internal:80",
        "ledger.bank.aether.internal:8080",
        "ledger.bank.aether.internal:9090",
        "own|ledger.bank.aether.internal:9090",
        "pay.shop.aether.internal:80",
        "tcp|10.96.0.5:9000",
        "tcp|[fd96::5]:9000",
    )


def test_observed_names_are_wanted_whatever_they_are() -> None:
    observed = frozenset({"nobody's", "secret.shop.aether.internal:80"})
    assert wanted_clusters((), plan_context(FACTS).directory, observed=observed) == (
        "nobody's",
        "secret.shop.aether.internal:80",
    )
