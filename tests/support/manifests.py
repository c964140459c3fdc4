"""Manifests for tests, as text: namespaces, echoes and clients."""

import json
from collections.abc import Mapping, Sequence

ECHO = ("python3", "-m", "aether.workloads.echo")
NONE: Mapping[str, str] = {}


def together(*documents: str) -> str:
    return "---\n".join(documents)


def namespace(name: str) -> str:
    return _document({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def account(name: str, space: str) -> str:
    metadata = {"name": name, "namespace": space}
    return _document({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def echo(
    name: str,
    space: str,
    ports: Sequence[str],
    *,
    declares: str,
    replicas: int = 1,
    annotations: Mapping[str, str] = NONE,
    extra: Mapping[str, object] | None = None,
) -> str:
    """A Deployment of the echo workload with a ServiceAccount of its own. `ports` are the echo's arguments."""
    return deployment(
        name,
        space,
        [*ECHO, *ports],
        annotations={"endpoint.aether.io/ports": declares, **annotations},
        replicas=replicas,
        extra=extra,
    )


def deployment(
    name: str,
    space: str,
    command: Sequence[str],
    *,
    annotations: Mapping[str, str],
    replicas: int = 1,
    extra: Mapping[str, object] | None = None,
) -> str:
    """A Deployment and its ServiceAccount. `extra` goes into the pod's spec."""
    metadata = {"name": name, "namespace": space}
    template = {
        "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
        "spec": {**_pod_spec(name, space, command), **(extra or {})},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return together(
        account(name, space),
        _document({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}),
    )


def client(name: str, space: str, *, annotations: Mapping[str, str] = NONE, node: str = "") -> str:
    """A pod that only waits, to run commands in, with a ServiceAccount of its own."""
    extra = {"nodeName": node} if node else None
    return together(account(name, space), pod(name, space, [*ECHO, "8080=http"], annotations=annotations, extra=extra))


def pod(
    name: str,
    space: str,
    command: Sequence[str],
    *,
    annotations: Mapping[str, str] = NONE,
    extra: Mapping[str, object] | None = None,
) -> str:
    """A pod without a Deployment. `extra` goes into its spec."""
    labels = {"app": name[:63].rstrip("-")}
    metadata = {"name": name, "namespace": space, "labels": labels, "annotations": dict(annotations)}
    spec = {**_pod_spec(name, space, command), "terminationGracePeriodSeconds": 1, **(extra or {})}
    return _document({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def service(name: str, space: str, spec: Mapping[str, object]) -> str:
    metadata = {"name": name, "namespace": space}
    return _document({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})


def _pod_spec(name: str, space: str, command: Sequence[str]) -> dict[str, object]:
    container = {
        "name": "main",
        "image": "host",
        "command": list(command),
        "env": [{"name": "SERVICE", "value": f"{space}/{name}"}],
    }
    return {"serviceAccountName": name, "containers": [container]}


def _document(value: Mapping[str, object]) -> str:
    return json.dumps(value) + "\n"
