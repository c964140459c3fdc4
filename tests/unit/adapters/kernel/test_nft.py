"""What the ruleset adapter promises without a kernel; the rest is in tests/netns."""

from pathlib import Path

import pytest

from aether.adapters.kernel.nft import Nft, NftMissing, NftRefused, is_nft_available
from aether.adapters.kernel.syscall import KernelError


def test_errors_have_stable_codes() -> None:
    assert (NftMissing.code, NftRefused.code) == ("nft-missing", "nft-refused")


@pytest.mark.skipif(not is_nft_available(), reason="needs libnftables")
def test_the_ruleset_of_a_namespace_that_is_not_there_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="nowhere"):
        Nft(tmp_path / "nowhere")
