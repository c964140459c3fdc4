"""The columns `aether get` prints for each kind."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

KubeObject = Mapping[str, Any]
Column = tuple[str, Callable[[KubeObject], str]]

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def columns_of(kind: str, *, is_wide: bool, has_namespace: bool) -> tuple[Column, ...]:
    """The columns of a kind; `has_namespace` puts the namespace first."""
    special = _COLUMNS.get(kind, ())
    wide = _WIDE.get(kind, ()) if is_wide else ()
    namespace = (("NAMESPACE", lambda o: str(o["metadata"].get("namespace", ""))),) if has_namespace else ()
    return (*namespace, ("NAME", lambda o: str(o["metadata"]["name"])), *special, ("AGE", format_age), *wide)


def pod_state(pod: KubeObject) -> str:
    """What kubectl calls STATUS: the worst that a container says, else the phase."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    for container in _container_statuses(pod):
        for state in ("waiting", "terminated"):
            reason = container.get("state", {}).get(state, {}).get("reason")
            if reason and reason != "Completed":
                return str(reason)
    status = pod.get("status", {})
    return str(status.get("reason") or status.get("phase") or "Pending")


def format_age(object_: KubeObject, *, now: datetime | None = None) -> str:
    """``3d``, ``2h``, ``5m``, ``17s``."""
    text = object_["metadata"].get("creationTimestamp")
    if not text:
        return ""
    age_s = int(((now or datetime.now(UTC)) - datetime.fromisoformat(text)).total_seconds())
    for unit, length_s in _UNITS:
        if age_s >= 2 * length_s:
            return f"{age_s // length_s}{unit}"
    return f"{max(age_s, 0)}s"


def service_ports(service: KubeObject) -> str:
    """``8080/TCP,53→5353/UDP``"""
    return ",".join(_service_port(port) for port in service["spec"].get("ports") or ())


def _service_port(port: Mapping[str, Any]) -> str:
    target = port.get("targetPort", port["port"])
    arrow = f"→{target}" if target != port["port"] else ""
    return f"{port['port']}{arrow}/{port.get('protocol', 'TCP')}"


def _container_statuses(pod: KubeObject) -> list[Mapping[str, Any]]:
    status = pod.get("status", {})
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _ready_containers(pod: KubeObject) -> str:
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    return f"{sum(bool(status.get('ready')) for status in statuses)}/{len(pod['spec'].get('containers') or ())}"


def _restarts(pod: KubeObject) -> str:
    return str(
        sum(int(status.get("restartCount", 0)) for status in pod.get("status", {}).get("containerStatuses") or ())
    )


def _addresses(pod: KubeObject) -> str:
    return ",".join(str(address["ip"]) for address in pod.get("status", {}).get("podIPs") or ())


def _status_number(name: str) -> Callable[[KubeObject], str]:
    return lambda o: str(o.get("status", {}).get(name, 0))


def _replicas(deployment: KubeObject) -> str:
    return f"{deployment.get('status', {}).get('readyReplicas', 0)}/{deployment['spec'].get('replicas', 1)}"


def _cluster_addresses(service: KubeObject) -> str:
    spec = service["spec"]
    return ",".join(spec.get("clusterIPs") or [str(spec.get("clusterIP") or "")])


def _selector(object_: KubeObject) -> str:
    selector = object_["spec"].get("selector") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(selector.get("matchLabels", selector).items()))


_COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "Pod": (("READY", _ready_containers), ("STATUS", pod_state), ("RESTARTS", _restarts)),
    "Deployment": (
        ("READY", _replicas),
        ("UP-TO-DATE", _status_number("updatedReplicas")),
        ("AVAILABLE", _status_number("availableReplicas")),
    ),
    "Service": (("ADDRESSES", _cluster_addresses), ("PORTS", service_ports)),
    "ConfigMap": (("DATA", lambda o: str(len(o.get("data") or {}) + len(o.get("binaryData") or {}))),),
    "Namespace": (("STATUS", lambda o: str(o.get("status", {}).get("phase", "Active"))),),
}

_WIDE: Mapping[str, tuple[Column, ...]] = {
    "Pod": (("ADDRESSES", _addresses), ("NODE", lambda o: str(o["spec"].get("nodeName", "")))),
    "Deployment": (("SELECTOR", _selector),),
    "Service": (("SELECTOR", _selector),),
}
