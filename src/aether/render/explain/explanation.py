"""Explain one request of a pod: by the pod's resolver, its capture, and what its Envoy was told.

The answer is the evaluator's, on the live snapshot: the same reading that the delivery property is proved with.
"""

from collections.abc import Iterable, Mapping

import msgspec

from aether.model.endpoint import EndpointRow
from aether.model.facts import LocalPod
from aether.model.ports import PROXY_PORT, PortClass
from aether.model.world import ExplainRequest, ExplainStep, Explanation, Via
from aether.plan.mesh.addressing import is_mesh_address
from aether.plan.mesh.clusters import MeshContext, PassThroughCluster, Tombstone, plan_cluster
from aether.render.envoy import names
from aether.render.envoy.evaluate import Connection, Evaluator, Request, Spoken, Unsupported, Verdict
from aether.render.envoy.evaluate.verdict import (
    Absent,
    Answer,
    Close,
    Endpoint,
    Forward,
    Http,
    Members,
    Outcome,
    Split,
    Step,
    StepKind,
)
from aether.render.envoy.snapshot import Snapshot, render_cluster
from aether.render.explain.advice import BY_REASON, CLOSED_AT_MESH_ADDRESS, UNKNOWN_NAME
from aether.render.explain.dial import Dialled, Nowhere, dial, dial_proxy
from aether.render.explain.seen import SeenFailure, with_seen
from aether.render.explain.specifiers import contracts_for
from aether.render.explain.target import BadTarget, Speech, Target, parse_target

_SPOKEN: Mapping[Speech, Spoken] = {Speech.HTTP: Spoken.HTTP11, Speech.TLS: Spoken.TLS, Speech.RAW: Spoken.OTHER}


def explain(
    request: ExplainRequest, context: MeshContext | None, snapshot: Snapshot, *, seen: Iterable[SeenFailure] = ()
) -> Explanation:
    """What becomes of the request. Never raises: what cannot be told has the outcome `unknown`, and says why.

    `context` is the agent's (None before the control plane was reached), `snapshot` what its Envoy was told, `seen`
    what failed of late, the newest first.
    """
    if context is None:
        return _unknown("the agent has not heard from the control plane yet", advice="aether check")
    facts = context.facts
    pod = next((one for one in facts.pods if (one.namespace, one.name) == (request.namespace, request.pod)), None)
    if pod is None:
        return _unknown(f"pod {request.namespace}/{request.pod} is not on node {facts.node}")
    try:
        target = _read_target(request)
    except BadTarget as error:
        return _unknown(str(error))
    dialled = dial_proxy(pod) if request.via is Via.PROXY else dial(pod, target, context)
    return _follow(pod, target, dialled, _Answers(context, snapshot, seen))


def _read_target(request: ExplainRequest) -> Target:
    target = parse_target(request.target)
    if request.via is Via.PROXY and target.speech is not Speech.HTTP:
        raise BadTarget(request.target, "the proxy port speaks HTTP: give an http URL")
    return msgspec.structs.replace(target, authority=request.host_header or target.authority)


def _follow(pod: LocalPod, target: Target, dialled: Dialled | Nowhere, answers: "_Answers") -> Explanation:
    if isinstance(dialled, Nowhere):
        return _explain_nowhere(dialled, target)
    if dialled.listener is None:
        return _explain_straight(dialled, target)
    try:
        return answers.explain(pod, target, dialled)
    except Unsupported as error:
        return _unknown(str(error), steps=dialled.steps)


