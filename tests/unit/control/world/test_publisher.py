import pytest
from tests.support.facts import row
from tests.unit.control.world.bench import StoreBench

from aether.adapters.objects.kinds import KubeObject, ObjectKey
from aether.control.world.publisher import Publisher
from aether.control.world.registry import EmbeddedRegistry
from aether.control.world.service_addresses import ServiceAddresses
from aether.errors import Diagnostic, Rejected
from aether.model.endpoint import EndpointRow
from aether.model.facts import MeshConfig, NodeReport

CONFIG = MeshConfig()


class PublishBench(StoreBench):
    def __init__(self, *admissions: object) -> None:
        self.addresses = ServiceAddresses(CONFIG.service_cidrs, reserved=CONFIG.dns_addresses)
        super().__init__(self.addresses, *admissions)
        self.registry = EmbeddedRegistry()
        self.publisher = Publisher(self.store, self.registry, CONFIG)

    async def report(self, *rows: EndpointRow) -> None:
        self.registry.report(NodeReport(node="n1", rows=rows))
        await self.publisher.step()

    def ports(self, name: str = "cart") -> list[str]:
        return [port["name"] for port in self.get("Service", name, "shop")["spec"]["ports"]]

    def said(self) -> list[str]:
        return [str(problem) for problem in self.publisher.problems]


@pytest.fixture
async def shop() -> PublishBench:
    bench = PublishBench()
    await bench.load()
    await bench.apply("Namespace", "shop")
    await bench.apply("ServiceAccount", "cart", "shop")
    return bench


async def test_a_service_appears_with_its_endpoints_ports_and_addresses(shop: PublishBench) -> None:
    await shop.report(row("shop/cart", "8080 9000=tcp 53=udp"))
    spec = shop.get("Service", "cart", "shop")["spec"]
    assert shop.ports() == ["p53-udp", "p8080-tcp", "p9000-tcp"]
    assert len(spec["clusterIPs"]) == 2


async def test_it_follows_the_registry_and_keeps_its_address(shop: PublishBench) -> None:
    await shop.report(row("shop/cart", "8080"))
    before = shop.get("Service", "cart", "shop")["spec"]["clusterIPs"]
    await shop.report(row("shop/cart", "8080 9090"))
    assert shop.ports() == ["p8080-tcp", "p9090-tcp"]
    await shop.report()
    assert shop.ports() == []
    await shop.report(row("shop/cart", "9090"))
    assert shop.ports() == ["p9090-tcp"]
    assert shop.get("Service", "cart", "shop")["spec"]["clusterIPs"] == before


async def test_a_second_look_changes_nothing(shop: PublishBench) -> None:
    await shop.report(row("shop/cart"))
    revision = shop.store.list("Service")[1]
    await shop.publisher.step()
    assert shop.store.list("Service")[1] == revision


async def test_every_field_of_ours_is_set_back(shop: PublishBench) -> None:
    await shop.report(row("shop/cart", "8080"))
    wrong = {"type": "NodePort", "ports": [{"name": "x", "port": 1, "targetPort": 2}]}
    await shop.apply(
        "Service", "cart", "shop", manager="somebody", metadata={"labels": {"aether.io/generated": "false"}}
    )
    await shop.apply(
        "Service", "cart", "shop", manager="somebody", metadata={"labels": {"aether.io/generated": "true"}}, spec=wrong
    )
    await shop.publisher.step()
    service = shop.get("Service", "cart", "shop")
    assert (service["spec"]["type"], shop.ports()) == ("ClusterIP", ["p8080-tcp"])


async def test_a_service_goes_with_its_account(shop: PublishBench) -> None:
    await shop.report(row("shop/cart"))
    await shop.report()
    await shop.store.delete(ObjectKey("ServiceAccount", "shop", "cart"))
    await shop.publisher.step()
    assert not shop.has("Service", "cart", "shop")


async def test_a_users_service_is_never_touched(shop: PublishBench) -> None:
    await shop.apply("Service", "cart", "shop", spec={"ports": [{"port": 80, "targetPort": 8080}]})
    before = shop.get("Service", "cart", "shop")
    await shop.report(row("shop/cart", "8080"))
    assert shop.get("Service", "cart", "shop") is before
    assert shop.said() == [
        "Service shop/cart: a user's Service has this mesh service's name: it is left as it is, and its port map holds"
    ]


async def test_a_user_may_take_a_generated_service_over_and_give_it_back(shop: PublishBench) -> None:
    await shop.report(row("shop/cart", "8080"))
    address = shop.get("Service", "cart", "shop")["spec"]["clusterIP"]
    await shop.apply("Service", "cart", "shop", spec={"ports": [{"port": 80, "targetPort": 8080}]})
    await shop.publisher.step()
    taken = shop.get("Service", "cart", "shop")
    assert taken["spec"]["ports"] == [{"port": 80, "targetPort": 8080}]
    assert taken["spec"]["clusterIP"] == address
    assert "labels" not in taken["metadata"] or not taken["metadata"]["labels"]

    await shop.store.delete(ObjectKey("Service", "shop", "cart"))
    await shop.publisher.step()
    assert shop.ports() == ["p8080-tcp"]
    assert shop.get("Service", "cart", "shop")["spec"]["clusterIP"] == address
    assert shop.said() == []


async def test_a_namespace_that_is_going_is_left_alone(shop: PublishBench) -> None:
    await shop.pod("p", "shop", nodeName="n")
    await shop.store.delete(ObjectKey("Namespace", "", "shop"))
    await shop.report(row("shop/cart"))
    assert not shop.has("Service", "cart", "shop")


async def test_a_service_that_is_refused_is_said_and_the_others_are_made() -> None:
    def refuse(new: KubeObject, old: KubeObject | None) -> KubeObject:
        if new["metadata"]["name"] == "evil":
            raise Rejected([Diagnostic(code="no-address", message="no address is left", subject="Service shop/evil")])
        return new

    bench = PublishBench(refuse)
    await bench.load()
    await bench.apply("Namespace", "shop")
    await bench.report(row("shop/evil", address="10.244.1.2"), row("shop/good", address="10.244.1.3"))
    assert bench.has("Service", "good", "shop")
    assert bench.said() == ["Service shop/evil: no address is left"]
