from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.memoryworld import ServedWorld, namespace, served_world

from aether.cli.main import main


class Said(msgspec.Struct, frozen=True):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Aether = Callable[..., Said]


@pytest.fixture
def aether(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Aether:
    """Runs the command line in this process, with worlds looked for in the test's own folder."""
    monkeypatch.setenv("AETHER_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("AETHER_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("AETHER_WORLD", raising=False)

    def run(*arguments: str) -> Said:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capfd.readouterr()
        return Said(int(ended.value.code or 0), out, err)

    return run


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedWorld]:
    """The world `default` in memory, with the namespace `shop`."""
    with served_world(tmp_path) as world:
        world.apply(namespace("shop"))
        yield world
