"""How a command line names a pod: ``NAME``, ``NS/NAME``, ``deploy/NAME``, ``NS/deploy/NAME``; or with ``-n NS``."""

import msgspec

from aether.cli.failure import WrongUsage

_KINDS = {
    "pod": "pod",
    "pods": "pod",
    "po": "pod",
    "deployment": "deployment",
    "deployments": "deployment",
    "deploy": "deployment",
    "service": "service",
    "services": "service",
    "svc": "service",
}


class PodReference(msgspec.Struct, frozen=True, kw_only=True):
    """`namespace` "" means whichever has it; `kind` "" means a pod, else a Deployment of that name."""

    namespace: str
    kind: str
    name: str

    def query(self) -> dict[str, str]:
        return {"namespace": self.namespace, "kind": self.kind, "pod": self.name}


def parse_pod(text: str, namespace: str | None = None) -> PodReference:
    """Raises WrongUsage for text that is none of the forms, or that names another namespace than ``-n``."""
    parts = text.split("/")
    if not all(parts) or len(parts) > 3:
        raise WrongUsage(f"{text!r} names no pod", advice="write NAME, NS/NAME, deploy/NAME or NS/deploy/NAME")
    *places, name = parts
    kind = _KINDS.get(places[-1], "") if places else ""
    if kind:
        places.pop()
    if len(places) > 1:
        raise WrongUsage(f"{text!r}: {places[-1]!r} is neither pod, deploy nor svc")
    if places and namespace and places[0] != namespace:
        raise WrongUsage(f"{text!r} and -n {namespace} name two namespaces")
    return PodReference(namespace=namespace or "".join(places), kind=kind, name=name)
