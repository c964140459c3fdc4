from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.memoryworld import ServedWorld, served_world


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedWorld]:
    """A world in memory with the namespace `shop`, behind its sockets."""
    with served_world(tmp_path) as world:
        world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        yield world
