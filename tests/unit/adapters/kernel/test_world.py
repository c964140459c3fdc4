"""How the spawner of a world reads what became of it. Worlds are in tests/netns."""

import io
from pathlib import Path

import msgspec
import pytest

from aether.adapters.kernel.init import Failed, Report, Started
from aether.adapters.kernel.world import _ADVICE, WorldRefused, _read_outcome, needs_user_namespace, spawn_world

NOT_A_CHILD = 1


def said(*reports: Report) -> io.BytesIO:
    return io.BytesIO(b"".join(msgspec.json.encode(report) + b"\n" for report in reports))


def test_silence_after_the_number_is_success() -> None:
    assert _read_outcome(said(Started(4711))) == 4711


@pytest.mark.parametrize("step", sorted(_ADVICE))
def test_a_failed_step_is_a_code_with_advice_and_the_kernels_words(step: str) -> None:
    with pytest.raises(WorldRefused, match="Operation not permitted") as refused:
        _read_outcome(said(Failed(step, "Operation not permitted", 1)))
    assert refused.value.diagnostic.code == f"world-{step}"
    assert refused.value.code == "world-refused"


def test_a_failure_after_the_number_is_a_failure() -> None:
    with pytest.raises(WorldRefused, match="no such program"):
        _read_outcome(said(Started(NOT_A_CHILD), Failed("command", "no such program", 2)))


def test_a_starter_that_says_nothing_has_failed() -> None:
    with pytest.raises(WorldRefused) as refused:
        _read_outcome(said())
    assert refused.value.diagnostic.code == "world-start"


def test_a_folder_that_cannot_be_made_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WorldRefused, match="file/netns") as refused:
        spawn_world(["true"], name="x", netns_dir=tmp_path / "file" / "netns")
    assert refused.value.diagnostic.code == "world-folder"


def test_who_lacks_the_capabilities_needs_a_user_namespace() -> None:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    assert needs_user_namespace() or int(line.split()[1], 16)
