"""The names of clusters and of their statistics (spec sections 5 and 11).

A cluster's name says all that is needed to answer for it, since proxies ask for clusters by name: `parse_cluster` is
the inverse of the functions that make names.
"""

import msgspec

from aether.model.names import Domains, FullName, ServiceId, mesh_name, parse_name
from aether.model.ports import parse_port_number

_RAW = "tcp|"
_POD = "pod|"
_OWN = "own|"


class HttpClusterName(msgspec.Struct, frozen=True, tag=True):
    """A port of a service, by the number a client dials."""

    service: ServiceId
    number: int


class OwnClusterName(msgspec.Struct, frozen=True, tag=True):
    """A pods' port of a user-owned service whose Service maps the same number elsewhere (rulings C.4)."""

    service: ServiceId
    number: int


class PodClusterName(msgspec.Struct, frozen=True, tag=True):
    """A pod's address and the port that HTTP dialled there, whether or not the pod declares it (rulings B.4)."""

    address: str
    number: int


class RawClusterName(msgspec.Struct, frozen=True, tag=True):
    """A dialled address and port (rulings D.4)."""

    address: str
    number: int


ClusterName = HttpClusterName | OwnClusterName | PodClusterName | RawClusterName


def http_cluster(service: ServiceId, number: int, domains: Domains) -> str:
    """``cart.shop.aether.internal:8080``"""
    return f"{mesh_name(service, domains)}:{number}"


def own_cluster(service: ServiceId, number: int, domains: Domains) -> str:
    """``own|cart.shop.aether.internal:8080``"""
    return f"{_OWN}{mesh_name(service, domains)}:{number}"


def pod_cluster(address: str, number: int) -> str:
    """``pod|10.244.1.2:8080``"""
    return _POD + _spell_dial(address, number)


def raw_cluster(address: str, number: int) -> str:
    """``tcp|10.96.0.5:9000``, ``tcp|[fd96::5]:9000``"""
    return _RAW + _spell_dial(address, number)


def _spell_dial(address: str, number: int) -> str:
    """As Envoy prints a connection's local address."""
    return f"[{address}]:{number}" if ":" in address else f"{address}:{number}"


def parse_cluster(name: str, domains: Domains) -> ClusterName | None:
    """What a cluster's name stands for; None for a name that no function here makes."""
    head, _, digits = name.rpartition(":")
    number = parse_port_number(digits)
    if number is None:
        return None
    if head.startswith(_RAW):
        address = _parse_address(head.removeprefix(_RAW))
        return None if address is None else RawClusterName(address, number)
    if head.startswith(_POD):
        address = _parse_address(head.removeprefix(_POD))
        return None if address is None else PodClusterName(address, number)
    if head.startswith(_OWN):
        service = _parse_service(head.removeprefix(_OWN), domains)
        return None if service is None else OwnClusterName(service, number)
    service = _parse_service(head, domains)
    return None if service is None else HttpClusterName(service, number)


def _parse_service(text: str, domains: Domains) -> ServiceId | None:
    name = parse_name(text, domains)
    return name.service if isinstance(name, FullName) and name.is_mesh_name else None


def _parse_address(text: str) -> str | None:
    if text.startswith("[") and text.endswith("]") and ":" in text:
        return text[1:-1]
    return text if text and ":" not in text and "[" not in text else None


def http_stat_key(service: ServiceId) -> str:
    return f"{service.namespace}/{service.name}"


def raw_stat_key(service: ServiceId, number: int) -> str:
    return f"tcp_{service.namespace}/{service.name}_{number}"