class _Answers:
    """Explanations from one snapshot, which grows by what Envoy would ask for on demand."""

    def __init__(self, context: MeshContext, snapshot: Snapshot, seen: Iterable[SeenFailure]) -> None:
        self._context = context
        self._snapshot = snapshot
        self._seen = seen

    def explain(self, pod: LocalPod, target: Target, dialled: Dialled) -> Explanation:
        verdict = self._evaluate(pod, target, dialled)
        asked: list[ExplainStep] = []
        if isinstance(verdict.outcome, Forward) and verdict.outcome.upstream == Absent(is_asked_for=True):
            asked.append(self._ask(verdict.outcome.cluster))
            verdict = self._evaluate(pod, target, dialled)
        at = next((index for index, step in enumerate(verdict.steps) if step.kind is StepKind.CLUSTER), 0)
        found = [*_spelled(verdict.steps[:at], pod), *asked, *_spelled(verdict.steps[at:], pod)]
        steps = [*dialled.steps, *found]
        explanation = self._conclude(verdict.outcome, target, dialled, steps)
        return with_seen(explanation, self._last_failure(pod, verdict.outcome))

    def _last_failure(self, pod: LocalPod, outcome: Outcome) -> SeenFailure | None:
        if not isinstance(outcome, Forward):
            return None
        sought = (pod.namespace, pod.name, outcome.cluster)
        return next((one for one in self._seen if (one.namespace, one.pod, one.cluster) == sought), None)

    def _evaluate(self, pod: LocalPod, target: Target, dialled: Dialled) -> Verdict:
        assert dialled.listener is not None
        port = PROXY_PORT if dialled.listener == PROXY_PORT else target.port
        connection = Connection(
            netns=pod.netns,
            listener_port=dialled.listener,
            address=dialled.address,
            port=port,
            spoken=_SPOKEN[target.speech],
            server_name=target.host if target.speech is Speech.TLS else "",
        )
        if target.speech is not Speech.HTTP:
            return self._evaluator().evaluate_connection(connection)
        return self._evaluator().evaluate_request(connection, Request(authority=target.authority, path=target.path))

    def _evaluator(self) -> Evaluator:
        return Evaluator(self._snapshot, contracts=contracts_for(self._context.facts.config.domains))

    def _ask(self, name: str) -> ExplainStep:
        """Add what the agent answers to a name that Envoy asks for."""
        plan = plan_cluster(name, self._context)
        cluster, assignment = render_cluster(plan, self._context.facts.config)
        self._snapshot = _with(self._snapshot, names.CLUSTER, name, cluster)
        if assignment is not None:
            self._snapshot = _with(self._snapshot, names.ENDPOINT, name, assignment)
        match plan:
            case Tombstone(reason=None):
                says, is_ok = f"the agent answers that {name} is nobody's", False
            case Tombstone(listing=listing):
                says, is_ok = f"the agent answers that the pod {listing}", False
            case PassThroughCluster():
                says, is_ok = f"the agent answers that {name} is not the mesh's", True
            case _:
                says, is_ok = f"the agent answers {name} with {plan.service}", True
        return ExplainStep(stage="on demand", says=says, is_ok=is_ok)

    def _conclude(self, outcome: Outcome, target: Target, dialled: Dialled, steps: list[ExplainStep]) -> Explanation:
        if isinstance(outcome, Forward) and outcome.failure is not None:
            outcome = outcome.failure
        match outcome:
            case Forward():
                return self._explain_forward(outcome, target, dialled, steps)
            case Answer():
                return _explain_answer(outcome, steps)
            case Close():
                return self._explain_close(outcome, dialled, steps)
            case Split(shares=shares):
                clusters = ", ".join(f"{share.cluster} ({weight})" for weight, share in shares)
                return Explanation(outcome="deliver", summary=f"by weight to {clusters}", steps=tuple(steps))
            case Http():
                return _unknown("each request of the connection is judged by itself: give an http URL", steps=steps)

    def _explain_forward(
        self, forward: Forward, target: Target, dialled: Dialled, steps: list[ExplainStep]
    ) -> Explanation:
        if forward.hop is None:
            return self._explain_pass_through(target, dialled, steps)
        endpoint = self._endpoint(forward, dialled)
        row = self._context.row_by_address.get(endpoint.address)
        where = f"pod {row.service.namespace}/{row.pod} on {row.node}" if row is not None else endpoint.address
        if isinstance(forward.upstream, Members) and len(forward.upstream.usable) > 1:
            where += f", or one of {len(forward.upstream.usable) - 1} more"
        steps += self._arrive(forward, endpoint, row)
        summary = f"to {where}, port {forward.hop.server_name}, over mutual TLS as {forward.hop.secret}"
        failed = next((step for step in steps if not step.is_ok), None)
        if failed is not None:
            return Explanation(outcome="closed", summary=failed.says, steps=tuple(steps), advice="aether check")
        return Explanation(outcome="deliver", summary=summary, steps=tuple(steps))

    def _endpoint(self, forward: Forward, dialled: Dialled) -> Endpoint:
        if isinstance(forward.upstream, Members):
            return forward.upstream.usable[0]
        port = getattr(forward.upstream, "port", 0)
        return Endpoint(address=dialled.address, port=port, health="", is_usable=True)

    def _arrive(self, forward: Forward, endpoint: Endpoint, row: EndpointRow | None) -> Iterable[ExplainStep]:
        """The destination's inbound listener: evaluated if it is on this node, else by what its row declares."""
        assert forward.hop is not None
        if row is None:
            return ()
        local = next((pod for pod in self._context.facts.pods if endpoint.address in pod.addresses), None)
        if local is not None:
            arrival = self._evaluator().evaluate_arrival(forward, endpoint, local.netns)
            is_ok = isinstance(arrival.outcome, Forward) and arrival.outcome.failure is None
            found = [step for step in arrival.steps if step.kind.value in {"filter chain", "cluster", "endpoint"}]
            spelled = [ExplainStep(stage=f"arrival: {one.kind}", says=_says(one), is_ok=is_ok) for one in found]
            return spelled or [ExplainStep(stage="arrival", says="nothing takes it in the pod", is_ok=False)]
        number = int(forward.hop.server_name)
        port = next(
            (port for port in row.ports if port.number == number and port.port_class is not PortClass.UDP), None
        )
        if port is None:
            says = f"{row.pod} does not declare {number}: no filter chain takes the server name"
            return (ExplainStep(stage="arrival", says=says, is_ok=False),)
        is_http = port.port_class is PortClass.HTTP
        chain = (names.inbound_http_chain if is_http else names.inbound_tcp_chain)(row.pod, number)
        return (ExplainStep(stage="arrival: filter chain", says=f"{chain} of {row.pod}, by what it declares"),)

    def _explain_pass_through(self, target: Target, dialled: Dialled, steps: list[ExplainStep]) -> Explanation:
        shown = msgspec.structs.replace(target, host=dialled.address)
        if self._is_closed(dialled.address):
            summary = f"passed on to {shown}, where nothing is routed: the connection is reset"
            stopped = _stopped(steps, StepKind.ENDPOINT)
            return Explanation(outcome="closed", summary=summary, steps=stopped, advice=CLOSED_AT_MESH_ADDRESS)
        summary = f"to {shown}, as if there were no mesh"
        return Explanation(outcome="pass-through", summary=summary, steps=tuple(steps))

    def _explain_close(self, close: Close, dialled: Dialled, steps: list[ExplainStep]) -> Explanation:
        advice = CLOSED_AT_MESH_ADDRESS if self._is_closed(dialled.address) else "aether check"
        stopped = _stopped(steps, StepKind.CHAIN, StepKind.CLUSTER, StepKind.ENDPOINT)
        return Explanation(outcome="closed", summary=close.why, steps=stopped, advice=advice)

    def _is_closed(self, address: str) -> bool:
        """Whether only the mesh leads to an address: a generated Service's or a registered pod's (rulings B.5)."""
        directory = self._context.directory
        owner = directory.owners.get(address)
        is_users = owner is not None and directory.views[owner].is_user_owned
        return is_mesh_address(address, directory) and not is_users


