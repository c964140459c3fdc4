"""What every end-to-end test needs: a world of its own module, made from the module's MANIFESTS."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.world import RunningWorld, world


@pytest.fixture(scope="module")
def mesh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningWorld]:
    """A running world with the module's `MANIFESTS` (text) on `NODES` nodes (1 unless the module says otherwise)."""
    module = request.module
    name = f"{Path(module.__file__).stem.removeprefix('test_').replace('_', '-')}-{os.getpid()}"[:32].rstrip("-")
    directory = tmp_path_factory.mktemp("manifests")
    (directory / "manifests.yaml").write_text(module.MANIFESTS)
    with world(name, directory, nodes=getattr(module, "NODES", 1)) as running:
        yield running
