"""The rendered tables on a real Envoy answer as the plan's addressing rule says, thousands of requests long."""

import itertools
import re
from collections.abc import Iterable, Iterator

import msgspec
import pytest
from tests.support.envoy import (
    AdsServer,
    EnvoyProcess,
    mirror_cluster,
    mirror_listener,
    on_loopback,
    told_cluster,
)
from tests.support.facts import generated, local_pod, node_facts, row, user_service
from tests.support.http import Answer, HttpConnection
from tests.support.ports import free_ports

from aether.model.names import FullName, kubernetes_names, mesh_name, parse_authority, parse_name
from aether.model.ports import PROXY_PORT, PortClass
from aether.plan.mesh.addressing import (
    Deliver,
    Directory,
    EntryPath,
    HttpRequest,
    NotFound,
    Outcome,
    PassThrough,
    RawConnection,
    Refuse,
    answer_http,
    answer_raw,
    is_mesh_address,
    pod_ports,
    port_list,
    refusal_body,
)
from aether.plan.mesh.node import PodPlan, Tombstone, plan_cluster, plan_context, plan_node_in
from aether.plan.mesh.services import ServicePort
from aether.render.envoy import names
from aether.render.envoy.bootstrap import BootstrapSettings, render_bootstrap
from aether.render.envoy.resource import Resource
from aether.render.envoy.snapshot import Snapshot, render_cluster, render_snapshot

pytestmark = pytest.mark.envoy

CHOSEN = "x-cluster"
FORGED = f"{names.CALLER_HEADER}: shop/8080\r\n{names.CLUSTER_HEADER}: {names.PASS_THROUGH}\r\n"

FACTS = node_facts(
    rows=[
        row("shop/cart", "8080 9090 9000=tcp 53=udp", address="10.244.1.2"),
        row("shop/api", "80=tcp 3000 8080=tcp", address="10.244.1.3"),
        row("shop/owned", "8080 9090 7070 9000=tcp", address="10.244.1.4"),
        row("blog/cart", "80 8080", address="10.244.1.5"),
        row("blog/dns", "53=tcp 53=udp 80=udp 5300", address="10.244.1.6"),
        row("ops/both", "8080 8080=udp", address="10.244.1.7"),
        row("ops/owned", "80", address="10.244.1.8"),
        row("ops/six", "8080 9000=tcp", address="fd00:244:1::9"),
    ],
    services=[
        generated("shop/cart", "10.96.0.1", "fd96::1", ports="8080 9090 9000=tcp 53=udp"),
        generated("shop/api", "10.96.0.2", ports="80=tcp 3000 8080=tcp"),
        user_service("shop/owned", "10.96.0.3", ports="80:8080 8080:9090 7070:7070 9000:9000 53:53/udp"),
        generated("blog/cart", "10.96.0.4", ports="80 8080"),
        generated("blog/dns", "10.96.0.5", ports="53=tcp 53=udp 80=udp 5300"),
        generated("ops/both", "10.96.0.6", ports="8080 8080=udp"),
        user_service("ops/owned", "10.96.0.7", ports="80:80"),
        generated("ops/six", "fd96::9", ports="8080 9000=tcp"),
        generated("ops/empty", "10.96.0.8"),
    ],
    pods=[
        local_pod("a", "10.244.0.1", namespace="shop", account="web"),
        local_pod("b", "10.244.0.2", namespace="blog", account="web"),
        local_pod("c", "10.244.0.3", namespace="ops", account="web"),
        local_pod("d", "10.244.0.4", namespace="strange", account="web"),
    ],
)
CONTEXT = plan_context(FACTS)
DIRECTORY: Directory = CONTEXT.directory
PLAN = plan_node_in(CONTEXT, observed=frozenset())

SUFFIXES = ("", ":80", ":8080", ":9000", ":53", ":7070", ":18081", ":18082", ":08080", ":", ":abc", ":65536", ":1:2")
UNKNOWN = ("google.com", "www.google.com", "no.such", "nobody", "cart.nowhere", "10.96.0.1", "[fd96::1]", "x_y.shop")
DIALLED_PORTS = (80, 8080, 9090, 9000, 53, 7070, 7777, PROXY_PORT)


class Case(msgspec.Struct, frozen=True):
    """One request: who makes it (None: its connection carries no namespace), what it dialled, what it says."""

    caller: str | None
    path: EntryPath
    address: str
    port: int
    authority: str


