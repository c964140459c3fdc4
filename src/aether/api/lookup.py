"""Find what a client means: a kind by any of its names, a pod by its own name or by its Deployment's or Service's."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from aether.adapters.objects.kinds import KINDS, Kind, KubeObject, UnknownKind, has_labels, is_terminating
from aether.adapters.objects.store import ObjectStore
from aether.api.problem import NoSuchContainer, NoSuchPod, SeveralPods

SHORT_NAMES: Mapping[str, str] = {
    "ns": "Namespace",
    "no": "Node",
    "sa": "ServiceAccount",
    "cm": "ConfigMap",
    "svc": "Service",
    "deploy": "Deployment",
    "po": "Pod",
}

_SUGGESTIONS = 6

_KIND_BY_NAME: Mapping[str, Kind] = {
    **{name: KINDS[kind] for name, kind in SHORT_NAMES.items()},
    **{kind.plural: kind for kind in KINDS.values()},
    **{kind.name.lower(): kind for kind in KINDS.values()},
}


def find_kind(text: str) -> Kind:
    """The kind called `text`: its name, plural or short name, in any case. Raises UnknownKind."""
    kind = _KIND_BY_NAME.get(text.lower())
    if kind is None:
        raise UnknownKind(text)
    return kind


class PodQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`namespace` "" is any. `kind` is `pod`, `deployment`, `service`, or "": a pod, else a Deployment of that name."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        what = f"{self.kind} {self.name}" if self.kind else self.name
        return f"{what} in {self.namespace}" if self.namespace else what


def find_pod(objects: ObjectStore, query: PodQuery) -> KubeObject:
    """The pod that `query` means; of the pods of a Deployment or Service the best: ready, then running, then oldest.

    Raises:
        NoSuchPod: nothing of that name, or no pod of it; says what there is.
        SeveralPods: no namespace is given and several have one.
    """
    candidates = _candidates(objects, query)
    namespaces = sorted({pod["metadata"]["namespace"] for pod in candidates})
    if len(namespaces) > 1:
        raise SeveralPods(f"{query} is in {len(namespaces)} namespaces ({', '.join(namespaces)}): say which")
    if not candidates:
        raise NoSuchPod(f"no pod is {query}{_hint(objects, query)}")
    return min(candidates, key=_preference)


def find_container(pod: Mapping[str, Any], name: str) -> str:
    """The name of the pod's container called `name`, of its first for "". Raises NoSuchContainer."""
    spec = pod["spec"]
    names = [str(each["name"]) for each in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    if name and name not in names:
        raise NoSuchContainer(f"pod {pod['metadata']['name']} has no container {name!r}; it has {', '.join(names)}")
    return name or names[0]


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the pod's status says that it is ready."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _candidates(objects: ObjectStore, query: PodQuery) -> Sequence[KubeObject]:
    pods, _ = objects.list("Pod", query.namespace or None)
    exact = [pod for pod in pods if pod["metadata"]["name"] == query.name]
    match query.kind:
        case "pod":
            return exact
        case "deployment":
            return _selected(objects, query, pods, "Deployment")
        case "service":
            return _selected(objects, query, pods, "Service")
        case _:
            return exact or _selected(objects, query, pods, "Deployment")


def _selected(objects: ObjectStore, query: PodQuery, pods: Sequence[KubeObject], kind: str) -> Sequence[KubeObject]:
    """The pods that the selectors of the objects of `kind` called `query.name` pick."""
    found = []
    for owner in objects.list(kind, query.namespace or None)[0]:
        if owner["metadata"]["name"] != query.name:
            continue
        selector = owner["spec"].get("selector") or {}
        wanted = selector.get("matchLabels", {}) if kind == "Deployment" else selector
        namespace = owner["metadata"]["namespace"]
        found += [
            pod for pod in pods if wanted and pod["metadata"]["namespace"] == namespace and has_labels(pod, wanted)
        ]
    return found


def _preference(pod: KubeObject) -> tuple[bool, bool, bool, str, str]:
    metadata = pod["metadata"]
    is_running = pod.get("status", {}).get("phase") == "Running"
    return (
        is_terminating(pod),
        not is_ready(pod),
        not is_running,
        metadata.get("creationTimestamp", ""),
        metadata["name"],
    )


def _hint(objects: ObjectStore, query: PodQuery) -> str:
    pods, _ = objects.list("Pod")
    names = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]
    alike = [name for name in names if query.name in name] or names
    if not alike:
        return "; there are no pods at all"
    more = f" and {len(alike) - _SUGGESTIONS} more" if len(alike) > _SUGGESTIONS else ""
    return f"; there are {', '.join(alike[:_SUGGESTIONS])}{more}"
