"""Workload identities (SPIFFE ID, sections 2 and 3; spec section 5)."""

import msgspec

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
