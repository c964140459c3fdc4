"""Hold what a rendered snapshot does against the addressing rule, question by question.

A question is one dial of a pod: its capture decides the listener, the evaluator says what Envoy does with it, the plan
answers what Envoy asks for on demand, and `addressing` says what should have come of it.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from lupa.luajit21 import LuaRuntime  # type: ignore[import-untyped]  # it has no types
from tests.support.mutations import without_caller

from aether.model.endpoint import Health
from aether.model.facts import LocalPod, NodeFacts
from aether.model.identity import identity_of, outbound_secret
from aether.model.names import Domains, ServiceId, kubernetes_names, mesh_name, parse_authority
from aether.model.ports import CAPTURE_PORT, INBOUND_PORT, PROXY_PORT, DeclaredPort, PortClass
from aether.plan.capture import decide, plan_capture, plan_mesh_sets
from aether.plan.mesh.addressing import (
    Deliver,
    EntryPath,
    HttpRequest,
    NotFound,
    Outcome,
    PassThrough,
    RawConnection,
    Reason,
    Refuse,
    answer_http,
    answer_raw,
    refusal_body,
    refusal_ports,
)
from aether.plan.mesh.clusters import MeshContext, plan_cluster
from aether.plan.mesh.node import plan_context, plan_node_in
from aether.plan.mesh.pods import DeclaredPod, declared_pods
from aether.plan.mesh.services import ServiceView
from aether.render.envoy import names
from aether.render.envoy.evaluate import Connection, Evaluator, Request, Spoken, Verdict
from aether.render.envoy.evaluate.actions import Specify
from aether.render.envoy.evaluate.request import Headers
from aether.render.envoy.evaluate.verdict import Absent, Answer, Dialled, Endpoint, Forward, Members
from aether.render.envoy.routes import Specifier
from aether.render.envoy.snapshot import Snapshot, render_cluster, render_snapshot

LOOPBACK = "127.0.0.1"
_EXTRA_ADDRESSES = ("192.0.2.1", "10.96.77.7", "10.244.77.7", "2001:db8::1", "10.96.0.99")
_EXTRA_PORTS = (7777, PROXY_PORT)
_PORT_TEXTS = ("", "", "", ":80", ":18081", ":18082", ":", ":x", ":08080", ":8080:1", ":70000", ":8080x", ":+80")
_STRANGE_HOSTS = ("example.org", "cart.nowhere", "ghost", "ghost.shop.aether.internal", "10.96.0.21", "[fd96::21]")
_SPOKEN = (*(Spoken.HTTP11,) * 8, Spoken.HTTP10, Spoken.H2C, Spoken.TLS, Spoken.OTHER, Spoken.SILENT)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One dial of a local pod. `listener` is where it arrives; `is_anonymous`: the connection carries no namespace."""

    pod: LocalPod
    listener: int
    address: str
    port: int
    authority: str
    spoken: Spoken
    is_anonymous: bool = False

    def __str__(self) -> str:
        who = "nobody" if self.is_anonymous else f"{self.pod.namespace}/{self.pod.name}"
        return f"{who} dials {self.address} port {self.port} by {self.listener}, {self.spoken}, Host {self.authority!r}"


