"""What holds for every mesh: order does not matter, nothing disappears, whatever delivers is pinned and declared."""

import contextlib
from collections.abc import Mapping

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import NUMBERS, authorities, dialled_addresses, meshes, row, shuffled

from aether.errors import Diagnostic, Rejected
from aether.model import annotations as keys
from aether.model.annotations import Declaration, parse_declaration
from aether.model.endpoint import EndpointRow
from aether.model.facts import NodeFacts
from aether.model.identity import BadIdentity, WorkloadIdentity, identity_of, parse_spiffe
from aether.model.names import Domains, FullName, ServiceId, kubernetes_names, mesh_name, parse_authority, parse_name
from aether.model.ports import RESERVED_PORTS, DeclaredPort, PortClass, parse_port_number
from aether.plan.mesh.addressing import (
    Deliver,
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
)
from aether.plan.mesh.clusters import MeshCluster, MeshContext, plan_cluster, plan_context
from aether.plan.mesh.dns import plan_zone
from aether.plan.mesh.naming import http_cluster, own_cluster, parse_cluster, pod_cluster, raw_cluster
from aether.plan.mesh.node import plan_node
from aether.plan.mesh.pods import declared_pods
from aether.plan.mesh.register import plan_rows

DOMAINS = Domains()
LABELS = st.from_regex("[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
SERVICE_IDS = st.builds(ServiceId, LABELS, LABELS)
PORT_NUMBERS = st.integers(1, 65535)


@st.composite
def requests(draw: st.DrawFn, facts: NodeFacts) -> HttpRequest:
    path = draw(st.sampled_from(EntryPath))
    is_captured = path is EntryPath.CAPTURED
    return HttpRequest(
        path=path,
        authority=draw(authorities()),
        dialled_address=draw(dialled_addresses(facts)) if is_captured else "127.0.0.1",
        dialled_port=draw(st.sampled_from((*NUMBERS, 7777))) if is_captured else 18081,
        caller_namespace=draw(st.sampled_from(("red", "blue", "green", None))),
    )


# Order


@given(data=st.data(), facts=meshes())
def test_equal_facts_give_an_equal_plan_in_whatever_order_they_came(data: st.DataObject, facts: NodeFacts) -> None:
    other = data.draw(shuffled(facts))
    observed = frozenset({"echo.red.aether.internal:8080", "tcp|10.96.0.1:9000", "pod|10.244.1.2:80"})
    assert plan_node(other, observed=observed) == plan_node(facts, observed=observed)
    assert plan_zone(other) == plan_zone(facts)
    healthy = frozenset({"uid-1", "uid-2"})
    assert plan_rows(other, healthy=healthy) == plan_rows(facts, healthy=healthy)


@given(data=st.data(), facts=meshes())
def test_an_answer_does_not_depend_on_the_order_of_facts(data: st.DataObject, facts: NodeFacts) -> None:
    request = data.draw(requests(facts))
    other = plan_context(data.draw(shuffled(facts))).directory
    assert answer_http(request, other) == answer_http(request, plan_context(facts).directory)


@given(facts=meshes())
def test_a_plan_is_sorted_and_names_nothing_twice(facts: NodeFacts) -> None:
    plan = plan_node(facts, observed=frozenset())
    services = [view.service for view in plan.directory]
    assert services == sorted(set(services))
    for names in ([pod.address for pod in plan.dialled_pods], [cluster.name for cluster in plan.clusters]):
        assert names == sorted(set(names))
    for view in plan.directory:
        assert list(view.ports) == sorted(set(view.ports))
        numbers = [(port.number, port.port_class.transport) for port in view.ports]
        assert len(numbers) == len(set(numbers))


@given(facts=meshes())
def test_a_plan_survives_its_own_encoding(facts: NodeFacts) -> None:
    plan = plan_node(facts, observed=frozenset({"tcp|192.0.2.1:1"}))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=type(plan)) == plan


# Nothing disappears


