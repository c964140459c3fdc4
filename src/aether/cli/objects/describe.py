"""`aether describe`: one object in words, with what the mesh makes of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aether.cli.address import parse_pod
from aether.cli.client import ApiClient, open_world
from aether.cli.mesh.status import format_ports, format_reasons
from aether.cli.objects.columns import format_age, pod_state, service_ports
from aether.cli.objects.get import Selection, find_kind, get_object
from aether.cli.output import console, escaped
from aether.model.world import ServiceStatus, WorldStatus

Row = tuple[str, str]
KubeObject = Mapping[str, Any]


def run_describe(world: str | None, kind: str, name: str, namespace: str | None) -> None:
    client = open_world(world)
    found_kind = find_kind(client, kind)
    if found_kind.name == "Pod":
        found = client.get("/v1/pod", query=parse_pod(name, namespace).query(), reply=dict[str, Any])
    else:
        found = get_object(client, found_kind, Selection.of(kind, name, namespace))
    rows = [*_metadata_rows(found), *_rows(found_kind.name, found, client)]
    width = max(len(title) for title, _ in rows)
    for title, text in rows:
        console().print(f"[bold]{escaped(title.ljust(width))}[/]  {escaped(text)}")


def _metadata_rows(object_: KubeObject) -> Iterator[Row]:
    metadata = object_["metadata"]
    place = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    yield object_["kind"], f"{place}{metadata['name']}"
    yield "Age", format_age(object_)
    yield from _pairs("Labels", metadata.get("labels"))
    yield from _pairs("Annotations", metadata.get("annotations"))


def _rows(kind: str, object_: KubeObject, client: ApiClient) -> Iterator[Row]:
    match kind:
        case "Pod":
            status = client.get("/v1/status", reply=WorldStatus)
            yield from _pod_rows(object_)
            account = object_["spec"].get("serviceAccountName", "default")
            yield from _mesh_rows(status, object_["metadata"]["namespace"], account)
        case "Service" | "ServiceAccount":
            if kind == "Service":
                yield from _service_rows(object_)
            status = client.get("/v1/status", reply=WorldStatus)
            yield from _mesh_rows(status, object_["metadata"]["namespace"], object_["metadata"]["name"])
        case "Deployment":
            yield from _deployment_rows(object_)
        case "ConfigMap":
            yield from _lines("Data", sorted(object_.get("data") or {}))
        case _:
            yield from ()


def _pod_rows(pod: KubeObject) -> Iterator[Row]:
    status, spec = pod.get("status", {}), pod["spec"]
    yield "Node", spec.get("nodeName", "none yet")
    yield "Account", spec.get("serviceAccountName", "default")
    yield "Addresses", " ".join(address["ip"] for address in status.get("podIPs") or ()) or "none yet"
    yield "Status", f"{pod_state(pod)} {status.get('message', '')}".strip()
    conditions = [
        f"{condition['type']}={condition['status']} {condition.get('message', '')}".strip()
        for condition in status.get("conditions") or ()
    ]
    yield from _lines("Conditions", conditions)
    states = {container["name"]: container for container in status.get("containerStatuses") or ()}
    yield from _lines("Containers", _containers(spec, states))


def _containers(spec: KubeObject, states: Mapping[str, KubeObject]) -> list[str]:
    return [line for container in spec.get("containers") or () for line in _container(container, states)]


def _container(container: KubeObject, states: Mapping[str, KubeObject]) -> Iterator[str]:
    state = states.get(container["name"], {})
    command = " ".join([*(container.get("command") or ()), *(container.get("args") or ())])
    what = "not started"
    for name, detail in (state.get("state") or {}).items():
        words = [name, str(detail.get("reason") or ""), str(detail.get("message") or "")]
        if "exitCode" in detail:
            words.insert(1, f"with {detail['exitCode']}")
        what = " ".join(word for word in words if word)
    yield f"{container['name']}: {what}, {state.get('restartCount', 0)} restarts: {command}"
    before = (state.get("lastState") or {}).get("terminated") or {}
    for line in str(before.get("message") or "").splitlines():
        yield f"  ended before: {line}"


def _service_rows(service: KubeObject) -> Iterator[Row]:
    spec = service["spec"]
    addresses = [address for address in spec.get("clusterIPs") or [spec.get("clusterIP", "")] if address]
    yield "Addresses", " ".join(addresses) or "none yet"
    yield "Ports", service_ports(service) or "none"
    yield from _pairs("Selector", spec.get("selector"))


def _deployment_rows(deployment: KubeObject) -> Iterator[Row]:
    spec, status = deployment["spec"], deployment.get("status", {})
    yield "Replicas", f"{status.get('readyReplicas', 0)} of {spec.get('replicas', 1)} ready"
    yield from _pairs("Selector", (spec.get("selector") or {}).get("matchLabels"))
    template = spec["template"]
    yield from _pairs("Pod annotations", template["metadata"].get("annotations"))
    yield from _lines("Containers", _containers(template["spec"], {}))


def _mesh_rows(status: WorldStatus, namespace: str, name: str) -> Iterator[Row]:
    service = next((s for s in status.services if (s.namespace, s.name) == (namespace, name)), None)
    if service is None:
        yield "Mesh", "no service of the mesh by this name"
        return
    yield "Mesh names", ", ".join(_names(service, status.mesh_domain))
    yield "Mesh ports", format_ports(service.ports) or "none"
    yield "Endpoints", f"{service.healthy} of {service.endpoints} healthy"
    yield "Refusals", format_reasons(service.refusals) or "none"
    mine = [problem for problem in status.problems if f"{namespace}/{name}" in problem.subject]
    yield from _lines("Problems", [problem.message for problem in mine])


def _names(service: ServiceStatus, mesh_domain: str) -> Sequence[str]:
    mesh = f"{service.name}.{service.namespace}.{mesh_domain}"
    return (mesh,) if service.is_user_owned else (mesh, f"{service.name}.{service.namespace}.svc", service.name)


def _pairs(title: str, values: Mapping[str, str] | None) -> Iterator[Row]:
    yield from _lines(title, [f"{name}={value}" for name, value in sorted((values or {}).items())])


def _lines(title: str, lines: Sequence[str]) -> Iterator[Row]:
    """The title stands on the first line only; nothing for no lines."""
    for index, line in enumerate(lines):
        yield (title if index == 0 else ""), line
