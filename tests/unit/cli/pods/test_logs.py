import pytest
from tests.support.memoryworld import ServedWorld, pod
from tests.unit.cli.conftest import Aether

from aether.adapters.objects.kinds import ObjectKey


@pytest.fixture
def written(served: ServedWorld) -> ServedWorld:
    """The pod shop/cart-1 whose container `main` has written three lines."""
    served.apply(pod("shop/cart-1"))
    found = served.world.objects.get(ObjectKey("Pod", "shop", "cart-1"))
    assert found is not None
    path = served.world.log_path(found["metadata"]["uid"], "main")
    path.parent.mkdir(parents=True)
    path.write_text("one\ntwo\nthree\n")
    return served


def test_a_log_is_printed_whole_or_its_last_lines(aether: Aether, written: ServedWorld) -> None:
    assert aether("logs", "shop/cart-1").out == "one\ntwo\nthree\n"
    assert aether("logs", "cart-1", "--tail", "1", "-c", "main").out == "three\n"


def test_a_followed_log_ends_with_its_pod(aether: Aether, written: ServedWorld) -> None:
    written.call(written.world.objects.delete(ObjectKey("Pod", "shop", "cart-1"), grace_s=0))
    assert aether("logs", "-f", "cart-1").code == 1, "the pod is gone already"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("shop/cart-1", "-c", "side"), 1, "it has main"),
        (("shop/nobody",), 1, "there are shop/cart-1"),
        (("a/b/c/d",), 2, "names no pod"),
    ],
)
def test_a_wrong_name_is_answered_with_right_ones(
    aether: Aether, written: ServedWorld, words: tuple[str, ...], code: int, text: str
) -> None:
    said = aether("logs", *words)
    assert said.code == code
    assert text in said.err
