import msgspec
from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether


def test_the_versions_are_told_with_and_without_a_world(aether: Aether) -> None:
    said = aether("version")
    assert said.code == 0
    assert said.out.endswith("no world is running\n")


def test_the_running_world_s_version_is_told(aether: Aether, served: ServedWorld) -> None:
    versions = msgspec.json.decode(aether("version", "-o", "json").out)
    assert versions["world"] == versions["aether"]