def spellings() -> list[str]:
    """Every way to write every name, with every port text."""
    known = [view.service for view in CONTEXT.services.views]
    domains = FACTS.config.domains
    spelled = [
        name for each in known for name in (mesh_name(each, domains), *kubernetes_names(each, domains), each.name)
    ]
    cased = [form for name in (*spelled, *UNKNOWN) for form in (name, name.upper(), f"{name.title()}.")]
    return [f"{name}{suffix}" for name, suffix in itertools.product(cased, SUFFIXES)]


def cases() -> Iterator[Case]:
    """A sample of all combinations, the same in every run: each spelling with some callers and some dials."""
    addresses = sorted({*DIRECTORY.owners, *DIRECTORY.pods})
    callers = ("shop", "blog", "ops", "strange", None)
    dials = [(EntryPath.CAPTURED, address, port) for address in addresses for port in DIALLED_PORTS]
    dials = [dial for dial in dials if reaches_the_tables(dial[1], dial[2])]
    turn = itertools.cycle(dials)
    callers_turn = itertools.cycle(callers)
    for authority in dict.fromkeys(spellings()):
        for _ in range(7):
            path, address, port = next(turn)
            yield Case(next(callers_turn), path, address, port, authority)
        for caller in callers:
            yield Case(caller, EntryPath.PROXY_PORT, "127.0.0.1", PROXY_PORT, authority)
    for caller, dial in itertools.product(callers, dials):
        for authority in ("cart", "cart.shop:8080", "owned.shop.aether.internal", "[fd96::1]:8080", "a:1:2"):
            yield Case(caller, *dial, authority)


def reaches_the_tables(address: str, port: int) -> bool:
    """Whether the kernel sends HTTP on this dial to 18001: not what the raw-TCP set takes (rulings B.1)."""
    assert is_mesh_address(address, DIRECTORY)
    if port == PROXY_PORT:
        return True
    raw = answer_raw(RawConnection(dialled_address=address, dialled_port=port), DIRECTORY)
    owner = DIRECTORY.owners.get(address)
    is_owned_raw = owner is not None and any(
        (each.number, each.port_class) == (port, PortClass.TCP) for each in DIRECTORY.views[owner].ports
    )
    return not isinstance(raw, Deliver) and not is_owned_raw


class Fleet(msgspec.Struct, frozen=True):
    """Loopback ports of the listeners of each caller."""

    captured: dict[str | None, int]
    proxy: dict[str | None, int]


def resources(snapshot: Snapshot, fleet: Fleet, mirror: int) -> Iterator[Resource]:
    yield mirror_listener(mirror)
    yield mirror_cluster(names.PASS_THROUGH, mirror)
    for table in snapshot[names.ROUTE].values():
        yield told_cluster(table, CHOSEN)
    for pod, caller in [*((pod, pod.service.namespace) for pod in PLAN.pods), (PLAN.pods[0], None)]:
        yield from moved(snapshot, pod, caller, fleet)


