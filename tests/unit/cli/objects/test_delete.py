from pathlib import Path

import pytest
from tests.support.memoryworld import ServedWorld, namespace, pod
from tests.unit.cli.conftest import Aether


def test_objects_are_deleted_by_name_and_what_is_missing_ends_with_one(aether: Aether, served: ServedWorld) -> None:
    served.apply(pod("shop/cart-1", node=""), pod("shop/cart-2", node=""))
    said = aether("delete", "pod", "-n", "shop", "nobody", "cart-1", "shop/cart-2")
    assert said.code == 1
    assert said.out == "Pod shop/cart-1 deleted\nPod shop/cart-2 deleted\n"
    assert "nobody" in said.err


def test_what_manifests_name_is_deleted_last_first(aether: Aether, served: ServedWorld, tmp_path: Path) -> None:
    served.apply(namespace("one"), pod("one/cart-1", node=""))
    manifest = "kind: Namespace\nmetadata: {name: one}\n---\nkind: Pod\nmetadata: {name: cart-1, namespace: one}\n"
    (tmp_path / "a.yaml").write_text(manifest)
    said = aether("delete", "-f", str(tmp_path / "a.yaml"))
    assert said.out.splitlines() == ["Pod one/cart-1 deleted", "Namespace one deleted"]


@pytest.mark.parametrize(
    "arguments", [(), ("pod",), ("pod", "a", "-f", "x"), ("gizmo", "a"), ("pod", "a/b", "-n", "c")]
)
def test_it_must_be_said_what(aether: Aether, served: ServedWorld, arguments: tuple[str, ...]) -> None:
    assert aether("delete", *arguments).code == 2


@pytest.mark.parametrize("text", ["{", "just: words", "[1, 2]"])
def test_a_file_that_is_no_manifest_is_wrong_input(
    aether: Aether, served: ServedWorld, tmp_path: Path, text: str
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    said = aether("delete", "-f", str(tmp_path / "a.yaml"))
    assert said.code == 2
    assert "a.yaml" in said.err
