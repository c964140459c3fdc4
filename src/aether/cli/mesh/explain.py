"""`aether explain`: what becomes of a pod's request, step by step."""

from collections.abc import Mapping

from aether.cli.address import PodReference
from aether.cli.client import open_world
from aether.cli.format import Output
from aether.cli.output import MARKS, console, escaped, print_data
from aether.model.world import CheckVerdict, ExplainRequest, Explanation, Via

_COLOURS: Mapping[str, str] = {"deliver": "green", "pass-through": "cyan"}


def run_explain(
    world: str | None, pod: PodReference, target: str, *, host: str, is_by_proxy: bool, output: Output
) -> None:
    request = ExplainRequest(
        namespace=pod.namespace,
        pod=pod.name,
        kind=pod.kind,
        target=target,
        host_header=host,
        via=Via.PROXY if is_by_proxy else Via.CAPTURED,
    )
    explanation = open_world(world).call("POST", "/v1/explain", reply=Explanation, body=request)
    if output in {Output.JSON, Output.YAML}:
        print_data(explanation, output)
    else:
        print_explanation(explanation)


def print_explanation(explanation: Explanation) -> None:
    """The stages in order, then the outcome and what to do about it."""
    stdout = console()
    width = max((len(step.stage) for step in explanation.steps), default=0)
    for step in explanation.steps:
        mark = MARKS[CheckVerdict.OK if step.is_ok else CheckVerdict.FAILED]
        stdout.print(f"{mark} [bold]{escaped(step.stage.ljust(width))}[/]  {escaped(step.says)}")
    colour = _COLOURS.get(explanation.outcome, "red")
    reason = f" {explanation.reason}" if explanation.reason else ""
    stdout.print(f"[{colour}]→ {escaped(explanation.outcome + reason)}[/]: {escaped(explanation.summary)}")
    if explanation.advice:
        stdout.print(f"  [dim]{escaped(explanation.advice)}[/]")
