"""The evaluator: a snapshot and a connection or request in, what Envoy does with it out.

Owns: the order of Envoy's stages. It reads a snapshot by Envoy's rules alone and knows nothing of how it was made.
Tests hold its answers against `plan.mesh.addressing`; `aether explain` prints them.

Rule: each resource is read when it is first needed, and then kept. One that is absent is looked for again each time.
"""

import functools
from collections.abc import Callable, Mapping

import msgspec
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.endpoint.v3 import endpoint_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2

from aether.render.envoy.evaluate.actions import Direct, Redirect, Specify, choose_clusters
from aether.render.envoy.evaluate.clusters import Cluster, assignment_name, read_cluster
from aether.render.envoy.evaluate.filters import SetState, TcpProxy
from aether.render.envoy.evaluate.listener import Chain, Listener, read_listener
from aether.render.envoy.evaluate.manager import FilterKind, Manager
from aether.render.envoy.evaluate.request import (
    Connection,
    Metadata,
    Request,
    Scene,
    Spoken,
    format_address,
    headers_of,
)
from aether.render.envoy.evaluate.routes import Place, Table, read_table
from aether.render.envoy.evaluate.verdict import (
    Absent,
    Answer,
    Close,
    Dialled,
    Endpoint,
    Forward,
    Http,
    Members,
    Outcome,
    Pairs,
    Split,
    Step,
    StepKind,
    Verdict,
)
from aether.render.envoy.names import CLUSTER, ENDPOINT, LISTENER, ROUTE
from aether.render.envoy.snapshot import Snapshot

KEPT_LISTENERS = 512
"""Listeners that are read once for all evaluators: a pod's stay the same from snapshot to snapshot."""


class Course(msgspec.Struct, frozen=True):
    """The steps taken and what can be looked at now."""

    steps: tuple[Step, ...]
    scene: Scene

    def then(self, kind: StepKind, name: str, why: str) -> "Course":
        return Course((*self.steps, Step(kind, name, why)), self.scene)

    def sees(self, scene: Scene) -> "Course":
        return Course(self.steps, scene)

    def ends(self, outcome: Outcome) -> Verdict:
        return Verdict(self.steps, outcome)

    def replies(self, answer: Answer, manager: Manager) -> Verdict:
        """End with a local reply, as the connection manager lets it out."""
        reply = manager.reply(answer, self.scene)
        return self.then(StepKind.ANSWER, str(reply.status), "the proxy answers itself").ends(reply)


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """How something is sent: whether absent clusters are asked for, what a client gets when nothing takes it (by
    Envoy's response flag and the cluster's metadata), and the headers of a request."""

    asks_for_clusters: bool
    refuse: Callable[[str, Metadata], Answer | Close]
    headers: Pairs = ()


