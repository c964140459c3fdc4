"""What tests on the real kernel share: a fabric of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.netns.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab(tmp_path) as lab:
        yield lab