class DeliveryLab:
    """One mesh, what its node's Envoy is told, and the answers of both sides."""

    def __init__(self, facts: NodeFacts, snapshot: Snapshot | None = None) -> None:
        self.context: MeshContext = plan_context(facts)
        plan = plan_node_in(self.context, observed=frozenset())
        self.snapshot = render_snapshot(plan) if snapshot is None else snapshot
        self.declared: tuple[DeclaredPod, ...] = declared_pods(facts)
        assert not any(one.problems for one in self.declared), "a pod of the mesh declares nonsense"
        self._growing = {kind: dict(resources) for kind, resources in self.snapshot.items()}
        self._evaluator = Evaluator(self._growing, contracts=lua_contracts())
        anonymous = {**self._growing, names.LISTENER: without_caller(self.snapshot)[names.LISTENER]}
        self._anonymous = Evaluator(anonymous, contracts=lua_contracts())
        self._netns_by_address = {address: pod.netns for pod in facts.pods for address in pod.addresses}
        sets = plan_mesh_sets(self.context.services.views, self.context.dialled_pods)
        self._captures = {
            one.pod.uid: plan_capture(one.pod, one.declaration, sets, facts.config) for one in self.declared
        }

    def listener_of(self, pod: LocalPod, address: str, port: int) -> int | None:
        """The listener that the pod's capture diverts a dial to."""
        return decide(self._captures[pod.uid], address, port)

    def inspected(self, pod: LocalPod, port: int) -> Sequence[str]:
        """A Service address, if there is one, at which the port is diverted to the listener that looks at bytes."""
        addresses = (address for view in self.context.services.views for address in view.addresses)
        return [one for one in addresses if self.listener_of(pod, one, port) == CAPTURE_PORT][:1]

    def verdict(self, question: Question) -> Verdict:
        """What Envoy does in the end, after it was told of the clusters it asked for."""
        verdict = self._evaluate(question)
        if isinstance(verdict.outcome, Forward) and verdict.outcome.upstream == Absent(is_asked_for=True):
            self._answer_on_demand(verdict.outcome.cluster)
            verdict = self._evaluate(question)
        return verdict

    def expected(self, question: Question) -> Outcome:
        """The addressing rule's answer."""
        if question.listener != PROXY_PORT and not question.spoken.is_http:
            raw = RawConnection(dialled_address=question.address, dialled_port=question.port)
            return answer_raw(raw, self.context.directory)
        return answer_http(_as_request(question), self.context.directory)

    def fault(self, question: Question) -> str:
        """What is wrong with Envoy's answer, "" if nothing is."""
        verdict, expected = self.verdict(question), self.expected(question)
        wrong = self._differs(verdict, expected, question)
        if not wrong:
            return ""
        trail = "\n".join(f"  {step}" for step in verdict.steps)
        return f"{question}: {wrong}\n  expected {expected}\n{trail}\n  outcome {verdict.outcome}"

    def _differs(self, verdict: Verdict, expected: Outcome, question: Question) -> str:
        match expected:
            case Deliver():
                return self._undelivered(verdict, expected, question)
            case PassThrough():
                return _not_passed(verdict, question)
            case Refuse():
                return self._unrefused(verdict, expected, question)
            case NotFound():
                return "" if _is_not_found(verdict) else "not answered with 404"

    def _evaluate(self, question: Question) -> Verdict:
        connection = Connection(
            netns=question.pod.netns,
            listener_port=question.listener,
            address=question.address,
            port=question.port,
            spoken=question.spoken,
            server_name=parse_authority(question.authority).host if question.spoken is Spoken.TLS else "",
            alpn=("h2", "http/1.1") if question.spoken is Spoken.TLS else (),
        )
        evaluator = self._anonymous if question.is_anonymous else self._evaluator
        if not question.spoken.is_http:
            return evaluator.evaluate_connection(connection)
        forged = (("x-aether-from", "ops/9000"), ("x-request", "kept"))
        return evaluator.evaluate_request(connection, Request(authority=question.authority, headers=forged))

    def _answer_on_demand(self, name: str) -> None:
        cluster, assignment = render_cluster(plan_cluster(name, self.context), self.context.facts.config)
        self._growing[names.CLUSTER][name] = cluster
        if assignment is not None:
            self._growing.setdefault(names.ENDPOINT, {})[name] = assignment

    def _undelivered(self, verdict: Verdict, expected: Deliver, question: Question) -> str:
        forward = verdict.outcome
        if not isinstance(forward, Forward) or forward.hop is None:
            return "not delivered over the mesh hop"
        service = expected.service
        pinned = (str(identity_of(service, self.context.facts.config.trust_domain)),)
        secret = "out/none" if question.is_anonymous else outbound_secret(_service_of(question.pod))
        is_http = question.spoken.is_http and not expected.cluster.startswith("tcp|")
        checks = (
            (forward.cluster == expected.cluster, "another cluster"),
            (forward.hop.pinned == pinned, "another peer is accepted"),
            (forward.hop.server_name == str(expected.target), "another port of the pod"),
            (forward.hop.secret == secret or question.is_anonymous, "another identity is presented"),
            (forward.hop.is_pooled_by_identity, "pools are shared between identities"),
            (forward.hop.minimum_version == "TLSv1_3", "TLS below 1.3"),
            (forward.hop.alpn == (("h2",) if is_http else ()), "another protocol on the hop"),
            (not is_http or _is_untouched(forward, question), "the request is not the client's"),
        )
        wrong = next((text for is_fine, text in checks if not is_fine), "")
        port = DeclaredPort(expected.target, PortClass.HTTP if is_http else PortClass.TCP)
        return wrong or self._unreached(forward, service, port)

    def _unreached(self, forward: Forward, service: ServiceId, port: DeclaredPort) -> str:
        """The endpoints: exactly those of the service that declare the port, and each takes the connection."""
        rows = [row for row in self.context.index.rows.get(service, ()) if port in row.ports]
        assert isinstance(forward.upstream, Members)
        reached = {endpoint.address for endpoint in forward.upstream.endpoints}
        if not reached <= {row.address for row in rows} or any(
            endpoint.port != INBOUND_PORT for endpoint in forward.upstream.endpoints
        ):
            return "an endpoint that does not declare the port"
        is_one_pod = forward.cluster.startswith("pod|")
        if not forward.cluster.startswith("tcp|") and not is_one_pod and reached != {row.address for row in rows}:
            return "an endpoint that declares the port is missing"
        usable = {endpoint.address for endpoint in forward.upstream.usable}
        if is_one_pod and (len(reached) != 1 or usable != reached):
            return "the dialled pod is not the only one"
        if not is_one_pod and usable != {
            row.address for row in rows if row.address in reached and row.health is Health.HEALTHY
        }:
            return "an unhealthy endpoint is used, or a healthy one is not"
        return next(filter(None, (self._unarrived(forward, one, port) for one in forward.upstream.usable)), "")

    def _unarrived(self, forward: Forward, endpoint: Endpoint, port: DeclaredPort) -> str:
        netns = self._netns_by_address.get(endpoint.address)
        if netns is None:
            return ""
        arrival = self._evaluator.evaluate_arrival(forward, endpoint, netns).outcome
        last = Endpoint(address=LOOPBACK, port=port.number, health="UNKNOWN", is_usable=True)
        is_there = isinstance(arrival, Forward) and arrival.upstream == Members((last,)) and arrival.netns == netns
        return "" if is_there else f"the pod does not take it: {arrival}"

    def _unrefused(self, verdict: Verdict, expected: Refuse, question: Question) -> str:
        answer = answer_of(verdict)
        if answer is None or answer.status != 421:
            return "not refused"
        if answer.header(names.ERROR_HEADER) != expected.reason:
            return "another reason"
        ports = refusal_ports(expected, _as_request(question), self.context.directory)
        text = refusal_body(expected.reason, question.authority, ports)
        return "" if answer.body == text else f"the body is not {text!r}"