class Evaluator:
    """Answers for one snapshot. `contracts` says, per plugin name, what its cluster specifier programs do."""

    def __init__(self, snapshot: Snapshot, *, contracts: Mapping[str, Specify] | None = None) -> None:
        self._snapshot = snapshot
        self._contracts = contracts or {}
        self._listeners: tuple[Listener, ...] | None = None
        self._tables: dict[str, Table] = {}
        self._clusters: dict[str, Cluster] = {}

    def evaluate_connection(self, connection: Connection) -> Verdict:
        """What becomes of a connection. `Http` when each of its requests is judged by itself."""
        arrived = self._arrive(connection)
        if isinstance(arrived, Verdict):
            return arrived
        course, manager = arrived
        return course.ends(Http(manager.stat_prefix))

    def evaluate_request(self, connection: Connection, request: Request) -> Verdict:
        """What becomes of a request on a connection. A connection that is not served as HTTP is judged as it is."""
        arrived = self._arrive(connection)
        if isinstance(arrived, Verdict):
            return arrived
        course, manager = arrived
        is_http10 = course.scene.connection.spoken is Spoken.HTTP10
        if is_http10 and not manager.accepts_http10:
            return course.then(StepKind.ANSWER, "426", "HTTP/1.0 is not spoken here").ends(Answer(status=426))
        if is_http10 and not request.authority:
            request = msgspec.structs.replace(request, authority=manager.default_host)
        if not request.authority:
            return course.then(StepKind.ANSWER, "400", "the request names no host").ends(Answer(status=400))
        course = course.sees(manager.prepare(course.scene.with_headers(headers_of(request))))
        table = self._table_of(manager)
        if table is None:
            course = course.then(StepKind.TABLE, manager.table, "the table was never sent")
            return course.replies(Answer(status=404, flag="NR"), manager)
        return self._route(course.then(StepKind.TABLE, table.name, "the listener's filter names it"), manager, table)

    def evaluate_arrival(self, forward: Forward, endpoint: Endpoint, netns: str) -> Verdict:
        """What becomes of a forwarded connection or request at an endpoint, whose listener is in `netns`."""
        hop = forward.hop
        plain = Spoken.H2C if forward.headers else Spoken.OTHER
        connection = Connection(
            netns=netns,
            listener_port=endpoint.port,
            address=endpoint.address,
            port=endpoint.port,
            spoken=plain if hop is None else Spoken.TLS,
            server_name="" if hop is None else hop.server_name,
            alpn=() if hop is None else hop.alpn,
        )
        if not forward.headers:
            return self.evaluate_connection(connection)
        pseudo = {name: value for name, value in forward.headers if name.startswith(":")}
        others = tuple(pair for pair in forward.headers if not pair[0].startswith(":"))
        request = Request(
            authority=pseudo.get(":authority", ""),
            method=pseudo.get(":method", "GET"),
            path=pseudo.get(":path", "/"),
            headers=others,
        )
        return self.evaluate_request(connection, request)

    def listeners(self) -> tuple[Listener, ...]:
        if self._listeners is None:
            self._listeners = tuple(_listener_of(one.body) for one in self._snapshot.get(LISTENER, {}).values())
        return self._listeners

    def table(self, name: str) -> Table | None:
        """A route table of the snapshot; None if it has none of the name."""
        resource = self._snapshot.get(ROUTE, {}).get(name)
        if resource is None:
            return None
        if name not in self._tables:
            self._tables[name] = read_table(route_pb2.RouteConfiguration.FromString(resource.body))
        return self._tables[name]

    def cluster(self, name: str) -> Cluster | None:
        """A cluster of the snapshot; None if it has none of the name."""
        resource = self._snapshot.get(CLUSTER, {}).get(name)
        if resource is None:
            return None
        if name not in self._clusters:
            message = cluster_pb2.Cluster.FromString(resource.body)
            endpoints = self._snapshot.get(ENDPOINT, {}).get(assignment_name(message))
            assignment = None if endpoints is None else endpoint_pb2.ClusterLoadAssignment.FromString(endpoints.body)
            self._clusters[name] = read_cluster(message, assignment)
        return self._clusters[name]

    def _table_of(self, manager: Manager) -> Table | None:
        return self.table(manager.table) if manager.inline_table is None else read_table(manager.inline_table)

    def _arrive(self, connection: Connection) -> tuple[Course, Manager] | Verdict:
        """Accept, inspect, choose a chain and run its filters, up to the one that takes the bytes."""
        listener = max(self.listeners(), key=lambda one: one.accepts(connection), default=None)
        if listener is None or not listener.accepts(connection):
            return Verdict((), Close(f"nothing listens on port {connection.listener_port} of the namespace"))
        scene = listener.inspect(connection)
        course = Course((), scene).then(StepKind.LISTENER, listener.name, listener.finding(scene))
        if connection.spoken is Spoken.SILENT and listener.waits_for_bytes and not listener.continues_unheard:
            return course.ends(Close("the listener closes connections whose client says nothing"))
        chain, why = listener.choose(scene)
        if chain is None:
            return course.ends(Close("no filter chain takes the connection"))
        course = course.then(StepKind.CHAIN, chain.name, why)
        if chain.tls is not None and connection.spoken is not Spoken.TLS:
            return course.ends(Close("the filter chain speaks TLS, the client does not"))
        return self._run(course, chain)

    def _run(self, course: Course, chain: Chain) -> tuple[Course, Manager] | Verdict:
        for one in chain.filters:
            match one:
                case SetState():
                    course = course.sees(one.apply(course.scene))
                    course = course.then(StepKind.NETWORK_FILTER, "set_filter_state", one.written(course.scene))
                case TcpProxy():
                    clusters, why = one.choose(course.scene)
                    course = course.then(StepKind.NETWORK_FILTER, "tcp_proxy", why)
                    asks = one.asks_for_clusters
                    sending = Sending(asks_for_clusters=asks, refuse=lambda flag, _: Close(_FLAGS[flag]))
                    return self._send(course, clusters, sending)
                case Manager():
                    course = course.then(StepKind.NETWORK_FILTER, "http_connection_manager", one.stat_prefix)
                    if chain.tls is None and not course.scene.connection.spoken.is_http:
                        return course.ends(Answer(status=400, flag="DPE"))
                    return course, one
        return course.ends(Close("the filter chain has no filter that ends it"))

    def _route(self, course: Course, manager: Manager, table: Table) -> Verdict:
        host, why = table.choose(course.scene.headers[":authority"][0])
        if host is None:
            course = course.then(StepKind.VIRTUAL_HOST, "none", why)
            return course.replies(Answer(status=404, flag="NR"), manager)
        course = course.then(StepKind.VIRTUAL_HOST, host.name, why)
        route, why = host.choose(course.scene)
        if route is None:
            return course.then(StepKind.ROUTE, "none", why).replies(Answer(status=404, flag="NR"), manager)
        place = Place(route=route, host=host, table=table)
        return self._act(course.then(StepKind.ROUTE, route.name, why), manager, place)

    def _act(self, course: Course, manager: Manager, place: Place) -> Verdict:
        """Run the HTTP filters, then the route's action."""
        asks = False
        for one in manager.filters:
            is_enabled, asks_for_clusters = place.settings_of(one)
            if not is_enabled:
                continue
            course = course.then(StepKind.HTTP_FILTER, one.name, one.kind.value)
            asks = asks or asks_for_clusters
            if one.kind is FilterKind.HEALTH_CHECK and all(test.holds(course.scene) for test in one.answers):
                return course.then(StepKind.ANSWER, "200", "the filter answers itself").ends(Answer(status=200))
        action = place.route.action
        if isinstance(action, Direct | Redirect):
            return course.replies(place.answer(action, course.scene), manager)
        clusters, why = choose_clusters(action, course.scene, self._contracts)
        course = course.then(StepKind.CHOICE, "cluster", why)
        sending = Sending(
            asks_for_clusters=asks,
            refuse=lambda flag, told: manager.reply(Answer(status=503, flag=flag), course.scene.with_metadata(told)),
            headers=place.sent_headers(action, course.scene),
        )
        return self._send(course, clusters, sending)

    def _send(self, course: Course, clusters: tuple[tuple[int, str], ...], sending: Sending) -> Verdict:
        shares = []
        for weight, name in clusters:
            course, forward = self._send_to(course, name, sending)
            shares.append((weight, forward))
        return course.ends(shares[0][1] if len(shares) == 1 else Split(tuple(shares)))

    def _send_to(self, course: Course, name: str, sending: Sending) -> tuple[Course, Forward]:
        cluster = self.cluster(name)
        if cluster is None:
            asks = sending.asks_for_clusters
            why = "it is not here: the proxy asks for it" if asks else "it is not here, and nobody asks for it"
            failure = None if asks else sending.refuse("NC", {})
            absent = Forward(cluster=name, upstream=Absent(asks), headers=sending.headers, failure=failure)
            return course.then(StepKind.CLUSTER, name, why), absent
        upstream, state = cluster.upstream(course.scene), course.scene.state
        flag = "UH" if isinstance(upstream, Members) and not upstream.usable else ""
        if sending.headers and cluster.drops_requests:
            flag = "UDO"
        forward = Forward(
            cluster=name,
            upstream=upstream,
            hop=cluster.hop(state),
            netns=cluster.netns(state),
            mark=cluster.source.mark,
            headers=sending.headers,
            failure=sending.refuse(flag, cluster.metadata) if flag else None,
        )
        course = course.then(StepKind.CLUSTER, name, _describe_hop(forward))
        return course.then(StepKind.ENDPOINT, *_describe_endpoints(upstream)), forward


_FLAGS = {"NC": "there is no such cluster", "UH": "the cluster has no endpoint to send to"}
"""Envoy's response flags for what cannot be sent."""


@functools.lru_cache(maxsize=KEPT_LISTENERS)
def _listener_of(body: bytes) -> Listener:
    return read_listener(listener_pb2.Listener.FromString(body))


def _describe_hop(forward: Forward) -> str:
    if forward.hop is None:
        return "without TLS"
    accepted = ", ".join(forward.hop.pinned) or "anybody"
    return f"TLS as {forward.hop.secret or 'nobody'} to {accepted}, server name {forward.hop.server_name!r}"


def _describe_endpoints(upstream: Members | Dialled) -> tuple[str, str]:
    if isinstance(upstream, Dialled):
        return format_address(upstream.address, upstream.port), "the address that was dialled"
    usable = upstream.usable
    names = ", ".join(format_address(one.address, one.port) for one in usable[:3])
    more = f" and {len(usable) - 3} more" if len(usable) > 3 else ""
    return f"{names}{more}" or "none", f"{len(usable)} of {len(upstream.endpoints)} endpoints can be used"
