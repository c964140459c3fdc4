"""Kubernetes objects to typed values: the only reader of their JSON.

`parse_x` gives the value or raises `Rejected` with every error; `inspect` gives every diagnostic, warnings too, of an
object of any kind.
"""

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from aether.errors import Diagnostic, Rejected
from aether.model.kube import (
    GENERATED_LABEL,
    ConfigMap,
    Deployment,
    KubeServicePort,
    Meta,
    Node,
    Pod,
    PodTemplate,
    Service,
)
from aether.model.kube_fields import (
    WARNING_CODES,
    Fields,
    is_subdomain,
    refuse_repeats,
)
from aether.model.kube_meta import check_labels, parse_meta
from aether.model.kube_pod import read_pod, read_template
from aether.model.names import is_label, is_service_label
from aether.model.ports import Transport

Json = Mapping[str, object]
T = TypeVar("T")

CONFIG_MAP_LIMIT_BYTES = 1 << 20
"""Kubernetes' own limit for the data of one ConfigMap."""

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_PERCENT = re.compile(r"[0-9]{1,3}%")
_TRANSPORTS = {"TCP": Transport.TCP, "UDP": Transport.UDP}
_SUBDOMAIN = "an RFC 1123 subdomain of at most 253 bytes"


def parse_pod(object_: Json) -> Pod:
    return _parse(object_, read_pod)


def parse_deployment(object_: Json) -> Deployment:
    return _parse(object_, _read_deployment)


def parse_service(object_: Json) -> Service:
    return _parse(object_, _read_service)


def parse_config_map(object_: Json) -> ConfigMap:
    return _parse(object_, _read_config_map)


def parse_node(object_: Json) -> Node:
    return _parse(object_, _read_node)


def inspect(kind: str, object_: Json) -> tuple[Diagnostic, ...]:
    """Everything there is to say of an object of `kind`, which must be one of `READERS`; `field` is set in each."""
    problems: list[Diagnostic] = []
    fields = Fields(object_, "", problems)
    READERS[kind](fields)
    fields.ignore("status")
    fields.close()
    return tuple(problems)


def template_of(kind: str, object_: Json) -> tuple[str, PodTemplate] | None:
    """What pods of the object will be, and its path in it, as well as it can be read; None if it makes none."""
    if kind == "Pod":
        pod = read_pod(Fields(object_, "", []))
        return "", PodTemplate(labels=pod.meta.labels, annotations=pod.meta.annotations, spec=pod.spec)
    if kind == "Deployment":
        return "spec.template.", _read_deployment(Fields(object_, "", [])).template
    return None


def _parse(object_: Json, read: Callable[[Fields], T]) -> T:
    problems: list[Diagnostic] = []
    value = read(Fields(object_, "", problems))
    errors = [problem for problem in problems if problem.code not in WARNING_CODES]
    if errors:
        metadata = object_.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else ""
        subject = f"{object_.get('kind')} {name}"
        raise Rejected(msgspec.structs.replace(error, subject=subject) for error in errors)
    return value


def _read_namespace(fields: Fields) -> Meta:
    fields.ignore("spec")
    return parse_meta(fields, is_label, "an RFC 1123 label of at most 63 bytes")


def _read_account(fields: Fields) -> Meta:
    fields.ignore("automountServiceAccountToken", "imagePullSecrets", "secrets")
    return parse_meta(fields, is_subdomain, _SUBDOMAIN)


def _read_node(fields: Fields) -> Node:
    spec, status = fields.child("spec"), fields.child("status")
    return Node(
        meta=parse_meta(fields, is_subdomain, _SUBDOMAIN),
        pod_cidrs=spec.texts("podCIDRs"),
        addresses=tuple(
            item.text("address") for item in status.children("addresses") if item.text("type") == "InternalIP"
        ),
    )


def _read_config_map(fields: Fields) -> ConfigMap:
    meta = parse_meta(fields, is_subdomain, _SUBDOMAIN)
    data = fields.text_map("data")
    binary = tuple((key, _base64(fields, key, text)) for key, text in fields.text_map("binaryData"))
    for key, _ in (*data, *binary):
        if _CONFIG_KEY.fullmatch(key) is None or key in {".", ".."}:
            fields.refuse(f"data[{key[:80]}]", f"{key[:80]!r} is no ConfigMap key", code="bad-name", item=key)
    size = sum(len(text.encode()) for _, text in data) + sum(len(content) for _, content in binary)
    if size > CONFIG_MAP_LIMIT_BYTES:
        fields.refuse("data", f"{size} bytes are more than the limit of {CONFIG_MAP_LIMIT_BYTES}", code="too-large")
    fields.ignore("immutable")
    return ConfigMap(meta=meta, data=data, binary_data=binary)


