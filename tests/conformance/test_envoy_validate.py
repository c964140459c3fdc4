"""Envoy's own validation accepts every committed snapshot."""

from pathlib import Path

import pytest
from tests.golden.test_envoy import CASES, read
from tests.support.envoy import static_bootstrap, validate
from tests.support.golden import cases

from aether.render.envoy.bootstrap import BootstrapSettings

pytestmark = pytest.mark.envoy


@pytest.mark.parametrize("folder", cases(CASES), ids=lambda folder: folder.name)
def test_envoy_accepts_every_committed_snapshot(folder: Path, tmp_path: Path) -> None:
    settings = BootstrapSettings(
        node="n1", ads_socket=str(tmp_path / "ads.sock"), admin_socket=str(tmp_path / "admin.sock")
    )
    assert validate(static_bootstrap(read(folder), settings), tmp_path) == ""
