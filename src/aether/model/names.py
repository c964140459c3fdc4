"""Names of services: the three families, parsed and formatted (spec sections 1 and 3)."""

import re

import msgspec


class ServiceId(msgspec.Struct, frozen=True, order=True, gc=False):
    """A service: every pod that runs under one ServiceAccount."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Domains(msgspec.Struct, frozen=True, kw_only=True):
    """The two domains a full name may end in."""

    mesh: str = "aether.internal"
    cluster: str = "cluster.local"


def mesh_name(service: ServiceId, domains: Domains) -> str:
    """``cart.shop.aether.internal``."""
    return f"{service.name}.{service.namespace}.{domains.mesh}"


def kubernetes_names(service: ServiceId, domains: Domains) -> tuple[str, str, str]:
    """The Kubernetes names, longest first."""
    short = f"{service.name}.{service.namespace}"
    return (f"{short}.svc.{domains.cluster}", f"{short}.svc", short)


class Authority(msgspec.Struct, frozen=True):
    """What a Host header or :authority names: the host in lower case without a trailing dot, and the port's text.

    `port` is None when no port is spelled; the text is not judged (it may be empty, or no number).
    """

    host: str
    port: str | None


class FullName(msgspec.Struct, frozen=True):
    """A name with a namespace. `is_mesh_name` tells the mesh name from the Kubernetes names."""

    service: ServiceId
    is_mesh_name: bool


class ShortName(msgspec.Struct, frozen=True):
    """A name without a namespace: it means the caller's."""

    name: str


_LABEL = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE_LABEL = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


def is_label(text: str) -> bool:
    """Whether `text` is an RFC 1123 label: what a namespace is called."""
    return _LABEL.fullmatch(text) is not None


def is_service_label(text: str) -> bool:
    """Whether `text` is an RFC 1035 label of at most 63 bytes: what a service may be called (rulings A.3)."""
    return _SERVICE_LABEL.fullmatch(text) is not None


def parse_authority(text: str) -> Authority:
    """Split an authority; never fails. Text with two ports keeps them in its host, which then names nothing.

    One trailing dot goes: the last character's, else the one before the port, as proxies on the way drop it.
    """
    if not text.isascii():
        return Authority(text, None)  # lower case would make letters of what are none
    text = _without_dot(text.lower())
    host, colon, port = text.rpartition(":")
    if not colon or "]" in port:
        return Authority(text, None)
    if ":" in host and not host.startswith("["):
        return Authority(text, None)
    return Authority(host, port)


def _without_dot(text: str) -> str:
    head, _, tail = text.rpartition(".")
    return head + tail if not tail or tail.startswith(":") else text


def spelled_host(text: str) -> str:
    """The host of an authority as its client spelled it: case kept, without port and trailing dot."""
    return _without_dot(text)[: len(parse_authority(text).host)]


def parse_name(host: str, domains: Domains) -> FullName | ShortName | None:
    """What a host (of `parse_authority`) names by its spelling alone; None for what cannot be a service's name."""
    for suffix, is_mesh_name in ((f".{domains.mesh}", True), (f".svc.{domains.cluster}", False), (".svc", False)):
        if host.endswith(suffix) and (service := _parse_pair(host.removesuffix(suffix))) is not None:
            return FullName(service, is_mesh_name)
    if (service := _parse_pair(host)) is not None:
        return FullName(service, is_mesh_name=False)
    return ShortName(host) if is_service_label(host) else None


def _parse_pair(text: str) -> ServiceId | None:
    """``<svc>.<ns>``"""
    name, _, namespace = text.partition(".")
    return ServiceId(namespace, name) if is_service_label(name) and is_label(namespace) else None