def _base64(fields: Fields, key: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # of which binascii.Error is one; text that is not ASCII is another
        fields.refuse(f"binaryData[{key}]", "is not base64", item=text)
        return b""


def _read_deployment(fields: Fields) -> Deployment:
    meta = parse_meta(fields, is_subdomain, _SUBDOMAIN)
    if not fields.has("spec"):
        fields.refuse("spec", "is missing", code="missing-field")
    spec = fields.child("spec")
    template = read_template(spec.child("template"))
    strategy = spec.child("strategy")
    rolling = strategy.child("rollingUpdate")
    deployment = Deployment(
        meta=meta,
        replicas=spec.number("replicas", default=1),
        selector=_selector(spec, template.labels),
        template=template,
        is_recreate=strategy.choice("type", ("RollingUpdate", "Recreate"), "RollingUpdate") == "Recreate",
        max_surge=_share(rolling, "maxSurge"),
        max_unavailable=_share(rolling, "maxUnavailable"),
        min_ready_s=spec.number("minReadySeconds"),
        is_paused=spec.flag("paused"),
    )
    if template.spec.restart_policy != "Always":
        spec.refuse("template.spec.restartPolicy", "must be Always", item=template.spec.restart_policy)
    if _is_nothing(deployment.max_surge) and _is_nothing(deployment.max_unavailable):
        rolling.refuse("maxUnavailable", "must not be 0 when maxSurge is 0")
    spec.ignore("revisionHistoryLimit", "progressDeadlineSeconds")
    for part in (rolling, strategy, spec):
        part.close()
    return deployment


def _selector(spec: Fields, labels: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    selector = spec.child("selector")
    wanted = selector.text_map("matchLabels")
    if selector.has("matchExpressions"):
        selector.refuse("matchExpressions", "is not supported here; use matchLabels", code="unsupported-value")
    if not wanted:
        spec.refuse("selector.matchLabels", "is missing", code="missing-field")
    elif not set(wanted) <= set(labels):
        spec.refuse("selector.matchLabels", "does not match spec.template.metadata.labels", item=str(dict(wanted)))
    check_labels(spec, "template.metadata.labels", labels)
    return wanted


def _share(rolling: Fields, name: str) -> int | str:
    value = rolling.raw(name)
    if isinstance(value, str):
        if _PERCENT.fullmatch(value) is not None:
            return value
        rolling.refuse(name, f"{value[:80]!r} must be a number of pods or a percentage", item=value)
    return rolling.number(name) if isinstance(value, int) else "25%"


def _is_nothing(share: int | str) -> bool:
    return share == 0 or (isinstance(share, str) and int(share.rstrip("%")) == 0)


def _read_service(fields: Fields) -> Service:
    meta = parse_meta(fields, is_service_label, "an RFC 1035 label of at most 63 bytes")
    if not fields.has("spec"):
        fields.refuse("spec", "is missing", code="missing-field")
    spec = fields.child("spec")
    addresses = spec.texts("clusterIPs") or tuple(filter(None, [spec.text("clusterIP")]))
    spec.ignore("clusterIP")
    is_headless = "None" in addresses
    service = Service(
        meta=meta,
        ports=_service_ports(spec, may_be_empty=is_headless or (GENERATED_LABEL, "true") in meta.labels),
        selector=spec.text_map("selector"),
        addresses=() if is_headless else tuple(_address(spec, address) for address in addresses),
        is_headless=is_headless,
        publishes_not_ready=spec.flag("publishNotReadyAddresses"),
    )
    kind = spec.choice("type", ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"), "ClusterIP")
    if kind == "ExternalName":
        spec.refuse("type", "ExternalName is not supported here", code="unsupported-value", item=kind)
    elif kind != "ClusterIP":
        message = f"{kind} is served as ClusterIP: there is nothing outside to reach it from"
        spec.refuse("type", message, code="unsupported-field", item=kind)
    if spec.choice("sessionAffinity", ("None", "ClientIP"), "None") == "ClientIP":
        spec.refuse("sessionAffinity", "ClientIP is not supported here and is ignored", code="unsupported-field")
    spec.ignore("ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    spec.close()
    return service


def _address(spec: Fields, text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        spec.refuse("clusterIP", f"{text[:80]!r} is no IP address", code="bad-address", item=text)
        return ""


def _service_ports(spec: Fields, *, may_be_empty: bool) -> tuple[KubeServicePort, ...]:
    parsed = [(item, _service_port(item)) for item in spec.children("ports")]
    if not parsed and not may_be_empty:
        spec.refuse("ports", "is missing", code="missing-field")
    if len(parsed) > 1:
        for item, port in parsed:
            if not port.name:
                item.refuse("name", "is missing: it is needed when there is more than one port", code="missing-field")
    refuse_repeats([(item, port.name) for item, port in parsed if port.name], "name", "port name")
    refuse_repeats([(item, f"{port.number}/{port.transport}") for item, port in parsed], "port", "port")
    return tuple(port for _, port in parsed)


def _service_port(fields: Fields) -> KubeServicePort:
    number = fields.port_number("port")
    port = KubeServicePort(
        number=number,
        transport=_TRANSPORTS[fields.choice("protocol", tuple(_TRANSPORTS), "TCP")],
        target=fields.port("targetPort") if fields.has("targetPort") else number,
        name=fields.named("name", is_label, "an RFC 1123 label") if fields.has("name") else "",
        app_protocol=fields.text("appProtocol"),
    )
    fields.ignore("nodePort")
    fields.close()
    return port


READERS: Mapping[str, Callable[[Fields], object]] = {
    "Namespace": _read_namespace,
    "ServiceAccount": _read_account,
    "ConfigMap": _read_config_map,
    "Service": _read_service,
    "Deployment": _read_deployment,
    "Pod": read_pod,
    "Node": _read_node,
}
"""One reader per kind."""