def answer_of(verdict: Verdict) -> Answer | None:
    """What the proxy answers by itself, whether a route says it or the cluster that it sends to."""
    outcome = verdict.outcome.failure if isinstance(verdict.outcome, Forward) else verdict.outcome
    return outcome if isinstance(outcome, Answer) else None


class _Dial(msgspec.Struct, frozen=True):
    """What a client dials and how it spells the service: an address, a port, a host and the text of Host's port."""

    address: str
    port: int
    host: str
    text: str


def questions(lab: DeliveryLab, source: random.Random, count: int) -> Iterator[Question]:
    """So many dials of the lab's pods: half of them at some service, half anything at all. None without such pods."""
    pods = [one.pod for one in lab.declared]
    everything = _everything(lab)
    aims = [aim for view in lab.context.services.views if (aim := _aim(view, lab.context.facts.config.domains))]
    while pods and count > 0:
        pod = source.choice(pods)
        aim = source.choice(aims) if aims and source.random() < 0.5 else everything
        dial = _Dial(source.choice(aim[0]), source.choice(aim[1]), source.choice(aim[2]), source.choice(aim[3]))
        listener: int | None = PROXY_PORT
        if source.random() < 0.3:
            dial = msgspec.structs.replace(dial, address=LOOPBACK, port=PROXY_PORT)
        else:
            listener = lab.listener_of(pod, dial.address, dial.port)
        if listener is None:
            continue
        count -= 1
        spoken = Spoken.HTTP11 if listener == PROXY_PORT else source.choice(_SPOKEN)
        yield Question(
            pod=pod,
            listener=listener,
            address=dial.address,
            port=dial.port,
            authority=_spelled(source, dial.host) + dial.text,
            spoken=spoken,
            is_anonymous=spoken.is_http and source.random() < 0.15,
        )


_Columns = tuple[Sequence[str], Sequence[int], Sequence[str], Sequence[str]]
"""What the parts of a dial are chosen from."""


def _everything(lab: DeliveryLab) -> _Columns:
    views = lab.context.services.views
    domains = lab.context.facts.config.domains
    pods = [pod.address for pod in lab.context.dialled_pods]
    services = [address for view in views for address in view.addresses]
    ports = (*_numbers(views), *_EXTRA_PORTS)
    hosts = [name for view in views for name in _names(view, domains)]
    hosts += [f"sub.{name}" for name in hosts]
    texts = (*_PORT_TEXTS, *(f":{port}" for port in ports))
    return (*services, *services, *pods, *_EXTRA_ADDRESSES), ports, (*hosts, *_STRANGE_HOSTS), texts


def _aim(view: ServiceView, domains: Domains) -> _Columns | None:
    """Dials at one service's own addresses by its own names, mostly at its own ports."""
    addresses = (*view.addresses, *view.pod_addresses)
    ports = (*_numbers((view,)), *_numbers((view,)), *_EXTRA_PORTS)
    texts = ("", "", *(f":{port}" for port in ports))
    return (addresses, ports, _names(view, domains), texts) if addresses else None


def _names(view: ServiceView, domains: Domains) -> Sequence[str]:
    return (mesh_name(view.service, domains), *kubernetes_names(view.service, domains), view.service.name)


