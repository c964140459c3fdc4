"""What is said about manifests: one row per mistake, with the whole text."""

from pathlib import Path

import pytest

from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import key_of
from aether.adapters.objects.manifests import ApplyPlan, NoManifests, plan_apply, read_manifests
from aether.adapters.objects.memory import MemoryStore
from aether.adapters.objects.store import USER
from aether.model.world import Manifest

GOOD = """\
apiVersion: v1
kind: Pod
metadata: {name: good}
spec: {containers: [{name: main, image: host, command: [sleep, "9"]}]}
"""


def pod(
    *,
    metadata: str = "name: cart",
    container: str = "name: main, image: host, command: [run]",
    rest: str = "",
) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{{metadata}}}\nspec: {{containers: [{{{container}}}]{rest}}}\n"


def annotated(text: str) -> str:
    return pod(metadata=f"name: cart, annotations: {{{text}}}")


def deployment(template_metadata: str, spec: str = "containers: [{name: c, image: host, command: [run]}]") -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: cart}\n"
        "spec:\n  selector: {matchLabels: {app: cart}}\n"
        f"  template: {{metadata: {{labels: {{app: cart}}, {template_metadata}}}, spec: {{{spec}}}}}\n"
    )


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore(clock=ManualClock())
    await store.load()
    return store


def planned(store: MemoryStore, *texts: str) -> ApplyPlan:
    return plan_apply([Manifest(where=f"{number}.yaml", text=text) for number, text in enumerate(texts, 1)], store)


def names(plan: ApplyPlan) -> list[str]:
    return [str(key_of(object_)) for object_ in plan.objects]


LONG = "a" * 253
LONGER = "a" * 254