def moved(snapshot: Snapshot, pod: PodPlan, caller: str | None, fleet: Fleet) -> Iterable[Resource]:
    without = [names.CALLER_NAMESPACE_KEY] if caller is None else []
    listeners = snapshot[names.LISTENER]
    yield on_loopback(listeners[names.capture_listener(pod.uid)], fleet.captured[caller], without=without)
    yield on_loopback(listeners[names.proxy_listener(pod.uid)], fleet.proxy[caller], without=without)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A real Envoy that was told the whole plan, with the listeners of each caller on loopback."""
    tmp_path = tmp_path_factory.mktemp("envoy")
    callers = ("shop", "blog", "ops", "strange", None)
    ports = free_ports(11)
    fleet = Fleet(dict(zip(callers, ports, strict=False)), dict(zip(callers, ports[5:], strict=False)))
    mirror = ports[10]
    ads = AdsServer(tmp_path / "ads.sock", on_demand=lambda name: [mesh_cluster(name, mirror)])
    ads.put(resources(render_snapshot(PLAN), fleet, mirror))
    settings = BootstrapSettings(
        node="n1", ads_socket=str(tmp_path / "ads.sock"), admin_socket=str(tmp_path / "admin.sock")
    )
    with EnvoyProcess(render_bootstrap(settings), tmp_path) as envoy:
        envoy.wait_live()
        yield fleet
        assert not ads.rejected
    ads.stop()


def test_every_request_is_answered_as_the_addressing_rule_says(fleet: Fleet) -> None:
    wrong, count = ask_all(fleet)
    assert count > 5_000
    assert not wrong, f"{len(wrong)} of {count} wrong:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("address", ["10.244.1.2", "fd00:244:1::9"])
def test_a_grpc_call_is_refused_by_a_dialled_pod_in_its_own_words(fleet: Fleet, address: str) -> None:
    connection = HttpConnection(fleet.captured["shop"], dialled=(address, 7777))
    forged = f"{names.CLUSTER_HEADER}: {names.PASS_THROUGH}\r\n"
    answer = connection.get("Cart:1", headers=f"content-type: application/grpc\r\n{forged}")
    connection.close()
    assert (answer.status, answer.headers["grpc-status"]) == (200, "2")
    assert answer.headers[names.ERROR_HEADER] == "port-not-declared"
    listing = port_list(pod_ports(DIRECTORY.pods[address]))
    assert answer.headers["grpc-message"] == f"Cart {listing}"


def mesh_cluster(name: str, mirror: int) -> Resource:
    """The mirror under a name that a delivery can have; nothing else is delivered anywhere."""
    if name in DELIVERABLE:
        return mirror_cluster(name, mirror)
    plan = plan_cluster(name, CONTEXT)
    return render_cluster(plan if isinstance(plan, Tombstone) else Tombstone(name=name), FACTS.config)[0]


def expected(case: Case) -> Outcome:
    """The plan's answer."""
    request = HttpRequest(
        path=case.path,
        authority=case.authority,
        dialled_address=case.address,
        dialled_port=case.port,
        caller_namespace=case.caller,
    )
    return answer_http(request, DIRECTORY)


DELIVERABLE = {outcome.cluster for case in cases() if isinstance(outcome := expected(case), Deliver)}


def ask_all(fleet: Fleet) -> tuple[list[str], int]:
    wrong = []
    count = 0
    by_connection = sorted(cases(), key=lambda case: (str(case.caller), case.path, case.address, case.port))
    for _, group in itertools.groupby(by_connection, key=lambda c: (c.caller, c.path, c.address, c.port)):
        first, *rest = group
        is_captured = first.path is EntryPath.CAPTURED
        port = (fleet.captured if is_captured else fleet.proxy)[first.caller]
        connection = HttpConnection(port, dialled=(first.address, first.port) if is_captured else None)
        for case in (first, *rest):
            count += 1
            answer = connection.get(case.authority, headers=FORGED)
            if flaw := disagreement(case, answer):
                wrong.append(f"{case}: {flaw}; got {answer}")
        connection.close()
    return wrong, count


def disagreement(case: Case, answer: Answer) -> str:
    """What is not as the plan says; empty when all is."""
    outcome = expected(case)
    error = answer.headers.get(names.ERROR_HEADER)
    match outcome:
        case Deliver(cluster=cluster):
            return delivered(case, answer, cluster)
        case PassThrough():
            return delivered(case, answer, names.PASS_THROUGH)
        case NotFound():
            return "" if (answer.status, error) == (404, None) else "404 is right"
        case Refuse(reason=reason):
            body = refusal_body(reason, case.authority, listed(case, outcome))
            if (answer.status, error, answer.body) == (421, reason.value, body):
                return ""
            return f"421 {reason} {body!r} is right"


def delivered(case: Case, answer: Answer, cluster: str) -> str:
    host = answer.headers.get("x-host")
    if (answer.status, answer.headers.get(CHOSEN)) != (200, cluster):
        return f"{cluster} is right"
    if host != without_dot(case.authority):
        return f"Host became {host}"
    return "" if "x-leak" not in answer.headers else "the internal header was sent upstream"


def without_dot(authority: str) -> str:
    """The one change that is made to Host."""
    return re.sub(r"\.(:[^.]*)?$", r"\1", authority)


def listed(case: Case, refusal: Refuse) -> Iterable[ServicePort]:
    """The ports that a refusal lists: the dialled pod's, else the service's, else none."""
    pod = DIRECTORY.pods.get(case.address)
    if pod is not None and case.port != PROXY_PORT:
        return pod_ports(pod)
    view = DIRECTORY.views.get(refusal.service)
    name = parse_name(parse_authority(case.authority).host, FACTS.config.domains)
    is_mesh_name = isinstance(name, FullName) and name.is_mesh_name
    return view.ports if view is not None and (is_mesh_name or not view.is_user_owned) else ()
