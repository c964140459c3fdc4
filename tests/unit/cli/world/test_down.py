import pytest
from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether

from aether.adapters.paths import WorldPaths


def test_a_world_is_asked_to_end(aether: Aether, served: ServedWorld) -> None:
    said = aether("down")
    assert said.code == 0
    assert served.world.is_stopped.wait(5)
    assert "what was applied is kept" in said.out


@pytest.mark.usefixtures("served")
def test_what_was_applied_is_forgotten_if_asked_for(aether: Aether) -> None:
    state = WorldPaths.of_user("default").state
    state.mkdir(parents=True)
    (state / "applied.json").write_text("[]")
    assert "nothing of it is left" in aether("down", "--forget").out
    assert not state.exists()


@pytest.mark.usefixtures("served")
def test_a_world_of_which_nothing_was_kept_is_forgotten_too(aether: Aether) -> None:
    assert not WorldPaths.of_user("default").state.exists()
    assert aether("down", "--forget").code == 0


def test_a_world_that_does_not_run_cannot_end(aether: Aether) -> None:
    assert aether("down").code == 1
    assert aether("down", "--world", "other").code == 1