def _numbers(views: Iterable[ServiceView]) -> Sequence[int]:
    return sorted({port.number for view in views for port in (*view.ports, *view.declared)} | {80})


def every_dial(lab: DeliveryLab, host: str) -> Iterator[Question]:
    """Every HTTP dial with one host: by each pod and by nobody, at each port, with each text of Host's port."""
    ports = (*_numbers(lab.context.services.views), *_EXTRA_PORTS)
    texts = tuple(dict.fromkeys((*_PORT_TEXTS, *(f":{port}" for port in ports))))
    for one in lab.declared:
        places = [(PROXY_PORT, LOOPBACK, PROXY_PORT)]
        places += [(CAPTURE_PORT, address, port) for port in ports for address in lab.inspected(one.pod, port)]
        for (listener, address, port), text, is_anonymous in itertools.product(places, texts, (False, True)):
            yield Question(
                pod=one.pod,
                listener=listener,
                address=address,
                port=port,
                authority=host + text,
                spoken=Spoken.HTTP11,
                is_anonymous=is_anonymous,
            )


def raw_ports_met_with_http(lab: DeliveryLab) -> Iterator[tuple[Question, str]]:
    """HTTP on 18001 to raw-TCP ports, while the capture's set is behind: each with the address's own name."""
    pod = lab.declared[0].pod
    for view in lab.context.services.views:
        name = mesh_name(view.service, lab.context.facts.config.domains)
        for port in view.ports if not view.is_user_owned else ():
            if port.port_class is PortClass.TCP:
                for address in view.addresses:
                    yield _on_18001(pod, address, port.number, name), Reason.PORT_NOT_HTTP
    for dialled in lab.context.dialled_pods:
        for number, port_class in dialled.ports:
            if port_class is PortClass.TCP:
                yield _on_18001(pod, dialled.address, number, "whatever"), Reason.PORT_NOT_HTTP


def _on_18001(pod: LocalPod, address: str, port: int, authority: str) -> Question:
    return Question(
        pod=pod, listener=CAPTURE_PORT, address=address, port=port, authority=authority, spoken=Spoken.HTTP11
    )


def lua_contracts() -> dict[str, Specify]:
    """The cluster specifiers as the programs in the tables say, run by the interpreter that Envoy has: LuaJIT 2.1."""
    programs: dict[str, object] = {}

    def specify(source: str, headers: Headers) -> str:
        if source not in programs:
            programs[source] = _load(source)
        said = programs[source](lambda name: ",".join(headers.get(name, ())) or None)  # type: ignore[operator]
        return str(said or "")

    return {specifier.value: specify for specifier in Specifier}


def _load(source: str) -> object:
    lua = LuaRuntime(unpack_returned_tuples=True)
    lua.execute(source)
    return lua.eval(
        "function(get) return envoy_on_route({headers = function() return {get = function(_, n) return get(n) end}"
        " end}) end"
    )


def _as_request(question: Question) -> HttpRequest:
    return HttpRequest(
        path=EntryPath.PROXY_PORT if question.listener == PROXY_PORT else EntryPath.CAPTURED,
        authority=question.authority,
        dialled_address=question.address,
        dialled_port=question.port,
        caller_namespace=None if question.is_anonymous else question.pod.namespace,
    )


def _not_passed(verdict: Verdict, question: Question) -> str:
    forward = verdict.outcome
    if not isinstance(forward, Forward) or forward.hop is not None or not isinstance(forward.upstream, Dialled):
        return "not passed through"
    if (forward.upstream.address, forward.upstream.port) != (question.address, question.port):
        return "passed to another address"
    if forward.netns != question.pod.netns or forward.mark != 2:
        return "passed on from another namespace, or into the capture again"
    return "" if not forward.headers or _is_untouched(forward, question) else "the request is not the client's"


def _is_untouched(forward: Forward, question: Question) -> bool:
    """The application sees the client's Host, but for a trailing dot, and no header of the mesh's own."""
    sent = dict(forward.headers)
    host = question.authority
    bare = host.removesuffix(".") if host.endswith(".") else host.replace(".:", ":", 1)
    return sent.keys() == {":method", ":path", ":authority", "x-request"} and sent[":authority"] == bare


def _is_not_found(verdict: Verdict) -> bool:
    """404 with a text of the mesh's: Envoy's own, for want of a route, has none."""
    answer = verdict.outcome
    return isinstance(answer, Answer) and answer.status == 404 and bool(answer.body)


def _service_of(pod: LocalPod) -> ServiceId:
    return ServiceId(pod.namespace, pod.account)


def _spelled(source: random.Random, host: str) -> str:
    if source.random() < 0.25:
        host = source.choice((host.upper(), host.title()))
    return f"{host}." if source.random() < 0.2 and not host.endswith("]") else host
