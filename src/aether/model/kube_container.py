"""Containers of a pod, parsed: command, environment, mounts, probes, hooks."""

from collections.abc import Callable

from aether.model.kube import (
    Check,
    ConfigMapKey,
    Container,
    ContainerPort,
    EnvFrom,
    EnvVar,
    Exec,
    Grpc,
    Hook,
    HttpGet,
    Probe,
    Sleep,
    TcpSocket,
    VolumeMount,
)
from aether.model.kube_fields import Fields, refuse_repeats
from aether.model.names import is_label
from aether.model.ports import Transport

HOST_IMAGE = "host"
"""The machine's own file system: the only image there is."""

FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""What `fieldRef` can name, beside one label or annotation (``metadata.labels['app']``)."""

_INERT = ("imagePullPolicy", "terminationMessagePath", "terminationMessagePolicy", "stdin", "tty")


def parse_container(fields: Fields, *, is_init: bool) -> Container:
    _check_image(fields)
    command = fields.texts("command")
    if not command:
        fields.refuse("command", f"is missing: image {HOST_IMAGE!r} has no command of its own", code="missing-field")
    lifecycle = fields.child("lifecycle")
    container = Container(
        name=fields.named("name", is_label, "an RFC 1123 label of at most 63 bytes"),
        argv=(*command, *fields.texts("args")),
        working_dir=_absolute(fields, "workingDir"),
        ports=_ports(fields),
        env_from=tuple(_env_from(item) for item in fields.children("envFrom")),
        env=tuple(_env_var(item) for item in fields.children("env")),
        mounts=_mounts(fields),
        startup_probe=_probe(fields, "startupProbe"),
        readiness_probe=_probe(fields, "readinessProbe"),
        liveness_probe=_probe(fields, "livenessProbe"),
        post_start=_hook(lifecycle, "postStart"),
        pre_stop=_hook(lifecycle, "preStop"),
        run_as=parse_run_as(fields.child("securityContext")),
        is_sidecar=is_init and fields.has("restartPolicy") and fields.choice("restartPolicy", ("Always",), "") != "",
    )
    fields.ignore(*_INERT)
    lifecycle.close()
    fields.close()
    return container


def parse_run_as(context: Fields) -> tuple[int, int] | None:
    """(user, group) of a security context; None if it names no user."""
    if not context.has("runAsUser"):
        context.close()
        return None
    user = context.number("runAsUser")
    group = context.number("runAsGroup", default=user)
    context.close()
    return user, group


def _check_image(fields: Fields) -> None:
    image = fields.text("image")
    if not image:
        fields.refuse("image", f"is missing; write image: {HOST_IMAGE}", code="missing-field")
    elif image != HOST_IMAGE:
        fields.refuse(
            "image",
            f"image {image[:80]!r} cannot be run here: programs come from this machine's own file system; "
            f"write image: {HOST_IMAGE}",
            code="unsupported-image",
            item=image,
        )


def _absolute(fields: Fields, name: str) -> str:
    path = fields.text(name)
    if path and not path.startswith("/"):
        fields.refuse(name, f"{path[:80]!r} must be an absolute path", item=path)
    return path


def _ports(fields: Fields) -> tuple[ContainerPort, ...]:
    parsed = []
    for item in fields.children("ports"):
        transport = _TRANSPORTS[item.choice("protocol", tuple(_TRANSPORTS), "TCP")]
        name = item.named("name", is_label, "an RFC 1123 label") if item.has("name") else ""
        parsed.append((item, ContainerPort(number=item.port_number("containerPort"), name=name, transport=transport)))
        item.close()
    refuse_repeats([(item, port.name) for item, port in parsed if port.name], "name", "port name")
    return tuple(port for _, port in parsed)


_TRANSPORTS = {"TCP": Transport.TCP, "UDP": Transport.UDP}


def _env_from(fields: Fields) -> EnvFrom:
    source = fields.child("configMapRef")
    if not source.names():
        fields.refuse("", "must have configMapRef (other sources are not supported here)", code="unsupported-source")
        return EnvFrom(config_map="")
    parsed = EnvFrom(config_map=source.text("name"), prefix=fields.text("prefix"), is_optional=source.flag("optional"))
    source.close()
    fields.close()
    return parsed


def _env_var(fields: Fields) -> EnvVar:
    name = fields.named("name", lambda text: "=" not in text, "a name without '='")
    value = fields.text("value")
    source = fields.child("valueFrom")
    if not source.names():
        fields.close()
        return EnvVar(name=name, value=value)
    key, path = source.child("configMapKeyRef"), source.child("fieldRef")
    if len(source.names()) != 1 or not (key.names() or path.names()):
        source.refuse("", "must have one of configMapKeyRef and fieldRef", code="unsupported-source")
        return EnvVar(name=name)
    if key.names():
        reference = ConfigMapKey(config_map=key.text("name"), key=key.text("key"), is_optional=key.flag("optional"))
        key.close()
        return EnvVar(name=name, from_config_map=reference)
    return EnvVar(name=name, from_field=_field_path(path))


def _field_path(fields: Fields) -> str:
    fields.ignore("apiVersion")
    path = fields.text("fieldPath")
    is_map_entry = path.startswith(("metadata.labels['", "metadata.annotations['")) and path.endswith("']")
    if path not in FIELD_PATHS and not is_map_entry:
        fields.refuse("fieldPath", f"{path[:80]!r} is not supported; known are {', '.join(FIELD_PATHS)}", item=path)
    fields.close()
    return path


def _mounts(fields: Fields) -> tuple[VolumeMount, ...]:
    parsed = []
    for item in fields.children("volumeMounts"):
        mount = VolumeMount(
            volume=item.text("name"),
            path=_absolute(item, "mountPath"),
            sub_path=item.text("subPath"),
            is_read_only=item.flag("readOnly"),
        )
        if not mount.path or mount.path.rstrip("/") == "":
            item.refuse("mountPath", "must be an absolute path below /", item=mount.path)
        if mount.sub_path.startswith("/") or ".." in mount.sub_path.split("/"):
            item.refuse("subPath", "must be a relative path without '..'", item=mount.sub_path)
        item.close()
        parsed.append((item, mount))
    refuse_repeats([(item, mount.path) for item, mount in parsed], "mountPath", "mount path")
    return tuple(mount for _, mount in parsed)


def _probe(container: Fields, name: str) -> Probe | None:
    if not container.has(name):
        return None
    fields = container.child(name)
    check = _one_of(fields, {**_HANDLERS, "grpc": _grpc}) or Exec(command=())
    highest = 2**31 - 1 if name == "readinessProbe" else 1
    probe = Probe(
        check=check if not isinstance(check, Sleep) else Exec(command=()),
        initial_delay_s=fields.number("initialDelaySeconds"),
        period_s=fields.number("periodSeconds", default=10, low=1),
        timeout_s=fields.number("timeoutSeconds", default=1, low=1),
        success_threshold=fields.number("successThreshold", default=1, low=1, high=highest),
        failure_threshold=fields.number("failureThreshold", default=3, low=1),
        grace_s=fields.number("terminationGracePeriodSeconds", low=1)
        if fields.has("terminationGracePeriodSeconds")
        else None,
    )
    fields.close()
    return probe


def _hook(lifecycle: Fields, name: str) -> Hook | None:
    if not lifecycle.has(name):
        return None
    fields = lifecycle.child(name)
    hook = _one_of(fields, {**_HANDLERS, "sleep": _sleep})
    fields.close()
    return None if isinstance(hook, Grpc) else hook


Handler = Check | Hook


def _one_of(fields: Fields, handlers: dict[str, Callable[[Fields], Handler]]) -> Handler | None:
    found = [name for name in handlers if fields.has(name)]
    if len(found) != 1:
        fields.refuse("", f"must have one of {', '.join(handlers)}", code="missing-field")
        return None
    return handlers[found[0]](fields.child(found[0]))


def _http_get(fields: Fields) -> HttpGet:
    headers = []
    for item in fields.children("httpHeaders"):
        headers.append((item.text("name"), item.text("value")))
        item.close()
    parsed = HttpGet(
        port=fields.port("port"),
        path=fields.text("path", "/"),
        host=fields.text("host"),
        is_tls=fields.choice("scheme", ("HTTP", "HTTPS"), "HTTP") == "HTTPS",
        headers=tuple(headers),
    )
    fields.close()
    return parsed


def _tcp_socket(fields: Fields) -> TcpSocket:
    parsed = TcpSocket(port=fields.port("port"), host=fields.text("host"))
    fields.close()
    return parsed


def _exec(fields: Fields) -> Exec:
    command = fields.texts("command")
    if not command:
        fields.refuse("command", "is missing", code="missing-field")
    fields.close()
    return Exec(command=command)


def _grpc(fields: Fields) -> Grpc:
    parsed = Grpc(port=fields.port_number("port"), service=fields.text("service"))
    fields.close()
    return parsed


def _sleep(fields: Fields) -> Sleep:
    parsed = Sleep(seconds=fields.number("seconds", low=0))
    fields.close()
    return parsed


_HANDLERS: dict[str, Callable[[Fields], Handler]] = {"httpGet": _http_get, "tcpSocket": _tcp_socket, "exec": _exec}
