"""The seam plan → nftables: a case is a plan, the plan that follows it, and the text of the table and of the change."""

from pathlib import Path

import msgspec
import pytest
import yaml
from tests.support.golden import Golden, cases

from aether.plan.capture import CapturePlan, diff_capture
from aether.plan.routing import RoutingPlan, diff_routing
from aether.render.nft import render_capture, render_capture_change, render_routing, render_routing_change

CASES = cases(Path(__file__).parent)


class Input(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Either a pod's capture or a node's routing, before and after."""

    capture: CapturePlan | None = None
    next_capture: CapturePlan | None = None
    routing: RoutingPlan | None = None
    next_routing: RoutingPlan | None = None


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_tables_and_changes_are_spelled_as_committed(case: Path, golden: Golden) -> None:
    given = msgspec.convert(yaml.safe_load((case / "in.yaml").read_text()), Input)
    if given.capture is not None:
        golden.check(case / "table.nft", render_capture(given.capture))
        if given.next_capture is not None:
            change = diff_capture(given.capture, given.next_capture)
            golden.check(case / "change.nft", render_capture_change(change) if change else "")
    if given.routing is not None:
        golden.check(case / "table.nft", render_routing(given.routing))
        if given.next_routing is not None:
            edit = diff_routing(given.routing, given.next_routing)
            golden.check(case / "change.nft", render_routing_change(edit) if edit else "")
