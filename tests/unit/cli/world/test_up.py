from pathlib import Path

import pytest
from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("nothing",), "nothing"),
        (("--world", "Not_A_Name"), "Not_A_Name"),
        (("--nodes", "many"), "--nodes"),
    ],
)
def test_wrong_words_end_with_two_before_anything_starts(
    aether: Aether, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    said = aether("up", *words)
    assert said.code == 2
    assert text in said.err
    assert not (tmp_path / "run").exists()


def test_a_path_that_is_too_long_for_sockets_is_said_to_be(
    aether: Aether, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AETHER_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    said = aether("up")
    assert said.code == 2
    assert "too long" in said.err


def test_a_world_that_runs_is_not_started_again(aether: Aether, served: ServedWorld) -> None:
    said = aether("up")
    assert said.code == 1
    assert "is running already" in said.err
    assert "aether down" in said.err
