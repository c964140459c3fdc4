from aether.adapters.clock import ManualClock
from aether.adapters.objects.kinds import KubeObject
from aether.adapters.objects.memory import MemoryStore
from aether.api.apply import apply_manifests
from aether.errors import Diagnostic, Rejected
from aether.model.world import Manifest

TEXT = """
apiVersion: v1
kind: ConfigMap
metadata: {name: denied, namespace: one}
---
apiVersion: v1
kind: Namespace
metadata: {name: one}
"""


def deny(object_: KubeObject, _: KubeObject | None) -> KubeObject:
    if object_["metadata"]["name"] == "denied":
        raise Rejected([Diagnostic(code="no", message="not this one", subject="ConfigMap one/denied")])
    return object_


async def test_what_names_others_comes_after_them_and_what_an_admission_refuses_is_reported() -> None:
    store = MemoryStore(clock=ManualClock(), admissions=(deny,))
    await store.load()
    report = await apply_manifests((Manifest(where="a.yaml", text=TEXT),), store)
    assert [(applied.kind, applied.action) for applied in report.applied] == [("Namespace", "created")]
    assert [problem.code for problem in report.diagnostics] == ["no"]


async def test_an_object_that_the_store_refuses_is_a_diagnostic_with_the_store_s_code() -> None:
    store = MemoryStore(clock=ManualClock())
    await store.load()
    text = TEXT.replace("metadata: {name: denied", 'metadata: {resourceVersion: "7", name: denied')
    report = await apply_manifests((Manifest(where="a.yaml", text=text),), store)
    assert [(problem.code, problem.subject) for problem in report.diagnostics] == [("conflict", "ConfigMap one/denied")]
