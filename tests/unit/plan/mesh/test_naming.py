import pytest

from aether.model.names import Domains, ServiceId
from aether.plan.mesh.naming import (
    ClusterName,
    HttpClusterName,
    OwnClusterName,
    PodClusterName,
    RawClusterName,
    http_cluster,
    http_stat_key,
    own_cluster,
    parse_cluster,
    pod_cluster,
    raw_cluster,
    raw_stat_key,
)

CART = ServiceId("shop", "cart")
DOMAINS = Domains()

NAMES: list[tuple[str, ClusterName]] = [
    ("cart.shop.aether.internal:8080", HttpClusterName(CART, 8080)),
    ("pod|10.244.1.2:8080", PodClusterName("10.244.1.2", 8080)),
    ("pod|[fd00:244:1::2]:8080", PodClusterName("fd00:244:1::2", 8080)),
    ("own|cart.shop.aether.internal:8080", OwnClusterName(CART, 8080)),
    ("tcp|10.96.0.5:9000", RawClusterName("10.96.0.5", 9000)),
    ("tcp|[fd96::5]:9000", RawClusterName("fd96::5", 9000)),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_a_clusters_name_says_what_it_stands_for(text: str, name: ClusterName) -> None:
    assert parse_cluster(text, DOMAINS) == name


def test_names_are_formatted_as_they_parse() -> None:
    assert [text for text, _ in NAMES] == [
        http_cluster(CART, 8080, DOMAINS),
        pod_cluster("10.244.1.2", 8080),
        pod_cluster("fd00:244:1::2", 8080),
        own_cluster(CART, 8080, DOMAINS),
        raw_cluster("10.96.0.5", 9000),
        raw_cluster("fd96::5", 9000),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "passthrough",
        "cart.shop.aether.internal",
        "cart.shop.aether.internal:",
        "cart.shop.aether.internal:0",
        "cart.shop.aether.internal:080",
        "cart.shop.svc.cluster.local:8080",
        "cart.shop:8080",
        "cart:8080",
        "udp|10.96.0.5:9000",
        "own|pod|10.244.1.2:8080",
        "pod|:8080",
        "pod|fd00:244:1::2:8080",
        "pod|10.244.1.2:0",
        "tcp|:9000",
        "tcp|fd96::5:9000",
        "tcp|[10.96.0.5]:9000",
        "tcp|[fd96::5:9000",
    ],
)
def test_other_names_stand_for_nothing(text: str) -> None:
    assert parse_cluster(text, DOMAINS) is None


def test_statistics_are_keyed_by_service_and_raw_port() -> None:
    assert http_stat_key(CART) == "shop/cart"
    assert raw_stat_key(CART, 9000) == "tcp_shop/cart_9000"
