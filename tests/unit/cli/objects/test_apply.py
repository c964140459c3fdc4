import io
from pathlib import Path

import msgspec
import pytest
from tests.support.memoryworld import ServedWorld
from tests.unit.cli.conftest import Aether

GOOD = "{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: shop}, data: {a: b}}"
BAD = "{apiVersion: v1, kind: Gizmo, metadata: {name: bad}}"


def test_manifests_are_applied_and_said_one_a_line(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD)
    said = aether("apply", "-f", str(tmp_path / "a.yaml"))
    assert (said.code, said.out) == (0, "configmap shop/good created\n")
    assert aether("apply", "-f", str(tmp_path / "a.yaml")).out == "configmap shop/good unchanged\n"


def test_a_bad_document_ends_with_two_names_its_place_and_holds_nothing_up(
    aether: Aether, served: ServedWorld, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text(f"{BAD}\n---\n{GOOD}")
    said = aether("apply", "-f", str(tmp_path))
    assert said.code == 2
    assert said.out == "configmap shop/good created\n"
    assert f"{tmp_path}/a.yaml:1" in said.err
    assert "unknown-kind" in said.err


def test_manifests_come_from_the_standard_input(
    aether: Aether, served: ServedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(GOOD))
    assert aether("apply", "-f", "-").out == "configmap shop/good created\n"


def test_a_report_can_be_data(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{BAD}\n---\n{GOOD}")
    said = aether("apply", "-f", str(tmp_path), "-o", "json")
    report = msgspec.json.decode(said.out)
    assert (len(report["applied"]), len(report["diagnostics"]), said.code) == (1, 1, 2)


def test_a_file_that_is_not_there_is_wrong_input(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    said = aether("apply", "-f", str(tmp_path / "nothing.yaml"))
    assert said.code == 2
    assert "nothing.yaml" in said.err
