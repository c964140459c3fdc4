"""Facts to plan: each case's node, its answers to requests, its registrations and its zone."""

from pathlib import Path

import msgspec
import pytest
import yaml
from tests.support.golden import Golden, cases

from aether.model.facts import NodeFacts
from aether.plan.mesh.addressing import (
    Deliver,
    EntryPath,
    HttpRequest,
    NotFound,
    Outcome,
    PassThrough,
    Refuse,
    answer_http,
    refusal_body,
    refusal_ports,
)
from aether.plan.mesh.clusters import MeshContext, plan_context
from aether.plan.mesh.dns import ZoneName, plan_zone
from aether.plan.mesh.node import plan_node_in
from aether.plan.mesh.register import plan_rows

CASES = Path(__file__).parent / "plan"
WIDTH = 118


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of ``in.yaml``: `dial` is ``address:port``; without it the proxy port is used."""

    host: str
    dial: str = ""
    caller: str | None = None


class Case(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole input of a case. `healthy` are uids of pods, `observed` names of clusters."""

    facts: NodeFacts
    healthy: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    requests: tuple[Asked, ...] = ()


@pytest.mark.parametrize("folder", cases(CASES), ids=lambda folder: folder.name)
def test_facts_give_the_committed_plan(folder: Path, golden: Golden) -> None:
    case = msgspec.convert(yaml.safe_load((folder / "in.yaml").read_text()), Case)
    context = plan_context(case.facts)
    plan = plan_node_in(context, observed=frozenset(case.observed))
    golden.check(folder / "services.yaml", _yaml({"directory": plan.directory, "dialled_pods": plan.dialled_pods}))
    golden.check(folder / "pods.yaml", _yaml(plan.pods))
    golden.check(folder / "clusters.yaml", _yaml(plan.clusters))
    golden.check(folder / "problems.txt", "".join(f"{problem.code}: {problem}\n" for problem in plan.problems))
    golden.check(folder / "rows.yaml", _yaml(plan_rows(case.facts, healthy=frozenset(case.healthy))))
    golden.check(folder / "zone.txt", "".join(_zone_line(name) for name in plan_zone(case.facts).names))
    golden.check(folder / "answers.txt", "".join(_answer(asked, context) for asked in case.requests))


def test_there_are_cases() -> None:
    assert cases(CASES)


def _yaml(value: object) -> str:
    return yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, width=WIDTH, default_flow_style=None)


def _zone_line(name: ZoneName) -> str:
    return f"{name.name}: {' '.join((*name.ipv4, *name.ipv6)) or 'no data'}\n"


def _answer(asked: Asked, context: MeshContext) -> str:
    address, _, port = asked.dial.rpartition(":")
    request = HttpRequest(
        path=EntryPath.CAPTURED if asked.dial else EntryPath.PROXY_PORT,
        authority=asked.host,
        dialled_address=address.strip("[]") or "127.0.0.1",
        dialled_port=int(port or 18081),
        caller_namespace=asked.caller,
    )
    outcome = answer_http(request, context.directory)
    spelled = _spell(outcome, request, context)
    return f"{asked.dial or 'proxy port'} {asked.host or '-'} from {asked.caller}\n    {spelled}\n"


def _spell(outcome: Outcome, request: HttpRequest, context: MeshContext) -> str:
    match outcome:
        case Deliver(cluster=cluster, target=target):
            return f"deliver to {cluster}, pod port {target}"
        case Refuse(reason=reason):
            ports = refusal_ports(outcome, request, context.directory)
            return f"refuse {reason}: {refusal_body(reason, request.authority, ports)}"
        case PassThrough():
            return "pass through"
        case NotFound():
            return "not found"