ERRORS = [
    (
        "unparsable",
        "kind: Pod\nmetadata: [\n",
        "parse-error",
        "1.yaml:3: not YAML: expected the node content, but found '<stream end>'",
    ),
    ("no object", "- a\n- b\n", "bad-object", "1.yaml:1: a manifest must be an object"),
    (
        "no kind",
        "apiVersion: v1\nmetadata: {name: a}\n",
        "missing-field",
        "1.yaml:1: object a: kind: is missing",
    ),
    (
        "unknown kind",
        "apiVersion: v1\nkind: Gizmo\nmetadata: {name: a}\n",
        "unknown-kind",
        "1.yaml:1: Gizmo a: kind: 'Gizmo' is not known here; known are "
        "Namespace, ServiceAccount, ConfigMap, Service, Deployment, Pod, List",
    ),
    (
        "a node",
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
        "unknown-kind",
        "1.yaml:1: Node a: kind: 'Node' is not known here; known are "
        "Namespace, ServiceAccount, ConfigMap, Service, Deployment, Pod, List",
    ),
    (
        "another version",
        "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: a}\n",
        "bad-version",
        "1.yaml:1: Deployment default/a: apiVersion: 'extensions/v1beta1' must be 'apps/v1' for a Deployment",
    ),
    (
        "no version",
        "kind: Pod\nmetadata: {name: a}\n",
        "bad-version",
        "1.yaml:1: Pod default/a: apiVersion: is missing",
    ),
    (
        "no command",
        pod(container="name: main, image: host, args: [x]"),
        "missing-field",
        "1.yaml:1: Pod default/cart: spec.containers[0].command: is missing: image 'host' has no command of its own",
    ),
    (
        "an image",
        pod(container='name: main, image: "nginx:1.27", command: [nginx]'),
        "unsupported-image",
        "1.yaml:1: Pod default/cart: spec.containers[0].image: image 'nginx:1.27' cannot be run here: "
        "programs come from this machine's own file system; write image: host",
    ),
    (
        "no image",
        pod(container="name: main, command: [nginx]"),
        "missing-field",
        "1.yaml:1: Pod default/cart: spec.containers[0].image: is missing; write image: host",
    ),
    (
        "a name of 254 bytes",
        pod(metadata=f"name: {LONGER}"),
        "bad-name",
        f"1.yaml:1: Pod default/{'a' * 60}...: metadata.name: "
        f"'{'a' * 77}...' must be an RFC 1123 subdomain of at most 253 bytes",
    ),
    (
        "a name in capitals",
        pod(metadata="name: Cart"),
        "bad-name",
        "1.yaml:1: Pod default/Cart: metadata.name: 'Cart' must be an RFC 1123 subdomain of at most 253 bytes",
    ),
    (
        "a reserved port",
        annotated('endpoint.aether.io/ports: "8080,18081"'),
        "reserved-port",
        "1.yaml:1: Pod default/cart: metadata.annotations[endpoint.aether.io/ports]: "
        "port '18081': the mesh reserves this number",
    ),
    (
        "an unknown suffix",
        annotated('endpoint.aether.io/ports: "8080=ftp"'),
        "bad-port",
        "1.yaml:1: Pod default/cart: metadata.annotations[endpoint.aether.io/ports]: "
        "port '8080=ftp': unknown suffix 'ftp', use one of h1, h2, http2, grpc, tcp, udp",
    ),
    (
        "a reserved port in a template",
        deployment('annotations: {endpoint.aether.io/ports: "18001=tcp"}'),
        "reserved-port",
        "1.yaml:1: Deployment default/cart: spec.template.metadata.annotations[endpoint.aether.io/ports]: "
        "port '18001=tcp': the mesh reserves this number",
    ),
    (
        "an account that can name no service",
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a.b}\n---\n" + pod(rest=", serviceAccountName: a.b"),
        "bad-account",
        "1.yaml:5: Pod default/cart: spec.serviceAccountName: ServiceAccount 'a.b' cannot name a service: "
        "an RFC 1035 label of at most 63 bytes is needed",
    ),
    (
        "an account that is not there",
        pod(rest=", serviceAccountName: cart"),
        "unknown-account",
        "1.yaml:1: Pod default/cart: spec.serviceAccountName: "
        "ServiceAccount 'cart' does not exist in namespace 'default': add it to the manifests",
    ),
    (
        "an account that a template names and is not there",
        deployment("annotations: {}", "serviceAccountName: x, containers: [{name: c, image: host, command: [run]}]"),
        "unknown-account",
        "1.yaml:1: Deployment default/cart: spec.template.spec.serviceAccountName: "
        "ServiceAccount 'x' does not exist in namespace 'default': add it to the manifests",
    ),
    (
        "a namespace that is not there",
        pod(metadata="name: cart, namespace: shop"),
        "unknown-namespace",
        "1.yaml:1: Pod shop/cart: metadata.namespace: "
        "namespace 'shop' does not exist: add a Namespace to the manifests",
    ),
    (
        "a port number that is none",
        pod(container="name: main, image: host, command: [run], ports: [{containerPort: 70000}]"),
        "bad-port",
        "1.yaml:1: Pod default/cart: spec.containers[0].ports[0].containerPort: port 70000 must be from 1 to 65535",
    ),
    (
        "the mesh's own label",
        'apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {aether.io/generated: "true"}}\n',
        "reserved-label",
        "1.yaml:1: Service default/a: metadata.labels: label 'aether.io/generated' is the mesh's own",
    ),
    ("a list of what is none", "kind: List\nitems: [7]\n", "bad-object", "1.yaml:1: List: items[0]: must be an object"),
    (
        "metadata that is none",
        "apiVersion: v1\nkind: Pod\nmetadata: 7\n",
        "bad-field",
        "1.yaml:1: Pod default/: metadata: must be an object",
    ),
]


@pytest.mark.parametrize(("what", "text", "code", "expected"), ERRORS, ids=[row[0] for row in ERRORS])
async def test_a_mistake_is_said_and_the_good_pod_is_applied(
    store: MemoryStore, what: str, text: str, code: str, expected: str
) -> None:
    plan = planned(store, text, GOOD)

    assert {problem.code: str(problem) for problem in plan.errors}.get(code) == expected, what
    assert "Pod default/good" in names(plan)


async def test_every_mistake_of_a_pod_is_said_at_once(store: MemoryStore) -> None:
    text = pod(
        metadata='name: Cart, annotations: {endpoint.aether.io/ports: "0,18002"}',
        container="name: UP, image: nginx, ports: [{containerPort: 0}]",
    )
    assert sorted(problem.field for problem in planned(store, text).errors) == [
        "metadata.annotations[endpoint.aether.io/ports]",
        "metadata.annotations[endpoint.aether.io/ports]",
        "metadata.name",
        "spec.containers[0].command",
        "spec.containers[0].image",
        "spec.containers[0].name",
        "spec.containers[0].ports[0].containerPort",
    ]


