"""The control plane's end of the node channels."""

import asyncio
from pathlib import Path

import pytest
from tests.support.facts import row
from tests.unit.control.world.bench import CONFIG, FactsBench

from aether.adapters.ca import CertificateAuthority, RequestRefused
from aether.adapters.ca.certificates import generate_key, key_pem
from aether.adapters.ca.leaf import parse_leaf
from aether.adapters.ca.request import build_request
from aether.adapters.rpc.node import SignRequest
from aether.control.world.channel import NodeChannels, SigningRefused, UnknownNode
from aether.model.endpoint import Health
from aether.model.facts import NodeFacts, NodeReport
from aether.model.identity import WorkloadIdentity


class Plane(FactsBench):
    """The channels of nodes n1 and n2, on a store and a registry in memory and a real authority."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.authority = CertificateAuthority.open(folder, CONFIG.trust_domain, clock=self.clock)
        self.channels = NodeChannels(
            self.store, self.registry, self.authority, config=CONFIG, sandboxes=lambda: self.sandboxes
        )
        for node in ("n1", "n2"):
            self.channels.add_node(node)

    async def told(self, node: str = "n1") -> NodeFacts:
        """What an agent that connects now hears first."""
        hearing = self.channels.facts(node)
        try:
            return await anext(hearing)
        finally:
            await hearing.aclose()

    def sign(self, account: str, *, node: str = "n1", namespace: str = "shop") -> WorkloadIdentity:
        """Have a request of a node's agent signed; whose the certificate is."""
        key = generate_key()
        csr = build_request(key, WorkloadIdentity(CONFIG.trust_domain, namespace, account))
        reply = self.channels.sign(SignRequest(node=node, namespace=namespace, account=account, csr_pem=csr))
        return parse_leaf(reply.chain_pem, key_pem(key), reply.ca_pem).identity


@pytest.fixture
async def plane(tmp_path: Path) -> Plane:
    plane = Plane(tmp_path)
    await plane.load()
    await plane.apply("Namespace", "shop")
    await plane.node("n1")
    await plane.node("n2")
    return plane


async def test_an_agent_is_told_of_its_own_pods_and_of_the_roots_to_trust(plane: Plane) -> None:
    await plane.run("cart-1", "10.244.1.2", node="n1")
    await plane.run("cart-2", "10.244.2.2", node="n2")
    await plane.channels.refresh()
    assert [pod.name for pod in (await plane.told("n1")).pods] == ["cart-1"]
    assert [pod.name for pod in (await plane.told("n2")).pods] == ["cart-2"]
    assert (await plane.told("n1")).ca_pem == plane.authority.bundle_pem()


async def test_each_refresh_that_finds_something_new_is_heard_and_no_other(plane: Plane) -> None:
    await plane.channels.refresh()
    hearing = plane.channels.facts("n1")
    first = await anext(hearing)
    await plane.channels.refresh()
    await plane.run("cart-1", "10.244.1.2")
    await plane.channels.refresh()
    second = await anext(hearing)
    assert (len(first.pods), len(second.pods)) == (0, 1)
    await hearing.aclose()


async def test_an_agent_that_was_slow_hears_the_newest_facts_alone(plane: Plane) -> None:
    await plane.channels.refresh()
    hearing = plane.channels.facts("n1")
    await anext(hearing)
    for number in (2, 3, 4):
        await plane.run(f"cart-{number}", f"10.244.1.{number}")
        await plane.channels.refresh()
    assert len((await anext(hearing)).pods) == 3
    await hearing.aclose()


async def test_a_new_root_is_a_fact_like_any_other(plane: Plane) -> None:
    await plane.channels.refresh()
    before = await plane.told()
    plane.authority.begin_root_rotation()
    await plane.channels.refresh()
    assert (await plane.told()).ca_pem != before.ca_pem


async def test_an_agent_of_no_node_of_this_mesh_is_refused(plane: Plane) -> None:
    with pytest.raises(UnknownNode):
        await plane.told("n9")
    with pytest.raises(UnknownNode):
        plane.channels.on_report(NodeReport(node="n9"))
    with pytest.raises(SigningRefused):
        plane.sign("agent", node="n9", namespace="aether-system")


async def test_a_report_replaces_the_one_before_it(plane: Plane) -> None:
    plane.channels.on_report(NodeReport(node="n1", rows=(row("shop/cart"),), captured=("u1", "u2")))
    assert [each.health for each in plane.registry.rows()] == [Health.HEALTHY]
    plane.channels.on_report(NodeReport(node="n1", captured=("u2",)))
    assert plane.registry.rows() == ()
    assert plane.channels.captured == {"u2"}