@given(facts=meshes())
def test_every_row_is_dialled_and_every_port_of_it_is_served_disputed_or_reserved(facts: NodeFacts) -> None:
    context = plan_context(facts)
    said = {(problem.subject, problem.item) for problem in context.services.problems}
    for found in facts.rows:
        view = context.directory.views[found.service]
        assert {*found.addresses} <= {*view.pod_addresses} & context.directory.pods.keys()
        declared = {DeclaredPort(port.number, port.port_class) for port in view.declared}
        for port in found.ports:
            subject = f"Service {found.service}"
            disputed = (subject, str(port.number)) in said
            reserved = port.number in RESERVED_PORTS and ((subject, str(port)) in said or disputed)
            assert port in declared or disputed or reserved


@given(facts=meshes())
def test_every_managed_pod_is_planned_and_registered_or_said(facts: NodeFacts) -> None:
    plan = plan_node(facts, observed=frozenset())
    registered = {found.pod for found in plan_rows(facts, healthy=frozenset())}
    for found in declared_pods(facts):
        assert found.pod.uid in {pod.uid for pod in plan.pods}
        assert found.pod.name in registered or {*found.problems} <= {*plan.problems}


@given(facts=meshes(), observed=st.frozensets(st.text(max_size=20), max_size=4))
def test_every_observed_name_is_answered_by_that_name(facts: NodeFacts, observed: frozenset[str]) -> None:
    assert observed <= {cluster.name for cluster in plan_node(facts, observed=observed).clusters}


# Delivery


@given(data=st.data(), facts=meshes())
def test_a_delivery_has_a_cluster_pinned_to_its_service_whose_members_declare_the_port(
    data: st.DataObject, facts: NodeFacts
) -> None:
    context = plan_context(facts)
    request = data.draw(requests(facts))
    outcome = answer_http(request, context.directory)
    if isinstance(outcome, Deliver):
        _check_delivery(outcome, context)
        assert _is_meant(outcome, request, context)


@given(data=st.data(), facts=meshes())
def test_a_raw_delivery_is_to_a_port_that_is_declared_raw_tcp(data: st.DataObject, facts: NodeFacts) -> None:
    context = plan_context(facts)
    connection = RawConnection(
        dialled_address=data.draw(dialled_addresses(facts)), dialled_port=data.draw(st.sampled_from(NUMBERS))
    )
    outcome = answer_raw(connection, context.directory)
    if isinstance(outcome, Deliver):
        cluster = _check_delivery(outcome, context)
        assert not cluster.is_http
        assert outcome.cluster == raw_cluster(connection.dialled_address, connection.dialled_port)


def _check_delivery(outcome: Deliver, context: MeshContext) -> MeshCluster:
    cluster = plan_cluster(outcome.cluster, context)
    assert isinstance(cluster, MeshCluster)
    assert cluster.service == outcome.service
    assert cluster.pinned == identity_of(outcome.service, context.facts.config.trust_domain)
    assert cluster.server_name == str(outcome.target)
    assert outcome.port not in RESERVED_PORTS
    assert outcome.target not in RESERVED_PORTS
    port = DeclaredPort(outcome.target, PortClass.HTTP if cluster.is_http else PortClass.TCP)
    rows = {found.address: found for found in context.facts.rows if found.service == outcome.service}
    for endpoint in cluster.endpoints:
        assert port in rows[endpoint.address].ports
    return cluster


def _is_meant(outcome: Deliver, request: HttpRequest, context: MeshContext) -> bool:
    """The service is the one that was dialled, or that Host names for this caller."""
    pod = context.directory.pods.get(request.dialled_address)
    dialled = {context.directory.owners.get(request.dialled_address), None if pod is None else pod.service}
    name = parse_name(parse_authority(request.authority).host, DOMAINS)
    if isinstance(name, FullName):
        named = name.service
    else:
        named = ServiceId(request.caller_namespace or "", "" if name is None else name.name)
    return outcome.service == named or outcome.service in dialled


