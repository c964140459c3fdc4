import msgspec
import yaml
from tests.support.facts import row
from tests.support.memoryworld import ServedWorld, pod
from tests.unit.cli.conftest import Aether
from tests.unit.cli.objects.test_describe import CART

from aether.errors import Diagnostic
from aether.model.facts import NodeReport, Refusals, Rejection


def test_the_table_has_services_nodes_and_what_is_wrong(aether: Aether, served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1"))
    report = NodeReport(
        node="node-1",
        is_proxy_live=True,
        refusals=(Refusals("cart.shop:81", "port-not-declared", 2), Refusals("x", "port-required", 1)),
        rejections=(Rejection(type_url="t", name="cap_http", text="bad [regex]"),),
    )
    flaw = Diagnostic(code="bad-port", message="port '0'", subject="Pod shop/web")
    served.know(views=(CART,), rows=(row("shop/cart"),), reports=(report,), problems=(flaw,))
    lines = aether("status").out.splitlines()
    assert lines[0] == "world default, mesh domain aether.internal"
    assert any(line.split() == ["shop/cart", "80=http→8080", "-", "1/1", "2", "port-not-declared"] for line in lines)
    assert any(line.split() == ["node-1", "connected", "live,", "1", "rejected", "0/1", "ready"] for line in lines)
    assert "refused under other names: 1 port-required" in lines
    assert "! node-1: Envoy rejected cap_http: bad [regex]" in lines
    assert "! Pod shop/web: port '0'" in lines
    assert any(line.startswith("! pod shop/cart-1:") for line in lines)


def test_the_status_can_be_data(aether: Aether, served: ServedWorld) -> None:
    assert msgspec.json.decode(aether("status", "-o", "json").out)["world"] == "default"
    assert yaml.safe_load(aether("status", "-o", "yaml").out)["nodes"][0]["is_proxy_live"] is False