async def test_each_nodes_report_is_its_own(plane: Plane) -> None:
    plane.channels.on_report(NodeReport(node="n1", captured=("u1",)))
    plane.channels.on_report(NodeReport(node="n2", captured=("u2",)))
    assert plane.channels.captured == {"u1", "u2"}


async def test_the_same_report_again_changes_nothing(plane: Plane) -> None:
    plane.channels.on_report(NodeReport(node="n1", rows=(row("shop/cart"),)))
    before = plane.registry.revision
    plane.channels.on_report(NodeReport(node="n1", rows=(row("shop/cart"),)))
    assert plane.registry.revision == before


async def test_an_agent_that_is_away_keeps_its_rows_and_is_not_live(plane: Plane) -> None:
    await plane.channels.refresh()
    report = NodeReport(node="n1", rows=(row("shop/cart"),), captured=("u1",))
    hearing = plane.channels.facts("n1")
    await anext(hearing)
    plane.channels.on_report(report)
    assert plane.channels.live_reports() == (report,)
    await hearing.aclose()
    assert plane.channels.live_reports() == ()
    assert plane.channels.captured == {"u1"}
    assert len(plane.registry.rows()) == 1


async def test_an_agent_that_comes_back_before_its_old_channel_ends_is_live(plane: Plane) -> None:
    await plane.channels.refresh()
    old, new = plane.channels.facts("n1"), plane.channels.facts("n1")
    await anext(old)
    await anext(new)
    plane.channels.on_report(NodeReport(node="n1"))
    await old.aclose()
    assert len(plane.channels.live_reports()) == 1
    await new.aclose()


async def test_a_pod_waits_until_its_node_reported_it_captured(plane: Plane) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        waiting = group.create_task(plane.channels.wait_captured("u1"))
        plane.channels.on_report(NodeReport(node="n1", captured=("u2",)))
        await asyncio.wait({waiting}, timeout=0)
        assert not waiting.done()
        plane.channels.on_report(NodeReport(node="n1", captured=("u1", "u2")))
    await plane.channels.wait_captured("u2")


async def test_a_node_gets_certificates_for_the_pods_that_are_on_it_and_for_its_agent(plane: Plane) -> None:
    await plane.run("cart-1", "10.244.1.2", node="n1")
    await plane.channels.refresh()
    assert str(plane.sign("cart")) == "spiffe://aether.internal/ns/shop/sa/cart"
    assert str(plane.sign("agent", namespace="aether-system")).endswith("/ns/aether-system/sa/agent")


@pytest.mark.parametrize(
    ("node", "namespace", "account"),
    [("n2", "shop", "cart"), ("n1", "shop", "web"), ("n1", "other", "cart"), ("n1", "aether-system", "registrar")],
)
async def test_it_gets_none_for_anybody_else(plane: Plane, node: str, namespace: str, account: str) -> None:
    await plane.run("cart-1", "10.244.1.2", node="n1")
    await plane.channels.refresh()
    with pytest.raises(SigningRefused):
        plane.sign(account, node=node, namespace=namespace)


async def test_nor_for_a_pod_that_was_here_and_is_gone(plane: Plane) -> None:
    uid = await plane.run("cart-1", "10.244.1.2", node="n1")
    await plane.channels.refresh()
    del plane.sandboxes[uid]
    await plane.channels.refresh()
    with pytest.raises(SigningRefused):
        plane.sign("cart")


async def test_before_the_first_facts_a_node_gets_its_own_certificate_alone(plane: Plane) -> None:
    plane.sign("agent", namespace="aether-system")
    with pytest.raises(SigningRefused):
        plane.sign("cart")


async def test_a_certificate_lives_as_long_as_the_mesh_says(plane: Plane) -> None:
    await plane.run("cart-1", "10.244.1.2", node="n1")
    await plane.channels.refresh()
    key = generate_key()
    csr = build_request(key, WorkloadIdentity(CONFIG.trust_domain, "shop", "cart"))
    reply = plane.channels.sign(SignRequest(node="n1", namespace="shop", account="cart", csr_pem=csr))
    leaf = parse_leaf(reply.chain_pem, key_pem(key), reply.ca_pem)
    assert leaf.not_after - plane.clock.wall() == CONFIG.leaf_lifetime_s
    assert reply.ca_pem == plane.authority.bundle_pem()


async def test_a_request_that_must_not_be_signed_is_not(plane: Plane) -> None:
    with pytest.raises(RequestRefused):
        plane.channels.sign(SignRequest(node="n1", namespace="aether-system", account="agent", csr_pem=b"no request"))


async def test_what_is_not_about_a_node_is_known_from_any(plane: Plane) -> None:
    assert plane.channels.any_facts() is None
    await plane.channels.refresh()
    facts = plane.channels.any_facts()
    assert facts is not None
    assert "shop" in facts.namespaces
