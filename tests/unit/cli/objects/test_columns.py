from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.memoryworld import deployment, pod, pod_status

from aether.cli.objects.columns import columns_of, format_age, pod_state, service_ports

NOW = datetime(2030, 1, 2, tzinfo=UTC)


def cells(kind: str, object_: dict[str, Any]) -> dict[str, str]:
    return {title: cell(object_) for title, cell in columns_of(kind, is_wide=True, has_namespace=True)}


@pytest.mark.parametrize(
    ("created", "age"),
    [
        ("2030-01-01T23:59:43Z", "17s"),
        ("2030-01-01T23:58:01Z", "119s"),
        ("2030-01-01T23:57:00Z", "3m"),
        ("2030-01-01T12:00:00Z", "12h"),
        ("2029-12-01T00:00:00Z", "32d"),
        ("2030-01-02T00:00:09Z", "0s"),
        ("", ""),
    ],
)
def test_an_age_has_one_unit(created: str, age: str) -> None:
    assert format_age({"metadata": {"creationTimestamp": created}}, now=NOW) == age


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, "Pending"),
        (pod_status(), "Running"),
        (pod_status(reason="CrashLoopBackOff"), "CrashLoopBackOff"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_a_pod_s_state_is_the_worst_that_a_container_says(status: dict[str, Any], state: str) -> None:
    assert pod_state(pod("shop/cart-1") | {"status": status}) == state


def test_a_service_s_ports_show_where_they_lead() -> None:
    ports = [{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP"}, {"port": 9, "targetPort": 9}]
    assert service_ports({"spec": {"ports": ports}}) == "80→8080/TCP,53/UDP,9/TCP"


def test_every_kind_has_the_columns_of_its_own() -> None:
    assert cells("Pod", pod("shop/cart-1"))["NODE"] == "node-1"
    assert cells("Deployment", deployment("shop/cart", replicas=3))["READY"] == "0/3"
    assert cells("Deployment", deployment("shop/cart"))["SELECTOR"] == "app=cart"
    service = {"metadata": {"name": "cart", "namespace": "shop"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    assert (cells("Service", service)["ADDRESSES"], cells("Service", service)["SELECTOR"]) == ("None", "a=b")
    assert cells("ConfigMap", {"metadata": {"name": "c"}, "data": {"a": "b"}})["DATA"] == "1"
    assert list(cells("ServiceAccount", {"metadata": {"name": "c"}})) == ["NAMESPACE", "NAME", "AGE"]
