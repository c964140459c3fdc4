"""Names of services: the three families, parsed and formatted (spec sections 1 and 3)."""

import msgspec


class ServiceId(msgspec.Struct, frozen=True, order=True):
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
