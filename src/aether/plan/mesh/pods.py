"""The node's own pods: which of them the mesh serves, and what each declares (spec section 2, rulings A).

Rule: a managed pod whose declaration is refused stays captured (fail closed), serves nothing and is not registered.
"""

from collections.abc import Iterable

import msgspec

from aether.errors import Diagnostic, Rejected
from aether.model.annotations import Declaration, is_managed, parse_declaration, validate_account
from aether.model.facts import LocalPod, NodeFacts
from aether.model.names import ServiceId

REFUSED = Declaration(ports=())
"""What a pod is taken to declare whose annotations cannot be read: nothing served, everything captured."""


class DeclaredPod(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A managed pod of this node with its declaration. `problems` are why it is not served: then it declares none."""

    pod: LocalPod
    declaration: Declaration
    problems: tuple[Diagnostic, ...] = ()

    @property
    def service(self) -> ServiceId:
        return ServiceId(self.pod.namespace, self.pod.account)


def declared_pods(facts: NodeFacts) -> tuple[DeclaredPod, ...]:
    """The pods of this node that are in the mesh, sorted: not of an ignored namespace, not unmanaged."""
    ignored = frozenset(facts.config.ignored_namespaces)
    return tuple(
        _declare(pod, node=facts.node)
        for pod in sorted(facts.pods)
        if pod.namespace not in ignored and is_managed(dict(pod.annotations))
    )


def _declare(pod: LocalPod, *, node: str) -> DeclaredPod:
    problems: list[Diagnostic] = []
    declaration = REFUSED
    try:
        declaration = parse_declaration(dict(pod.annotations), namespace=pod.namespace, pod=pod.name)
    except Rejected as error:
        problems += error.diagnostics
    try:
        validate_account(namespace=pod.namespace, account=pod.account, pod=pod.name)
    except Rejected as error:
        problems += error.diagnostics
    if not pod.addresses:
        problems.append(
            Diagnostic(code="no-address", message="the pod has no address", subject=f"Pod {pod.namespace}/{pod.name}")
        )
    if not problems:
        return DeclaredPod(pod=pod, declaration=declaration)
    return DeclaredPod(pod=pod, declaration=REFUSED, problems=_placed(problems, node))


def _placed(problems: Iterable[Diagnostic], node: str) -> tuple[Diagnostic, ...]:
    return tuple(sorted(msgspec.structs.replace(problem, where=node) for problem in problems))
