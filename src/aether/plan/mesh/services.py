"""The service view: one service as everybody sees it (spec sections 1 to 3, rulings A.2, B.1, C.4)."""

import msgspec

from aether.model.names import ServiceId
from aether.model.ports import PortClass


class ServicePort(msgspec.Struct, frozen=True, order=True):
    """A port a client can dial: `number` is the Service's, `target` the pods' (equal unless a user Service maps it)."""

    number: int
    port_class: PortClass
    target: int


class ServiceView(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One service. Every table, cluster, set and status is built from this value.

    `declared` are the pods' own ports by class vote; `ports` what a client of the Service sees: the same for a generated
    Service, the port map's image for a user-owned one. `addresses` are Service addresses (empty: headless or none yet).
    `pod_addresses` are those of its registered pods, sorted.
    """

    service: ServiceId
    ports: tuple[ServicePort, ...]
    declared: tuple[ServicePort, ...]
    addresses: tuple[str, ...] = ()
    pod_addresses: tuple[str, ...] = ()
    is_user_owned: bool = False
    is_headless: bool = False
