import stat
from pathlib import Path

import pytest

from aether.adapters.ca import BadLeaf, BundleUnknown, CertificateAuthority, IdentityCache, Leaf, LocalSource
from aether.adapters.ca.authority import LEAF_LIFETIME_S
from aether.adapters.ca.cache import BUNDLE_NAME
from aether.adapters.clock import ManualClock
from aether.errors import AetherError
from aether.model.identity import WorkloadIdentity

DOMAIN = "mesh.test"
CART = WorkloadIdentity(DOMAIN, "shop", "cart")
WEB = WorkloadIdentity(DOMAIN, "shop", "web")


class Away(AetherError):
    code = "away"


class Nobody:
    """A source while the control plane is away."""

    async def leaf(self, identity: WorkloadIdentity) -> Leaf:
        raise Away(str(identity))


def remove(folder: Path) -> None:
    folder.rmdir()


def files(folder: Path, pattern: str = "*") -> list[Path]:
    return list(folder.glob(pattern))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authority(tmp_path: Path, clock: ManualClock) -> CertificateAuthority:
    return CertificateAuthority.open(tmp_path / "ca", DOMAIN, clock=clock)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "identities"


@pytest.fixture
def cache(folder: Path, authority: CertificateAuthority, clock: ManualClock) -> IdentityCache:
    return IdentityCache(folder, LocalSource(authority), clock=clock)


async def test_the_same_leaf_is_given_until_half_its_life(cache: IdentityCache, clock: ManualClock) -> None:
    first = await cache.leaf(CART)
    clock.advance(LEAF_LIFETIME_S / 2 - 1)
    assert await cache.leaf(CART) == first
    clock.advance(1)
    second = await cache.leaf(CART)
    assert second.serial != first.serial
    assert second.key != first.key


async def test_after_a_restart_the_very_same_leaf_is_served(
    cache: IdentityCache, folder: Path, clock: ManualClock
) -> None:
    leaf = await cache.leaf(CART)
    restarted = IdentityCache(folder, Nobody(), clock=clock)
    assert await restarted.leaf(CART) == leaf
    assert restarted.ca_pem() == cache.ca_pem() == leaf.bundle_pem


async def test_a_leaf_that_cannot_be_renewed_is_served_as_long_as_it_is_valid(
    cache: IdentityCache, folder: Path, clock: ManualClock
) -> None:
    leaf = await cache.leaf(CART)
    restarted = IdentityCache(folder, Nobody(), clock=clock)
    clock.advance(LEAF_LIFETIME_S - 1)
    assert await restarted.leaf(CART) == leaf
    clock.advance(1)
    with pytest.raises(Away):
        await restarted.leaf(CART)
    with pytest.raises(Away):
        await restarted.leaf(WEB)


async def test_a_leaf_of_another_root_is_renewed(
    cache: IdentityCache, authority: CertificateAuthority, folder: Path, clock: ManualClock
) -> None:
    cart, web = await cache.leaf(CART), await cache.leaf(WEB)
    authority.begin_root_rotation()
    assert await cache.leaf(CART) == cart, "nothing has told of the rotation yet"
    cache.trust(authority.bundle_pem())
    renewed = await cache.leaf(CART)
    assert renewed != cart
    assert cache.ca_pem() == authority.bundle_pem()
    restarted = IdentityCache(folder, LocalSource(authority), clock=clock)
    assert await restarted.leaf(CART) == renewed
    assert await restarted.leaf(WEB) != web


async def test_the_end_of_a_rotation_renews_nothing(
    cache: IdentityCache, authority: CertificateAuthority, clock: ManualClock
) -> None:
    authority.begin_root_rotation()
    clock.advance(LEAF_LIFETIME_S + 600)
    leaf = await cache.leaf(CART)
    authority.finish_root_rotation()
    cache.trust(authority.bundle_pem())
    assert await cache.leaf(CART) == leaf


async def test_an_answer_tells_of_a_new_root(cache: IdentityCache, authority: CertificateAuthority) -> None:
    cart = await cache.leaf(CART)
    authority.begin_root_rotation()
    await cache.leaf(WEB)
    assert cache.ca_pem() == authority.bundle_pem()
    assert await cache.leaf(CART) != cart


async def test_before_the_first_leaf_no_roots_are_known(cache: IdentityCache) -> None:
    with pytest.raises(BundleUnknown) as raised:
        cache.ca_pem()
    assert raised.value.code == "ca-bundle-unknown"


def test_a_bundle_without_a_root_is_refused(cache: IdentityCache) -> None:
    with pytest.raises(BadLeaf):
        cache.trust(b"nothing")


async def test_what_is_not_needed_is_forgotten(cache: IdentityCache, folder: Path, clock: ManualClock) -> None:
    cart, web = await cache.leaf(CART), await cache.leaf(WEB)
    cache.prune([WEB])
    restarted = IdentityCache(folder, Nobody(), clock=clock)
    assert await restarted.leaf(WEB) == web
    with pytest.raises(Away):
        await restarted.leaf(CART)
    assert (await cache.leaf(CART)).serial != cart.serial


async def test_everything_kept_is_the_owners_only(cache: IdentityCache, folder: Path) -> None:
    await cache.leaf(CART)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(folder)] == [0o600, 0o600]


async def test_damaged_files_are_asked_for_again(
    cache: IdentityCache, authority: CertificateAuthority, folder: Path, clock: ManualClock
) -> None:
    await cache.leaf(CART)
    bundle = cache.ca_pem()
    (kept,) = files(folder, "*.leaf")
    whole = kept.read_bytes()
    for data in (b"", whole[:100], whole[: len(whole) // 2], whole[-300:], b"\xff\x00", authority.bundle_pem()):
        kept.write_bytes(data)
        (folder / BUNDLE_NAME).write_bytes(data[:50])
        restarted = IdentityCache(folder, LocalSource(authority), clock=clock)
        assert not files(folder, "*.leaf")
        assert (await restarted.leaf(CART)).identity == CART
        assert restarted.ca_pem() == bundle


async def test_a_leaf_that_cannot_be_kept_is_served(cache: IdentityCache, folder: Path) -> None:
    remove(folder)
    leaf = await cache.leaf(CART)
    assert await cache.leaf(CART) == leaf
