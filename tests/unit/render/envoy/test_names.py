"""Names of Envoy objects."""

from aether.render.envoy import names


def test_a_pods_objects_are_named_after_its_uid_so_that_a_new_pod_of_the_same_name_is_another() -> None:
    of_a_pod = [
        names.capture_listener("0f1e"),
        names.raw_listener("0f1e"),
        names.proxy_listener("0f1e"),
        names.inbound_listener("0f1e"),
        names.application_cluster("0f1e", 8080),
        names.probe_cluster("0f1e"),
    ]
    assert all("0f1e" in name for name in of_a_pod)
    assert len(set(of_a_pod)) == len(of_a_pod)


def test_inbound_chains_and_statistics_are_named_as_the_contract_says() -> None:
    assert names.inbound_http_chain("cart-1", 8080) == "in_http_cart-1_8080"
    assert names.inbound_tcp_chain("cart-1", 9000) == "in_tcp_cart-1_9000"
    assert names.inbound_stat_prefix("shop", "cart-1") == "inbound_shop_cart-1"


def test_the_gauge_of_a_probe_is_that_of_its_clusters_stat_key() -> None:
    assert names.probe_healthy_stat("0f1e") == f"cluster.{names.probe_stat_key('0f1e')}.membership_healthy"