async def test_a_field_that_does_nothing_is_a_warning(store: MemoryStore) -> None:
    text = pod(container="name: main, image: host, command: [run], resources: {}", rest=", affinity: {}")

    plan = planned(store, text)

    assert names(plan) == ["Pod default/cart"]
    assert [str(problem) for problem in plan.warnings] == [
        "1.yaml:1: Pod default/cart: spec.containers[0].resources: "
        "field 'resources' is not supported here and is ignored",
        "1.yaml:1: Pod default/cart: spec.affinity: field 'affinity' is not supported here and is ignored",
    ]


async def test_a_name_of_253_bytes_is_a_name(store: MemoryStore) -> None:
    assert names(planned(store, pod(metadata=f"name: {LONG}"))) == [f"Pod default/{LONG}"]


async def test_64_ports_are_declared(store: MemoryStore) -> None:
    ports = ",".join(f"{9000 + number}=tcp" for number in range(64))
    plan = planned(store, annotated(f'endpoint.aether.io/ports: "{ports}"'))
    assert names(plan) == ["Pod default/cart"]
    assert not plan.errors


async def test_annotations_mean_nothing_outside_of_the_mesh(store: MemoryStore) -> None:
    bad = 'endpoint.aether.io/ports: "0"'
    assert planned(store, annotated(bad)).errors
    assert not planned(store, annotated(f'{bad}, aether.io/managed: "false"')).errors
    manifests = [Manifest(where="1.yaml", text=annotated(bad))]
    assert not plan_apply(manifests, store, ignored=["default"]).errors


async def test_what_is_named_may_come_in_the_same_manifests_in_any_order(store: MemoryStore) -> None:
    plan = planned(
        store,
        pod(metadata="name: cart, namespace: shop", rest=", serviceAccountName: cart"),
        "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: cart, namespace: shop}\n",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
    )
    assert names(plan) == ["Namespace shop", "ServiceAccount shop/cart", "Pod shop/cart"]
    assert not plan.errors


async def test_what_is_named_may_be_in_the_store(store: MemoryStore) -> None:
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    await store.apply_all(planned(store, space).objects, USER)
    assert names(planned(store, pod(metadata="name: cart, namespace: shop"))) == ["Pod shop/cart"]


async def test_the_second_of_two_is_refused_and_says_where_the_first_is(store: MemoryStore) -> None:
    plan = planned(store, pod(), pod())
    assert names(plan) == ["Pod default/cart"]
    assert [str(problem) for problem in plan.errors] == ["2.yaml:1: Pod default/cart: it is already in 1.yaml:1"]


async def test_a_list_is_what_is_in_it(store: MemoryStore) -> None:
    items = "".join(f"- {{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n" for name in "ab")
    assert names(planned(store, f"apiVersion: v1\nkind: List\nitems:\n{items}")) == ["Namespace a", "Namespace b"]


async def test_what_is_planned_can_be_applied(store: MemoryStore) -> None:
    plan = planned(store, GOOD, deployment("annotations: {}"))
    assert [str(outcome) for outcome in await store.apply_all(plan.objects, USER)] == ["created", "created"]


def test_a_directory_is_its_manifests_by_name(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.json", "notes.txt", ".hidden.swp"):
        (tmp_path / name).write_text(f"# {name}")
    (tmp_path / "deeper.yaml").mkdir()
    assert [Path(manifest.where).name for manifest in read_manifests([tmp_path])] == ["a.yml", "b.yaml", "c.json"]


def test_a_file_is_itself_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "pod.txt"
    path.write_text(GOOD)
    assert read_manifests([path]) == (Manifest(where=str(path), text=GOOD),)


def test_a_path_without_manifests_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoManifests, match="no file that ends in"):
        read_manifests([tmp_path])
    with pytest.raises(NoManifests, match="nowhere: No such file"):
        read_manifests([tmp_path / "nowhere"])
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(NoManifests, match="not UTF-8"):
        read_manifests([tmp_path / "bad.yaml"])