def _explain_answer(answer: Answer, steps: list[ExplainStep]) -> Explanation:
    reason = answer.header(names.ERROR_HEADER) or ""
    text = f": {answer.body.strip()}" if answer.body.strip() else ""
    summary = f"{answer.status} by the proxy{text}"
    stopped = _stopped(steps, StepKind.VIRTUAL_HOST, StepKind.ROUTE, StepKind.CLUSTER, StepKind.ENDPOINT)
    if answer.status == 404 and not reason:
        return Explanation(outcome="not-found", summary=summary, steps=stopped, advice=UNKNOWN_NAME)
    advice = BY_REASON.get(reason, "")
    return Explanation(outcome="refuse", reason=reason, summary=summary, steps=stopped, advice=advice)


def _explain_nowhere(nowhere: Nowhere, target: Target) -> Explanation:
    if nowhere.is_outside:
        summary = f"{target} is not the mesh's: it passes through to whatever address the name has"
        return Explanation(outcome="pass-through", summary=summary, steps=nowhere.steps)
    summary = f"there is no address to dial for {target.host}"
    return Explanation(outcome="not-found", summary=summary, steps=nowhere.steps, advice=UNKNOWN_NAME)


def _explain_straight(dialled: Dialled, target: Target) -> Explanation:
    shown = msgspec.structs.replace(target, host=dialled.address)
    return Explanation(outcome="pass-through", summary=f"straight to {shown}", steps=dialled.steps)


def _unknown(summary: str, *, steps: Iterable[ExplainStep] = (), advice: str = "") -> Explanation:
    return Explanation(outcome="unknown", summary=summary, steps=tuple(steps), advice=advice)


def _spelled(steps: Iterable[Step], pod: LocalPod) -> list[ExplainStep]:
    return [
        ExplainStep(stage=step.kind.value, says=_says(step).replace(pod.netns, "the pod's namespace")) for step in steps
    ]


_SHORT: Mapping[str, str] = {
    names.IDENTITY_KEY: "identity",
    names.NETNS_KEY: "from",
    names.CALLER_NAMESPACE_KEY: "caller namespace",
    names.DIALLED_PORT_KEY: "dialled port",
    names.TCP_CLUSTER_KEY: "cluster",
}
"""What people call the keys of filter state."""


def _says(step: Step) -> str:
    if step.kind is StepKind.CHOICE:
        return step.why
    why = step.why
    for key, word in _SHORT.items():
        why = why.replace(f"{key}=", f"{word} ")
    return f"{step.name}: {why}"


def _stopped(steps: list[ExplainStep], *stages: StepKind) -> tuple[ExplainStep, ...]:
    """The steps with the last one of those stages marked: there it went wrong."""
    marked = max((index for index, step in enumerate(steps) if step.stage in stages), default=None)
    return tuple(
        msgspec.structs.replace(step, is_ok=step.is_ok and index != marked) for index, step in enumerate(steps)
    )


def _with(snapshot: Snapshot, type_url: str, name: str, resource: object) -> Snapshot:
    return {**snapshot, type_url: {**snapshot.get(type_url, {}), name: resource}}  # type: ignore[dict-item]
