from pathlib import Path

import pytest

from aether.adapters.paths import BadWorldName, WorldPaths, runtime_root, state_root


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that says nothing but where home is."""
    for name in ("AETHER_RUNTIME_DIR", "AETHER_STATE_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def test_root_has_the_system_s_folders_and_others_their_own(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert (runtime_root(0), state_root(0)) == (Path("/run/aether"), Path("/var/lib/aether"))
    assert runtime_root(7) == Path("/tmp/aether-7/aether")
    assert state_root(7) == tmp_path / ".local/state/aether"
    bare.setenv("XDG_RUNTIME_DIR", "/r")
    bare.setenv("XDG_STATE_HOME", "/s")
    assert (runtime_root(7), state_root(7)) == (Path("/r/aether"), Path("/s/aether"))
    assert runtime_root(0) == Path("/run/aether")


def test_the_project_s_own_variables_come_first(bare: pytest.MonkeyPatch) -> None:
    bare.setenv("AETHER_RUNTIME_DIR", "/r")
    bare.setenv("AETHER_STATE_DIR", "/s")
    assert (runtime_root(0), state_root(7)) == (Path("/r"), Path("/s"))
    assert WorldPaths.of_user("w").api_socket == Path("/r/w/api.sock")


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "..", "a" * 33])
def test_a_name_that_is_no_safe_folder_is_refused(name: str) -> None:
    with pytest.raises(BadWorldName):
        WorldPaths(name, runtime=Path("/r"), state=Path("/s"))


def test_everything_of_a_world_is_below_its_two_folders() -> None:
    paths = WorldPaths("w", runtime=Path("/r"), state=Path("/s"))
    node = paths.node("node-1")
    runtime = (
        paths.api_socket,
        paths.exec_socket,
        paths.node_socket,
        paths.log,
        paths.pods,
        node.netns,
        node.ads_socket,
    )
    assert all(path.is_relative_to("/r/w") for path in runtime)
    assert all(path.is_relative_to("/s/w") for path in (paths.applied, paths.ca))
