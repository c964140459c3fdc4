"""What every `Ruleset` does. A new implementation joins `RULESETS`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from tests.netns.lab import Lab
from tests.support.ruleset import MemoryRuleset

from aether.adapters.kernel.nft import NftRefused
from aether.control.agent.capture import Ruleset
from aether.plan.capture import CapturePlan, EditCapture, MeshSets, ReplaceCapture
from aether.render.nft import CAPTURE_NAME, render_capture_change


@contextmanager
def _memory(_: Path) -> Iterator[Ruleset]:
    yield MemoryRuleset()


@contextmanager
def _kernel(folder: Path) -> Iterator[Ruleset]:
    with Lab(folder) as lab:
        yield lab.nft(lab.add_node(1).netns)


RULESETS: Mapping[str, Callable[[Path], AbstractContextManager[Ruleset]]] = {"memory": _memory, "kernel": _kernel}

CART = MeshSets(mesh4=frozenset({"10.96.0.5"}), raw6=frozenset({("fd96::5", 9000)}))
WEB = MeshSets(mesh4=frozenset({"10.96.0.6"}), raw4=frozenset({("10.96.0.6", 25)}))
NONE = MeshSets()


@pytest.fixture(params=["memory", pytest.param("kernel", marks=pytest.mark.root)])
def ruleset(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ruleset]:
    with RULESETS[request.param](tmp_path) as ruleset:
        yield ruleset


def replace(ruleset: Ruleset, sets: MeshSets) -> None:
    ruleset.apply(render_capture_change(ReplaceCapture(CapturePlan(captures_all=True, sets=sets))))


def edit(ruleset: Ruleset, *, add: MeshSets = NONE, remove: MeshSets = NONE) -> None:
    ruleset.apply(render_capture_change(EditCapture(add=add, remove=remove)))


def holds(ruleset: Ruleset, sets: MeshSets) -> bool:
    """Whether all of these elements are there; they are afterwards as before."""
    try:
        edit(ruleset, remove=sets)
    except NftRefused:
        return False
    edit(ruleset, add=sets)
    return True


def test_a_table_is_there_once_it_was_applied_and_may_be_replaced_any_number_of_times(ruleset: Ruleset) -> None:
    assert not ruleset.has_table("inet", CAPTURE_NAME)
    replace(ruleset, CART)
    replace(ruleset, CART)
    assert ruleset.has_table("inet", CAPTURE_NAME)
    assert holds(ruleset, CART)
    replace(ruleset, WEB)
    assert holds(ruleset, WEB)
    assert not holds(ruleset, CART)


def test_elements_come_and_go(ruleset: Ruleset) -> None:
    replace(ruleset, CART)
    edit(ruleset, add=WEB, remove=CART)
    assert holds(ruleset, WEB)
    assert not holds(ruleset, CART)


def test_an_element_that_is_there_may_be_added_again(ruleset: Ruleset) -> None:
    replace(ruleset, CART)
    edit(ruleset, add=CART)
    assert holds(ruleset, CART)


def test_of_a_transaction_that_is_refused_nothing_is_applied(ruleset: Ruleset) -> None:
    replace(ruleset, NONE)
    with pytest.raises(NftRefused):
        edit(ruleset, add=WEB, remove=CART)
    assert not holds(ruleset, WEB)


def test_an_edit_of_a_table_that_is_gone_is_refused(ruleset: Ruleset) -> None:
    with pytest.raises(NftRefused):
        edit(ruleset, add=CART)
    replace(ruleset, CART)
    ruleset.apply(f"delete table inet {CAPTURE_NAME}\n")
    assert not ruleset.has_table("inet", CAPTURE_NAME)
    with pytest.raises(NftRefused):
        ruleset.apply(f"delete table inet {CAPTURE_NAME}\n")


def test_a_closed_ruleset_takes_nothing_and_may_be_closed_again(ruleset: Ruleset) -> None:
    ruleset.close()
    ruleset.close()
    with pytest.raises(NftRefused):
        replace(ruleset, CART)
