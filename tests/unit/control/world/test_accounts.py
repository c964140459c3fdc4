from tests.unit.control.world.bench import StoreBench

from aether.adapters.objects.kinds import ObjectKey
from aether.control.world.accounts import DefaultAccounts


async def test_every_namespace_has_a_default_account(bench: StoreBench) -> None:
    await bench.apply("Namespace", "shop")
    await DefaultAccounts(bench.store).step()
    assert bench.has("ServiceAccount", "default", "shop")
    assert bench.has("ServiceAccount", "default", "default")


async def test_one_that_was_deleted_comes_back(bench: StoreBench) -> None:
    accounts = DefaultAccounts(bench.store)
    await accounts.step()
    await bench.store.delete(ObjectKey("ServiceAccount", "default", "default"))
    await accounts.step()
    assert bench.has("ServiceAccount", "default")


async def test_a_namespace_that_is_going_gets_none(bench: StoreBench) -> None:
    await bench.apply("Namespace", "shop")
    await bench.pod("p", "shop", nodeName="n")
    await bench.store.delete(ObjectKey("Namespace", "", "shop"))
    await DefaultAccounts(bench.store).step()
    assert not bench.has("ServiceAccount", "default", "shop")
