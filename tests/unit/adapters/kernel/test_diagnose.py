"""What is found missing without making a world; the rest is in tests/netns."""

from pathlib import Path

from aether.adapters.kernel.diagnose import _diagnose_folder, _diagnose_programs, _try
from aether.adapters.kernel.nft import NftMissing, NftRefused


def test_a_folder_that_can_be_made_lacks_nothing(tmp_path: Path) -> None:
    assert _diagnose_folder(tmp_path / "run" / "demo") == []


def test_a_folder_without_room_is_named() -> None:
    (found,) = _diagnose_folder(Path("/proc/demo"))
    assert (found.code in ("world-disk-full", "world-folder"), found.where) == (True, "/proc/demo")


def test_programs_that_every_distribution_has_are_found() -> None:
    assert _diagnose_programs() == []


def test_a_missing_library_is_named_with_the_packages_that_bring_it() -> None:
    def missing() -> None:
        raise NftMissing("libnftables.so.1 cannot be loaded")

    found = _try("world-x", "advice", missing)
    assert found is not None
    assert found.code == "world-nft"
    assert "libnftables1" in found.message


def test_a_refused_step_is_named_with_its_advice_and_the_reason() -> None:
    def refused() -> None:
        raise NftRefused("Could not process rule: No such file or directory")

    found = _try("world-tproxy", "modprobe nft_tproxy", refused)
    assert found is not None
    assert found.code == "world-tproxy"
    assert found.message == "modprobe nft_tproxy (Could not process rule: No such file or directory)"
    assert _try("world-tproxy", "modprobe nft_tproxy", lambda: None) is None