@given(data=st.data(), facts=meshes())
def test_what_is_dialled_elsewhere_passes_through(data: st.DataObject, facts: NodeFacts) -> None:
    directory = plan_context(facts).directory
    request = data.draw(requests(facts))
    outcome = answer_http(request, directory)
    if request.path is EntryPath.CAPTURED and not is_mesh_address(request.dialled_address, directory):
        assert outcome == PassThrough()
    if request.path is EntryPath.PROXY_PORT:
        assert not isinstance(outcome, PassThrough)
    if isinstance(outcome, NotFound):
        assert request.dialled_port == 18081


@given(data=st.data(), facts=meshes())
def test_a_user_owned_service_is_never_refused_on_a_captured_dial(data: st.DataObject, facts: NodeFacts) -> None:
    directory = plan_context(facts).directory
    request = data.draw(requests(facts))
    outcome = answer_http(request, directory)
    if isinstance(outcome, Refuse) and request.dialled_port != 18081 and request.dialled_address not in directory.pods:
        assert not directory.views[outcome.service].is_user_owned


@given(data=st.data(), facts=meshes())
def test_all_full_spellings_of_a_generated_service_are_answered_alike(data: st.DataObject, facts: NodeFacts) -> None:
    directory = plan_context(facts).directory
    request = data.draw(requests(facts))
    name = parse_name(parse_authority(request.authority).host, DOMAINS)
    view = directory.views.get(name.service) if isinstance(name, FullName) else None
    if view is None or view.is_user_owned:
        return
    port = parse_authority(request.authority).port
    spellings = (mesh_name(view.service, DOMAINS), *kubernetes_names(view.service, DOMAINS))
    answers = {
        _key(answer_http(msgspec.structs.replace(request, authority=host + suffix), directory))
        for spelling in spellings
        for host in (spelling, spelling.upper(), f"{spelling}.")
        for suffix in ("" if port is None else f":{port}",)
    }
    assert answers == {_key(answer_http(request, directory))}


def _key(outcome: Outcome) -> str:
    return repr(outcome)


@given(data=st.data(), facts=meshes(), ports=st.sampled_from(("8080", "8080=tcp", "80 9000=tcp 53=udp")))
def test_what_one_service_declares_changes_nothing_for_another(
    data: st.DataObject, facts: NodeFacts, ports: str
) -> None:
    stranger = row("red/stranger", ports, address="10.244.99.1")
    wider = msgspec.structs.replace(facts, rows=tuple(sorted((*facts.rows, stranger))))
    request = data.draw(requests(facts))
    assert answer_http(request, plan_context(wider).directory) == answer_http(request, plan_context(facts).directory)


# Text


@given(text=st.text(max_size=40) | authorities())
def test_any_text_is_an_authority_and_its_host_a_name_or_none(text: str) -> None:
    authority = parse_authority(text)
    parse_name(authority.host, DOMAINS)
    if authority.port is not None:
        assert ":" not in authority.port
        assert parse_authority(f"{authority.host}:{authority.port}") == authority


@given(service=SERVICE_IDS)
def test_names_parse_as_they_are_formatted(service: ServiceId) -> None:
    full, *others = (mesh_name(service, DOMAINS), *kubernetes_names(service, DOMAINS))
    assert parse_name(full, DOMAINS) == FullName(service, is_mesh_name=True)
    for name in others:
        assert parse_name(name, DOMAINS) == FullName(service, is_mesh_name=False)


@given(service=SERVICE_IDS, number=PORT_NUMBERS, address=st.ip_addresses().map(str))
def test_cluster_names_parse_as_they_are_formatted(service: ServiceId, number: int, address: str) -> None:
    names = [make(service, number, DOMAINS) for make in (http_cluster, own_cluster)]
    names += [make(address, number) for make in (pod_cluster, raw_cluster)]
    parsed = [parse_cluster(name, DOMAINS) for name in names]
    assert [msgspec.structs.astuple(found) for found in parsed if found is not None] == [
        *[(service, number)] * 2,
        *[(address, number)] * 2,
    ]
    assert len({type(found) for found in parsed}) == 4


