"""Workload identities (SPIFFE ID, sections 2 and 3; spec section 5)."""

import re

import msgspec

from aether.errors import AetherError
from aether.model.names import ServiceId


class WorkloadIdentity(msgspec.Struct, frozen=True, order=True):
    """Who a workload is: a trust domain, a namespace and a ServiceAccount."""

    trust_domain: str
    namespace: str
    account: str

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}/ns/{self.namespace}/sa/{self.account}"


def identity_of(service: ServiceId, trust_domain: str) -> WorkloadIdentity:
    return WorkloadIdentity(trust_domain, service.namespace, service.name)


def agent_identity(trust_domain: str) -> WorkloadIdentity:
    """The node agent's own identity: what readiness probes dial with (rulings E.1)."""
    return WorkloadIdentity(trust_domain, "aether-system", "agent")


class BadIdentity(AetherError):
    """A SPIFFE ID that does not name a workload of a mesh."""

    code = "bad-identity"

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:256]!r} is not spiffe://<trust domain>/ns/<namespace>/sa/<account>")
        self.text = text


_SPIFFE_ID = re.compile("spiffe://([a-z0-9._-]{1,255})/ns/([a-z0-9-]{1,63})/sa/([a-z0-9.-]{1,253})")


def parse_spiffe(text: str) -> WorkloadIdentity:
    """The inverse of `str` on an identity. Raises BadIdentity for anything else."""
    match = _SPIFFE_ID.fullmatch(text)
    if match is None:
        raise BadIdentity(text)
    return WorkloadIdentity(*match.groups())


def outbound_secret(service: ServiceId) -> str:
    """The name of the certificate a caller presents: one per identity on a node (rulings E.1)."""
    return f"out/{service.namespace}/{service.name}"


def inbound_secret(namespace: str, pod: str) -> str:
    """The name of the certificate a pod's inbound presents. Never equal to an outbound one (architecture, 21)."""
    return f"in/{namespace}/{pod}"
