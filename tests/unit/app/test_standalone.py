"""The world's parts put together, before any of them touches the machine."""

from pathlib import Path

import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.paths import WorldPaths
from aether.app.standalone import Standalone
from aether.model.facts import MeshConfig
from aether.model.world import CheckVerdict, WorldOptions


def world(folder: Path, *, nodes: int = 1, keeps_applied: bool = True, config: MeshConfig | None = None) -> Standalone:
    options = WorldOptions(
        name="w",
        runtime_root=str(folder / "run"),
        state_root=str(folder / "state"),
        nodes=nodes,
        keeps_applied=keeps_applied,
        config=config or MeshConfig(),
    )
    return Standalone(options, ManualClock())


@pytest.fixture
def paths(tmp_path: Path) -> WorldPaths:
    return WorldPaths("w", runtime=tmp_path / "run", state=tmp_path / "state")


def test_each_node_has_an_agent_a_dns_server_and_an_envoy(tmp_path: Path) -> None:
    assert set(world(tmp_path, nodes=2).nodes.states()) == {
        f"{program}@node-{number}" for program in ("agent", "dns", "envoy") for number in (1, 2)
    }


def test_nodes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    assert world(tmp_path, nodes=11).nodes.names == tuple(f"node-{number}" for number in range(1, 12))


async def test_a_world_that_has_not_started_knows_nothing_and_has_no_problems(tmp_path: Path) -> None:
    config = MeshConfig(trust_domain="mesh.test")
    facts = world(tmp_path, nodes=2, config=config).facts()
    assert (facts.config, facts.nodes) == (config, ("node-1", "node-2"))
    assert (facts.reports, facts.views, facts.rows, facts.problems) == ((), (), (), ())


async def test_its_root_is_fine_and_no_process_serves_yet(tmp_path: Path) -> None:
    certificates, processes = await world(tmp_path).checks()
    assert [check.verdict for check in certificates.checks] == [CheckVerdict.OK]
    assert {check.verdict for check in processes.checks} == {CheckVerdict.FAILED}


def test_a_world_of_the_same_name_has_the_same_root(tmp_path: Path) -> None:
    assert world(tmp_path).authority.bundle_pem() == world(tmp_path).authority.bundle_pem()


def test_what_was_applied_before_is_kept_unless_the_world_is_told_to_forget_it(
    tmp_path: Path, paths: WorldPaths
) -> None:
    paths.applied.parent.mkdir(parents=True)
    paths.applied.write_text("{}")
    world(tmp_path)
    assert paths.applied.exists()
    world(tmp_path, keeps_applied=False)
    assert not paths.applied.exists()


def test_every_file_of_a_node_is_in_the_worlds_runtime_folder(tmp_path: Path, paths: WorldPaths) -> None:
    assert world(tmp_path).agent_socket("node-1") == paths.node("node-1").agent_socket
    assert world(tmp_path).log_path("uid-1", "main").is_relative_to(paths.pods)
