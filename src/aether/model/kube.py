"""The parts of Kubernetes objects that we read, typed and frozen. `kube_parse` makes them."""

import msgspec

from aether.model.ports import Transport

GENERATED_LABEL = "aether.io/generated"
"""Marks (value `true`) the Services that the mesh made; no user's object carries it."""


class ConfigMapKey(msgspec.Struct, frozen=True, kw_only=True, order=True):
    config_map: str
    key: str
    is_optional: bool = False


class EnvVar(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One variable: a text in which ``$(NAME)`` stands for an earlier one, a ConfigMap's key, or a field of the pod."""

    name: str
    value: str = ""
    from_config_map: ConfigMapKey | None = None
    from_field: str = ""


class EnvFrom(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Every key of a ConfigMap as a variable, its name after `prefix`."""

    config_map: str
    prefix: str = ""
    is_optional: bool = False


class VolumeMount(msgspec.Struct, frozen=True, kw_only=True, order=True):
    volume: str
    path: str
    sub_path: str = ""
    is_read_only: bool = False


class Volume(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A directory for the pod: empty, or `config_map`'s keys as files. `items` maps keys to relative paths, () all."""

    name: str
    config_map: str = ""
    items: tuple[tuple[str, str], ...] = ()
    mode: int = 0o644
    is_optional: bool = False


class ContainerPort(msgspec.Struct, frozen=True, kw_only=True, order=True):
    number: int
    name: str = ""
    transport: Transport = Transport.TCP


class HttpGet(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """`port` is a number or a container port's name; `host` is empty for the pod itself."""

    port: int | str
    path: str = "/"
    host: str = ""
    is_tls: bool = False
    headers: tuple[tuple[str, str], ...] = ()


class TcpSocket(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    port: int | str
    host: str = ""


class Exec(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    command: tuple[str, ...]


class Grpc(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    port: int
    service: str = ""


class Sleep(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    seconds: int


Check = HttpGet | TcpSocket | Exec | Grpc
Hook = HttpGet | TcpSocket | Exec | Sleep


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`grace_s` replaces the pod's grace period after a failed liveness or startup probe; None keeps it."""

    check: Check
    initial_delay_s: int = 0
    period_s: int = 10
    timeout_s: int = 1
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_s: int | None = None


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """`argv` is command and args. `is_sidecar`: an init container that keeps running (restartPolicy Always)."""

    name: str
    argv: tuple[str, ...]
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    env: tuple[EnvVar, ...] = ()
    mounts: tuple[VolumeMount, ...] = ()
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    post_start: Hook | None = None
    pre_stop: Hook | None = None
    run_as: tuple[int, int] | None = None
    is_sidecar: bool = False


class PodSpec(msgspec.Struct, frozen=True, kw_only=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    account: str = "default"
    restart_policy: str = "Always"
    grace_s: int = 30
    node: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    hostname: str = ""
    subdomain: str = ""
    dns_policy: str = "ClusterFirst"
    host_aliases: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """`is_terminating`: deletion was asked for, and `deletion_grace_s` is what it leaves."""

    name: str
    namespace: str = ""
    uid: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    generation: int = 0
    is_terminating: bool = False
    deletion_grace_s: int = 0


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """`is_ready` and `phase` are what its runner last said."""

    meta: Meta
    spec: PodSpec
    phase: str = "Pending"
    is_ready: bool = False
    addresses: tuple[str, ...] = ()


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True):
    labels: tuple[tuple[str, str], ...]
    annotations: tuple[tuple[str, str], ...]
    spec: PodSpec


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """`max_surge` and `max_unavailable` are a number of pods, or a percentage as text (``25%``)."""

    meta: Meta
    replicas: int
    selector: tuple[tuple[str, str], ...]
    template: PodTemplate
    is_recreate: bool = False
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    min_ready_s: int = 0
    is_paused: bool = False


class KubeServicePort(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """`target` is a pod port's number, or the name of a container port."""

    number: int
    transport: Transport
    target: int | str
    name: str = ""
    app_protocol: str = ""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Service object. `addresses` are its cluster addresses: given by us, or asked for by the user."""

    meta: Meta
    ports: tuple[KubeServicePort, ...]
    selector: tuple[tuple[str, str], ...] = ()
    addresses: tuple[str, ...] = ()
    is_headless: bool = False
    publishes_not_ready: bool = False


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True):
    meta: Meta
    data: tuple[tuple[str, str], ...] = ()
    binary_data: tuple[tuple[str, bytes], ...] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True):
    meta: Meta
    pod_cidrs: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
