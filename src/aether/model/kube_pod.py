"""Pod specs, parsed: as a Pod's own, or as a Deployment's template."""

import msgspec

from aether.model.kube import Container, Pod, PodSpec, PodTemplate, Volume
from aether.model.kube_container import parse_container, parse_run_as
from aether.model.kube_fields import Fields, is_subdomain, refuse_repeats
from aether.model.kube_meta import parse_meta
from aether.model.names import is_label

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default")
_INERT = ("enableServiceLinks", "automountServiceAccountToken", "schedulerName", "priority", "preemptionPolicy")


def read_pod(fields: Fields) -> Pod:
    status = fields.child("status")
    ready = [item for item in status.children("conditions") if item.text("type") == "Ready"]
    return Pod(
        meta=parse_meta(fields, is_subdomain, "an RFC 1123 subdomain of at most 253 bytes"),
        spec=read_pod_spec(fields.child("spec")),
        phase=status.text("phase", "Pending"),
        is_ready=any(item.text("status") == "True" for item in ready),
        addresses=tuple(item.text("ip") for item in status.children("podIPs")),
    )


def read_template(fields: Fields) -> PodTemplate:
    metadata = fields.child("metadata")
    template = PodTemplate(
        labels=metadata.text_map("labels"),
        annotations=metadata.text_map("annotations"),
        spec=read_pod_spec(fields.child("spec")),
    )
    metadata.ignore("creationTimestamp", "name", "namespace")
    metadata.close()
    fields.close()
    return template


def read_pod_spec(fields: Fields) -> PodSpec:
    default_run_as = parse_run_as(fields.child("securityContext"))
    init = _containers(fields, "initContainers", default_run_as)
    containers = _containers(fields, "containers", default_run_as)
    if not containers:
        fields.refuse("containers", "is missing: a pod has at least one container", code="missing-field")
    refuse_repeats([(where, container.name) for where, container in init + containers], "name", "container")
    volumes = _volumes(fields)
    for where, container in init + containers:
        _check_mounts(where, container, volumes)
    _refuse_host_namespaces(fields)
    spec = PodSpec(
        containers=tuple(container for _, container in containers),
        init_containers=tuple(container for _, container in init),
        volumes=volumes,
        account=_account(fields),
        restart_policy=fields.choice("restartPolicy", _RESTART_POLICIES, "Always"),
        grace_s=fields.number("terminationGracePeriodSeconds", default=30),
        node=fields.text("nodeName"),
        node_selector=fields.text_map("nodeSelector"),
        hostname=fields.named("hostname", is_label, "an RFC 1123 label") if fields.has("hostname") else "",
        subdomain=fields.named("subdomain", is_label, "an RFC 1123 label") if fields.has("subdomain") else "",
        dns_policy=fields.choice("dnsPolicy", _DNS_POLICIES, "ClusterFirst"),
        host_aliases=tuple((item.text("ip"), item.texts("hostnames")) for item in fields.children("hostAliases")),
    )
    fields.ignore(*_INERT)
    fields.close()
    return spec


def _containers(
    fields: Fields, name: str, default_run_as: tuple[int, int] | None
) -> tuple[tuple[Fields, Container], ...]:
    parsed = []
    for item in fields.children(name):
        container = parse_container(item, is_init=name == "initContainers")
        if container.run_as is None and default_run_as is not None:
            container = _with_run_as(container, default_run_as)
        parsed.append((item, container))
    return tuple(parsed)


def _with_run_as(container: Container, run_as: tuple[int, int]) -> Container:
    return msgspec.structs.replace(container, run_as=run_as)


def _account(fields: Fields) -> str:
    alias = fields.text("serviceAccount")
    return fields.text("serviceAccountName") or alias or "default"


def _refuse_host_namespaces(fields: Fields) -> None:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if fields.flag(name):
            fields.refuse(name, "is not supported: every pod has namespaces of its own", code="unsupported-value")


def _volumes(fields: Fields) -> tuple[Volume, ...]:
    parsed = [(item, _volume(item)) for item in fields.children("volumes")]
    refuse_repeats([(item, volume.name) for item, volume in parsed], "name", "volume")
    return tuple(volume for _, volume in parsed)


def _volume(fields: Fields) -> Volume:
    name = fields.named("name", is_label, "an RFC 1123 label")
    sources = [source for source in fields.names() if source != "name"]
    fields.ignore(*sources)
    if sources == ["emptyDir"]:
        fields.child("emptyDir").close()
        return Volume(name=name)
    if sources != ["configMap"]:
        found = ", ".join(sources) or "none"
        fields.refuse("", f"must have configMap or emptyDir (found {found})", code="unsupported-volume", item=found)
        return Volume(name=name)
    source = fields.child("configMap")
    volume = Volume(
        name=name,
        config_map=source.text("name"),
        items=tuple((item.text("key"), item.text("path")) for item in source.children("items")),
        mode=source.number("defaultMode", default=0o644, high=0o777),
        is_optional=source.flag("optional"),
    )
    if not volume.config_map:
        source.refuse("name", "is missing", code="missing-field")
    source.close()
    return volume


def _check_mounts(where: Fields, container: Container, volumes: tuple[Volume, ...]) -> None:
    known = {volume.name for volume in volumes}
    for position, mount in enumerate(container.mounts):
        if mount.volume not in known:
            message = f"the pod has no volume {mount.volume!r}"
            where.refuse(f"volumeMounts[{position}].name", message, code="unknown-volume", item=mount.volume)
