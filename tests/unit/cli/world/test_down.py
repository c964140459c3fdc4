from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether


def test_a_world_is_asked_to_end(aether: Aether, served: ServedWorld) -> None:
    said = aether("down")
    assert said.code == 0
    assert served.world.is_stopped.wait(5)
    assert "what was applied is kept" in said.out


def test_a_world_that_does_not_run_cannot_end(aether: Aether) -> None:
    assert aether("down").code == 1
    assert aether("down", "--world", "other").code == 1
