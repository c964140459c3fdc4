from tests.support.facts import row, service_id
from tests.support.memoryworld import ServedWorld, deployment, pod
from tests.unit.cli.conftest import Aether

from aether.adapters.objects.kinds import key_of
from aether.model.facts import NodeReport, Refusals
from aether.model.ports import PortClass
from aether.plan.mesh.services import ServicePort, ServiceView

CART = ServiceView(service=service_id("shop/cart"), ports=(ServicePort(80, PortClass.HTTP, 8080),), declared=())


def said_of(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line[0] != " ")


def test_a_pod_is_described_with_what_the_mesh_makes_of_it(aether: Aether, served: ServedWorld) -> None:
    cart = pod("shop/cart-1", labels={"app": "cart"})
    served.apply(cart)
    served.set_status(key_of(cart), cart["status"])
    refusals = (Refusals("cart.shop:81", "port-not-declared", 2),)
    served.know(views=(CART,), rows=(row("shop/cart"),), reports=(NodeReport(node="node-1", refusals=refusals),))
    said = aether("describe", "pod", "cart-1")
    rows = said_of(said.out)
    assert rows["Pod"] == "shop/cart-1"
    assert rows["Labels"] == "app=cart"
    assert rows["Refusals"] == "2 port-not-declared"
    assert "cart.shop.aether.internal" in said.out
    assert "80=http→8080" in said.out
    assert "main: running, 2 restarts: true" in said.out


def test_a_container_that_starts_again_is_described_with_its_last_words(aether: Aether, served: ServedWorld) -> None:
    cart = pod("shop/cart-1")
    cart["status"]["containerStatuses"][0]["lastState"] = {"terminated": {"message": "exit status 1\nport 80 is taken"}}
    served.apply(cart)
    served.set_status(key_of(cart), cart["status"])
    said = aether("describe", "pod", "cart-1").out
    assert "  ended before: exit status 1\n" in said
    assert "  ended before: port 80 is taken\n" in said


def test_a_service_and_a_deployment_are_described(aether: Aether, served: ServedWorld) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "cart", "namespace": "shop"},
        "spec": {"clusterIPs": ["10.96.0.9"], "ports": [{"port": 80}], "selector": {"app": "cart"}},
    }
    served.apply(service, deployment("shop/cart", replicas=2))
    rows = said_of(aether("describe", "svc", "-n", "shop", "cart").out)
    assert (rows["Addresses"], rows["Ports"], rows["Selector"]) == ("10.96.0.9", "80/TCP", "app=cart")
    assert "no service of the mesh" in rows["Mesh"]
    assert said_of(aether("describe", "deploy", "shop/cart").out)["Replicas"] == "0 of 2 ready"


def test_a_kind_without_more_to_say_has_its_name_and_age(aether: Aether, served: ServedWorld) -> None:
    assert said_of(aether("describe", "ns", "shop").out)["Namespace"] == "shop"


def test_what_does_not_exist_ends_with_one(aether: Aether, served: ServedWorld) -> None:
    assert aether("describe", "pod", "nobody").code == 1
