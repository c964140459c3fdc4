"""When a root is replaced: in time, in two phases, or because somebody asked."""

from pathlib import Path

import pytest

from aether.adapters.ca import CertificateAuthority
from aether.adapters.clock import ManualClock
from aether.control.world.roots import BEFORE_END_S, RootRotation


class Bench:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.authority = CertificateAuthority.open(folder, "aether.internal", clock=self.clock)
        self.changes = 0
        self.rotation = RootRotation(self.authority, clock=self.clock, changed=self._count)

    def until(self, wall: float) -> None:
        self.clock.advance(wall - self.clock.wall())

    def roots(self) -> int:
        return self.authority.bundle_pem().count(b"BEGIN CERTIFICATE")

    def _count(self) -> None:
        self.changes += 1


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_a_root_with_years_before_it_is_left_alone(bench: Bench) -> None:
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (1, 0)


async def test_a_root_near_its_end_is_replaced_in_two_phases(bench: Bench) -> None:
    bench.until(bench.authority.not_after - BEFORE_END_S + 1)
    old = bench.authority.not_after
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (2, 1)
    assert bench.authority.not_after > old
    finishes_at = bench.authority.finishes_at
    assert finishes_at is not None
    bench.until(finishes_at - 1)
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (2, 1), "not before every leaf has been renewed"
    bench.until(finishes_at)
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (1, 2)
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (1, 2)


async def test_a_root_is_replaced_when_somebody_asks_once(bench: Bench) -> None:
    bench.rotation.ask()
    await bench.rotation.step()
    assert bench.authority.is_rotating
    finishes_at = bench.authority.finishes_at
    assert finishes_at is not None
    bench.until(finishes_at)
    await bench.rotation.step()
    await bench.rotation.step()
    assert (bench.roots(), bench.changes) == (1, 2), "asking is for one rotation"


async def test_asking_during_a_rotation_begins_no_second_one(bench: Bench) -> None:
    bench.rotation.ask()
    await bench.rotation.step()
    bundle = bench.authority.bundle_pem()
    bench.rotation.ask()
    await bench.rotation.step()
    assert (bench.authority.bundle_pem(), bench.changes) == (bundle, 1)
    finishes_at = bench.authority.finishes_at
    assert finishes_at is not None
    bench.until(finishes_at)
    await bench.rotation.step()
    await bench.rotation.step()
    assert not bench.authority.is_rotating


async def test_a_control_plane_that_starts_again_finishes_what_its_earlier_life_began(
    bench: Bench, tmp_path: Path
) -> None:
    bench.rotation.ask()
    await bench.rotation.step()
    finishes_at = bench.authority.finishes_at
    assert finishes_at is not None
    again = Bench(tmp_path)
    again.until(finishes_at)
    await again.rotation.step()
    assert (again.roots(), again.changes) == (1, 1)
