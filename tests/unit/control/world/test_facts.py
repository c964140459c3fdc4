from typing import Any

import pytest
from tests.support.facts import row
from tests.unit.control.world.bench import CONFIG, CONTAINER, READY, FactsBench

from aether.adapters.objects.kinds import ObjectKey
from aether.model.facts import (
    LocalPod,
    NodeReport,
    ServiceEndpoint,
    ServicePortRecord,
    ServiceRecord,
)
from aether.model.names import ServiceId
from aether.model.ports import PortClass, Transport


@pytest.fixture
async def shop() -> FactsBench:
    bench = FactsBench()
    await bench.load()
    await bench.apply("Namespace", "shop")
    await bench.node("n1")
    addresses = [{"type": "InternalIP", "address": "10.243.0.1"}, {"type": "InternalIP", "address": "fd00:243::1"}]
    await bench.store.update_status(ObjectKey("Node", "", "n1"), {"addresses": addresses})
    return bench


async def test_a_node_is_told_of_itself_and_the_mesh(shop: FactsBench) -> None:
    shop.registry.report(NodeReport(node="n1", rows=(row("shop/cart"),)))
    facts = shop.facts()
    assert (facts.node, facts.node_addresses) == ("n1", ("10.243.0.1", "fd00:243::1"))
    assert facts.namespaces == ("default", "shop")
    assert facts.rows == (row("shop/cart"),)
    assert facts.config == CONFIG


async def test_a_node_is_told_of_its_own_pods_that_have_a_sandbox(shop: FactsBench) -> None:
    uid = await shop.run("a", "10.244.1.2", annotations={"endpoint.aether.io/ports": "80"})
    await shop.run("elsewhere", "10.244.2.2", node="n2")
    await shop.pod("without", "shop", nodeName="n1")
    assert shop.facts().pods == (
        LocalPod(
            uid=uid,
            namespace="shop",
            name="a",
            account="cart",
            addresses=("10.244.1.2",),
            netns="/netns/a",
            annotations=(("endpoint.aether.io/ports", "80"),),
            is_ready=True,
        ),
    )


async def test_a_pod_that_is_ending_is_told_as_that(shop: FactsBench) -> None:
    await shop.run("a", "10.244.1.2", is_ready=False)
    await shop.store.delete(ObjectKey("Pod", "shop", "a"))
    (pod,) = shop.facts().pods
    assert (pod.is_terminating, pod.is_ready) == (True, False)


async def test_a_generated_service_says_its_classes_and_has_no_endpoints(shop: FactsBench) -> None:
    ports = [
        {"name": "a", "port": 8080, "targetPort": 8080, "appProtocol": "http"},
        {"name": "b", "port": 53, "targetPort": 53, "protocol": "UDP"},
    ]
    spec = {"clusterIPs": ["10.96.0.5", "fd96::5"], "ports": ports}
    metadata = {"labels": {"aether.io/generated": "true"}}
    await shop.apply("Service", "cart", "shop", manager="publisher", metadata=metadata, spec=spec)
    assert shop.service("cart") == ServiceRecord(
        service=ServiceId("shop", "cart"),
        is_generated=True,
        addresses=("10.96.0.5", "fd96::5"),
        ports=(
            ServicePortRecord(53, Transport.UDP, 53, PortClass.UDP),
            ServicePortRecord(8080, Transport.TCP, 8080, PortClass.HTTP),
        ),
    )


async def service(shop: FactsBench, **spec: Any) -> None:
    spec = {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}], **spec}
    await shop.apply("Service", "own", "shop", spec=spec)


async def test_a_users_service_has_the_pods_that_its_selector_picks(shop: FactsBench) -> None:
    await service(shop)
    await shop.run("one", "10.244.1.2", labels={"app": "a", "more": "x"})
    await shop.run("two", "10.244.1.3", labels={"app": "a"}, is_ready=False)
    await shop.run("other", "10.244.1.4", labels={"app": "b"})
    await shop.run("done", "10.244.1.5", labels={"app": "a"})
    await shop.say("done", "shop", phase="Succeeded", podIPs=[{"ip": "10.244.1.5"}])
    record = shop.service("own")
    assert not record.is_generated
    assert record.ports == (ServicePortRecord(80, Transport.TCP, 8080),)
    assert record.endpoints == (
        ServiceEndpoint(addresses=("10.244.1.2",), is_ready=True, ports=((80, Transport.TCP, 8080),)),
        ServiceEndpoint(addresses=("10.244.1.3",), is_ready=False, ports=((80, Transport.TCP, 8080),)),
    )


async def test_a_pod_that_is_ending_is_not_ready_for_a_service(shop: FactsBench) -> None:
    await service(shop)
    await shop.run("one", "10.244.1.2", labels={"app": "a"})
    await shop.store.delete(ObjectKey("Pod", "shop", "one"))
    assert [endpoint.is_ready for endpoint in shop.service("own").endpoints] == [False]


async def test_a_service_may_publish_pods_that_are_not_ready(shop: FactsBench) -> None:
    await service(shop, publishNotReadyAddresses=True)
    await shop.run("one", "10.244.1.2", labels={"app": "a"}, is_ready=False)
    assert [endpoint.is_ready for endpoint in shop.service("own").endpoints] == [True]


async def test_a_named_target_is_each_pods_own_port_of_that_name_and_transport(shop: FactsBench) -> None:
    await service(shop, ports=[{"port": 80, "targetPort": "web"}])
    for name, number, transport in (("one", 8080, "TCP"), ("two", 9090, "TCP"), ("three", 7070, "UDP")):
        ports = [{"name": "web", "containerPort": number, "protocol": transport}]
        spec = {"containers": [{**CONTAINER, "ports": ports}]}
        await shop.run(name, f"10.244.1.{number % 97}", labels={"app": "a"}, spec=spec)
    found = {endpoint.ports for endpoint in shop.service("own").endpoints}
    assert found == {((80, Transport.TCP, 8080),), ((80, Transport.TCP, 9090),), ()}


async def test_a_sidecars_port_can_be_named_too(shop: FactsBench) -> None:
    await service(shop, ports=[{"port": 80, "targetPort": "web"}])
    ports = [{"name": "web", "containerPort": 7000}]
    side = {**CONTAINER, "name": "side", "restartPolicy": "Always", "ports": ports}
    init = {**CONTAINER, "name": "init", "ports": [{"name": "web", "containerPort": 6000}]}
    await shop.run("one", "10.244.1.2", labels={"app": "a"}, spec={"initContainers": [init, side]})
    assert shop.service("own").endpoints[0].ports == ((80, Transport.TCP, 7000),)


async def test_a_service_without_a_selector_has_no_endpoints(shop: FactsBench) -> None:
    await shop.run("one", "10.244.1.2", labels={"app": "a"})
    await service(shop, selector={})
    assert shop.service("own").endpoints == ()


async def test_a_headless_service_has_no_address(shop: FactsBench) -> None:
    await service(shop, clusterIP="None")
    assert (shop.service("own").is_headless, shop.service("own").addresses) == (True, ())


async def test_facts_are_those_of_now(shop: FactsBench) -> None:
    await service(shop)
    await shop.run("one", "10.244.1.2", labels={"app": "a"}, is_ready=False)
    assert not shop.service("own").endpoints[0].is_ready
    await shop.say("one", "shop", phase="Running", podIPs=[{"ip": "10.244.1.2"}], conditions=[READY])
    assert shop.service("own").endpoints[0].is_ready


async def test_a_node_that_is_not_there_yet_has_no_addresses(shop: FactsBench) -> None:
    assert shop.facts("n9").node_addresses == ()
