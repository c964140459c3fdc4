"""Apply manifests to the store: every good document, in an order in which it can be; the rest is said to be wrong."""

from collections.abc import Iterable, Sequence

from aether.adapters.objects.kinds import KubeObject, key_of
from aether.adapters.objects.manifests import plan_apply
from aether.adapters.objects.store import USER, Applied, ObjectStore
from aether.errors import AetherError, Diagnostic, Rejected
from aether.model.world import AppliedObject, ApplyReport, Manifest


async def apply_manifests(
    manifests: Sequence[Manifest], objects: ObjectStore, *, ignored: Iterable[str] = ()
) -> ApplyReport:
    """Never raises for bad input. Pods of `ignored` namespaces declare nothing."""
    plan = plan_apply(manifests, objects, ignored=ignored)
    outcomes = await objects.apply_all(plan.objects, USER)
    pairs = list(zip(plan.objects, outcomes, strict=True))
    refused = [problem for object_, outcome in pairs for problem in _problems(object_, outcome)]
    return ApplyReport(
        applied=tuple(_applied(object_, outcome) for object_, outcome in pairs if isinstance(outcome, Applied)),
        diagnostics=(*plan.errors, *refused),
        warnings=plan.warnings,
    )


def _applied(object_: KubeObject, action: Applied) -> AppliedObject:
    key = key_of(object_)
    return AppliedObject(kind=key.kind, namespace=key.namespace, name=key.name, action=action)


def _problems(object_: KubeObject, outcome: Applied | AetherError) -> Sequence[Diagnostic]:
    match outcome:
        case Applied():
            return ()
        case Rejected():
            return outcome.diagnostics
        case _:
            return (Diagnostic(code=outcome.code, message=str(outcome), subject=str(key_of(object_))),)
