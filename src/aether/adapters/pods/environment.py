"""What a container finds: its environment, its resolver, its files."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from aether.adapters.objects.kinds import ObjectKey
from aether.adapters.objects.store import ObjectStore
from aether.adapters.pods.launcher import Mount
from aether.adapters.pods.parts import RunnerSettings
from aether.errors import AetherError
from aether.model.kube import ConfigMap, Container, EnvVar, Pod, Volume, VolumeMount
from aether.model.kube_parse import parse_config_map

_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOST_NAME_BYTES = 63
_RESOLVERS_LIMIT = 3  # resolv.conf(5): MAXNS


class MissingConfig(AetherError):
    """A ConfigMap or a key of one that a container needs is not there (yet)."""

    code = "missing-config"


class PodPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a pod is: what its containers can be told of it. Addresses are primary first."""

    addresses: tuple[str, ...]
    node_addresses: tuple[str, ...]


class ConfigMaps:
    """The ConfigMaps of one namespace, as they are now."""

    def __init__(self, store: ObjectStore, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def get(self, name: str, *, is_optional: bool) -> ConfigMap | None:
        """The ConfigMap; None if it is not there and need not be.

        Raises:
            MissingConfig: it is not there.
        """
        live = self._store.get(ObjectKey("ConfigMap", self._namespace, name))
        if live is not None:
            return parse_config_map(live)
        if is_optional:
            return None
        raise MissingConfig(f'configmap "{name}" not found')


def host_name(pod: Pod) -> str:
    """The pod's own name, or what it asks for, as far as a host name can be that long."""
    return (pod.spec.hostname or pod.meta.name)[:_HOST_NAME_BYTES].rstrip("-.")


def container_env(container: Container, pod: Pod, place: PodPlace, maps: ConfigMaps) -> dict[str, str]:
    """The environment of a container: ours, then `envFrom`, then `env`, in which earlier variables can be named.

    Raises:
        MissingConfig: a ConfigMap or key is not there.
    """
    env = {
        "PATH": f"{Path(sys.executable).parent}:{_SYSTEM_PATH}",
        "HOME": os.environ.get("HOME", "/root"),
        "HOSTNAME": host_name(pod),
    }
    for source in container.env_from:
        found = maps.get(source.config_map, is_optional=source.is_optional)
        env |= {source.prefix + key: value for key, value in (found.data if found else ())}
    for variable in container.env:
        value = _value(variable, env, pod, place, maps)
        if value is not None:
            env[variable.name] = value
    return env


def expand(text: str, env: Mapping[str, str]) -> str:
    """`text` with ``$(NAME)`` replaced by the variable's value; unknown names stay, ``$$`` is a dollar."""
    parts = text.split("$")
    result = [parts[0]]
    position = 1
    while position < len(parts):
        part = parts[position]
        name, parenthesis, rest = part[1:].partition(")")
        if part == "" and position + 1 < len(parts):
            result.append("$" + parts[position + 1])
            position += 2
            continue
        if part.startswith("(") and parenthesis and name in env:
            result.append(env[name] + rest)
        else:
            result.append("$" + part)
        position += 1
    return "".join(result)


def _value(variable: EnvVar, env: Mapping[str, str], pod: Pod, place: PodPlace, maps: ConfigMaps) -> str | None:
    reference = variable.from_config_map
    if reference is not None:
        found = maps.get(reference.config_map, is_optional=reference.is_optional)
        data = dict(found.data) if found is not None else {}
        if reference.key not in data and not reference.is_optional:
            raise MissingConfig(f'configmap "{reference.config_map}" has no key "{reference.key}"')
        return data.get(reference.key)
    if variable.from_field:
        return _field(variable.from_field, pod, place)
    return expand(variable.value, env)


_FIELDS: Mapping[str, Callable[[Pod, PodPlace], str]] = {
    "metadata.name": lambda pod, _: pod.meta.name,
    "metadata.namespace": lambda pod, _: pod.meta.namespace,
    "metadata.uid": lambda pod, _: pod.meta.uid,
    "spec.nodeName": lambda pod, _: pod.spec.node,
    "spec.serviceAccountName": lambda pod, _: pod.spec.account,
    "status.hostIP": lambda _, place: ",".join(place.node_addresses[:1]),
    "status.hostIPs": lambda _, place: ",".join(place.node_addresses),
    "status.podIP": lambda _, place: ",".join(place.addresses[:1]),
    "status.podIPs": lambda _, place: ",".join(place.addresses),
}


def _field(path: str, pod: Pod, place: PodPlace) -> str:
    read = _FIELDS.get(path)
    if read is not None:
        return read(pod, place)
    entries = pod.meta.labels if path.startswith("metadata.labels[") else pod.meta.annotations
    key = path.partition("['")[2].removesuffix("']")
    return dict(entries).get(key, "")


class PodFiles:
    """A pod's directory: `etc`, `volumes`, `staging`. Every method blocks for as long as a disk does."""

    def __init__(self, settings: RunnerSettings, pod: Pod) -> None:
        self._settings = settings
        self._pod = pod
        self.directory = settings.directory / pod.meta.uid

    def staging(self, container: str) -> str:
        return str(self.directory / "staging" / container)

    def log(self, container: str) -> Path:
        return self.directory / f"{container}.log"

    def make(self, place: PodPlace, maps: ConfigMaps) -> None:
        """Everything the containers will find. May be repeated; files whose content is right are left alone.

        Raises:
            MissingConfig: a volume's ConfigMap, or a key of it, is not there.
        """
        empty = {volume.name for volume in self._pod.spec.volumes if not volume.config_map}
        for container in (*self._pod.spec.init_containers, *self._pod.spec.containers):
            Path(self.staging(container.name)).mkdir(parents=True, exist_ok=True)
            for mount in container.mounts:
                if mount.volume in empty:
                    self._source(mount).mkdir(parents=True, exist_ok=True)
        etc = self.directory / "etc"
        etc.mkdir(exist_ok=True)
        _write(etc / "hosts", _hosts(self._pod, place, self._settings).encode(), 0o644)
        if self._pod.spec.dns_policy != "Default":
            _write(etc / "resolv.conf", _resolv_conf(self._pod, self._settings).encode(), 0o644)
        for volume in self._pod.spec.volumes:
            directory = self.directory / "volumes" / volume.name
            directory.mkdir(parents=True, exist_ok=True)
            if volume.config_map:
                _fill(directory, _contents(volume, maps), volume.mode)
            else:
                directory.chmod(0o777)  # as a kubelet has it: containers may run as any user

    def _source(self, mount: VolumeMount) -> Path:
        return self.directory / "volumes" / mount.volume / mount.sub_path

    def mounts(self, container: Container) -> tuple[Mount, ...]:
        etc = [path for path in (self.directory / "etc" / name for name in ("hosts", "resolv.conf")) if path.exists()]
        volumes = {volume.name: volume for volume in self._pod.spec.volumes}
        return (
            *(Mount(source=str(path), target=f"/etc/{path.name}", is_read_only=False) for path in etc),
            *(
                Mount(
                    source=str(self._source(mount)),
                    target=mount.path,
                    is_read_only=mount.is_read_only or bool(volumes[mount.volume].config_map),
                )
                for mount in container.mounts
            ),
        )


def _contents(volume: Volume, maps: ConfigMaps) -> dict[str, bytes]:
    found = maps.get(volume.config_map, is_optional=volume.is_optional)
    if found is None:
        return {}
    data = {key: text.encode() for key, text in found.data} | dict(found.binary_data)
    if not volume.items:
        return data
    missing = [key for key, _ in volume.items if key not in data]
    if missing and not volume.is_optional:
        raise MissingConfig(f'configmap "{volume.config_map}" has no key "{missing[0]}"')
    return {path: data[key] for key, path in volume.items if key in data}


def _fill(directory: Path, contents: Mapping[str, bytes], mode: int) -> None:
    """Make the files of a directory these, each replaced at once."""
    for name, content in contents.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content, mode)
    wanted = {directory / name for name in contents}
    for path in _files_below(directory):
        if path not in wanted:
            path.unlink()


def _files_below(directory: Path) -> Iterable[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def _write(path: Path, content: bytes, mode: int) -> None:
    if path.exists() and path.read_bytes() == content:
        return
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(content)
    temporary.chmod(mode)
    temporary.replace(path)


def _resolv_conf(pod: Pod, settings: RunnerSettings) -> str:
    """As a kubelet writes it for ClusterFirst: the cluster's resolver and search list, `ndots:5`."""
    domain = settings.cluster_domain
    search = f"{pod.meta.namespace}.svc.{domain} svc.{domain} {domain}"
    servers = "".join(f"nameserver {address}\n" for address in settings.nameservers[:_RESOLVERS_LIMIT])
    return f"{servers}search {search}\noptions ndots:5\n"


def _hosts(pod: Pod, place: PodPlace, settings: RunnerSettings) -> str:
    name = host_name(pod)
    names = name
    if pod.spec.subdomain:
        names = f"{name}.{pod.spec.subdomain}.{pod.meta.namespace}.svc.{settings.cluster_domain} {name}"
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [f"{address} {names}" for address in place.addresses]
    lines += [f"{address} {' '.join(aliases)}" for address, aliases in pod.spec.host_aliases]
    return "\n".join(lines) + "\n"