@given(text=st.text(max_size=60))
def test_any_text_is_a_clusters_name_or_none(text: str) -> None:
    parse_cluster(text, DOMAINS)
    parse_cluster(f"tcp|{text}:80", DOMAINS)


@given(number=PORT_NUMBERS)
def test_a_port_parses_as_it_is_printed(number: int) -> None:
    assert parse_port_number(str(number)) == number


@given(text=st.text(max_size=80))
def test_any_text_is_an_identity_or_refused(text: str) -> None:
    for candidate in (text, f"spiffe://aether.internal/ns/{text}", f"spiffe://{text}/ns/shop/sa/cart"):
        with contextlib.suppress(BadIdentity):
            assert str(parse_spiffe(candidate)) == candidate


@given(service=SERVICE_IDS)
def test_an_identity_parses_as_it_is_printed(service: ServiceId) -> None:
    identity = WorkloadIdentity("aether.internal", service.namespace, service.name)
    assert parse_spiffe(str(identity)) == identity


KEYS = (
    keys.PORTS,
    keys.PORT,
    keys.PROTOCOL,
    keys.WEIGHT,
    keys.UDS_SOCKET,
    keys.UPSTREAMS,
    keys.REDIRECT_ALL,
    keys.EXCLUDED_PORTS,
    keys.EXCLUDED_RANGES,
    keys.MANAGED,
)
NEARLY = st.text(alphabet="0123456789,=-/.: htcpudfale", max_size=24)


@given(annotations=st.dictionaries(st.sampled_from(KEYS), st.text(max_size=12) | NEARLY))
def test_any_annotations_are_a_declaration_or_refused_with_every_item_named(annotations: Mapping[str, str]) -> None:
    outcome = _parse(annotations)
    if isinstance(outcome, Declaration):
        _check_declaration(outcome)
        return
    assert outcome
    for found in outcome:
        assert found.subject == "Pod shop/cart-1"
        assert found.field in {f"metadata.annotations[{key}]" for key in annotations}


def _parse(annotations: Mapping[str, str]) -> Declaration | tuple[Diagnostic, ...]:
    try:
        return parse_declaration(annotations, namespace="shop", pod="cart-1")
    except Rejected as error:
        return error.diagnostics


def _check_declaration(declaration: Declaration) -> None:
    assert declaration.ports == tuple(sorted(set(declaration.ports)))
    numbers = [(port.number, port.transport) for port in declaration.ports]
    assert len(numbers) == len(set(numbers)) > 0
    assert not RESERVED_PORTS & {number for number, _ in numbers}
    http = [port.number for port in declaration.ports if port.port_class is PortClass.HTTP]
    assert [number for number, _ in declaration.codecs] == http
    assert declaration.liveness is None or declaration.liveness in declaration.ports


@given(
    ports=st.lists(st.builds(DeclaredPort, st.integers(1, 1000), st.sampled_from(PortClass)), min_size=1, max_size=9)
)
def test_printed_ports_parse_to_themselves(ports: list[DeclaredPort]) -> None:
    unique = {(port.number, port.transport): port for port in ports}.values()
    text = ",".join(str(port).replace("=http", "=h1") for port in unique)
    assert parse_declaration({keys.PORTS: text}, namespace="a", pod="b").ports == tuple(sorted(unique))


@given(facts=meshes())
def test_a_registered_row_is_one_that_readers_serve(facts: NodeFacts) -> None:
    rows: tuple[EndpointRow, ...] = plan_rows(facts, healthy=frozenset())
    context = plan_context(msgspec.structs.replace(facts, rows=rows))
    assert not context.index.problems
    assert {address for found in rows for address in found.addresses} == context.directory.pods.keys()
