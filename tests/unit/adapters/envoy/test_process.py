"""How Envoy is started; that it does start is in tests/conformance."""

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from aether.adapters.envoy.process import (
    BootstrapRejected,
    EnvoyCommand,
    EnvoyUnusable,
    envoy_program,
    find_envoy,
    validate,
)


def _command(folder: Path, *, netns: str = "") -> EnvoyCommand:
    return EnvoyCommand(bootstrap=folder / "bootstrap.json", log_path=folder / "envoy.log", netns=netns)


def _fake_package(folder: Path, script: str) -> str:
    """A package of the name, whose binary is a shell script."""
    binary = folder / "envoy" / "_bin" / "envoy"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\n{script}\n")
    binary.chmod(0o755)
    info = folder / "fake_envoy-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-envoy\nVersion: 1\n")
    return "fake-envoy"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.envoy
def test_the_binary_is_the_packages_own_and_no_script(tmp_path: Path) -> None:
    assert find_envoy().read_bytes()[:4] == b"\x7fELF"


def test_a_missing_package_and_a_binary_that_is_not_executable_are_told_apart(package: Path) -> None:
    with pytest.raises(EnvoyUnusable, match="not installed") as caught:
        find_envoy("no-such-package-of-envoy")
    assert isinstance(caught.value.__cause__, PackageNotFoundError)
    assert caught.value.code == "envoy-unusable"
    name = _fake_package(package, "true")
    (package / "envoy/_bin/envoy").chmod(0o644)
    with pytest.raises(EnvoyUnusable, match="executable"):
        find_envoy(name)


def test_many_envoys_run_side_by_side(package: Path) -> None:
    program = envoy_program(_command(package, netns="/run/node-1"), binary=Path("/bin/envoy"))
    assert "--disable-hot-restart" in program.argv, "no shared memory, no sockets of a fixed name"
    assert program.argv[0] == "/bin/envoy"
    assert (program.name, program.netns) == ("envoy", "/run/node-1")
    assert program.log_path == package / "envoy.log"


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        ("echo '[critical] unknown field adress'; exit 1", BootstrapRejected, "unknown field"),
        ("echo '[info] starting'; exit 1", BootstrapRejected, "no reason given"),
        ("kill -SEGV $$", EnvoyUnusable, "crashed"),
        ("exec sleep 60", EnvoyUnusable, "more than 0.2 s"),
    ],
)
async def test_a_crashed_or_hanging_validator_is_no_verdict(
    package: Path, script: str, error: type[Exception], text: str
) -> None:
    _fake_package(package, script)
    with pytest.raises(error, match=text):
        await validate(
            _command(package), binary=package / "envoy/_bin/envoy", timeout_s=0.2 if "60" in script else 20.0
        )


async def test_a_binary_that_does_not_start_is_no_verdict(package: Path) -> None:
    wrong = package / "wrong"
    wrong.write_bytes(b"\x7fELF of another machine")
    wrong.chmod(0o755)
    with pytest.raises(EnvoyUnusable, match="does not start"):
        await validate(_command(package), binary=wrong)


async def test_an_accepted_bootstrap_says_nothing(package: Path) -> None:
    _fake_package(package, "echo configuration OK")
    await validate(_command(package), binary=package / "envoy/_bin/envoy")
