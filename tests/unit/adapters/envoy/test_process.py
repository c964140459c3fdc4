"""How Envoy is started. The binary itself runs in tests/conformance."""

from pathlib import Path

import pytest

from aether.adapters.envoy.process import BootstrapRejected, EnvoyCommand, envoy_program, find_envoy, validate


def command(tmp_path: Path, text: str = "{}") -> EnvoyCommand:
    (tmp_path / "bootstrap.json").write_text(text)
    return EnvoyCommand(
        bootstrap=tmp_path / "bootstrap.json", log_path=tmp_path / "log", netns="/run/n1", name="envoy@n1", drain_s=7
    )


def test_a_program_runs_the_packages_own_binary_in_the_nodes_namespace(tmp_path: Path) -> None:
    program = envoy_program(command(tmp_path))
    assert (program.name, program.netns, program.log_path) == ("envoy@n1", "/run/n1", tmp_path / "log")
    assert program.argv[0] == str(find_envoy())
    pairs = dict(zip(program.argv[1:], program.argv[2:], strict=False))
    assert pairs["--config-path"] == str(tmp_path / "bootstrap.json")
    assert pairs["--drain-time-s"] == "7"
    assert pairs["--concurrency"] == "2"
    assert "--disable-hot-restart" in program.argv, "worlds side by side share no names"


@pytest.mark.envoy
async def test_envoys_own_validation_accepts_and_refuses_in_its_own_words(tmp_path: Path) -> None:
    good = EnvoyCommand(bootstrap=command(tmp_path).bootstrap, log_path=tmp_path / "log")
    await validate(good)
    good.bootstrap.write_text('{"no_such_field": 1}')
    with pytest.raises(BootstrapRejected, match="no_such_field"):
        await validate(good)
