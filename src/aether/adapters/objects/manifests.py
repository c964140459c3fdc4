"""Manifests to objects that can be applied, with everything that is wrong about the others.

Rule: a bad document never keeps a good one from being applied.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from aether.adapters.objects.documents import Document, parse_documents
from aether.adapters.objects.kinds import (
    APPLY_ORDER,
    DEFAULT_NAMESPACE,
    KINDS,
    KubeObject,
    ObjectKey,
    is_terminating,
    key_of,
)
from aether.adapters.objects.store import ObjectStore
from aether.errors import AetherError, Diagnostic, Rejected
from aether.model.annotations import is_managed, parse_declaration, validate_account
from aether.model.kube import GENERATED_LABEL
from aether.model.kube_fields import SUBDOMAIN_BYTES, WARNING_CODES
from aether.model.kube_parse import inspect, template_of
from aether.model.world import Manifest

SUFFIXES = (".yaml", ".yml", ".json")
"""What a file of manifests is called; other files of a directory are left alone."""

DEFAULT_ACCOUNT = "default"
"""The ServiceAccount that every namespace has."""

_NOT_APPLIED = frozenset({"Node"})
_APPLIED_KINDS = tuple(kind for kind in KINDS if kind not in _NOT_APPLIED)


class NoManifests(AetherError):
    code = "no-manifests"


class ApplyPlan(msgspec.Struct, frozen=True, kw_only=True):
    """`objects` can be applied, in this order. `errors` say why others cannot, `warnings` what will be ignored."""

    objects: tuple[KubeObject, ...]
    errors: tuple[Diagnostic, ...]
    warnings: tuple[Diagnostic, ...]


class _Loaded(msgspec.Struct, frozen=True, kw_only=True):
    where: str
    key: ObjectKey
    object: KubeObject


def read_manifests(paths: Iterable[Path]) -> tuple[Manifest, ...]:
    """The texts of files, and of the manifests directly in directories, by name.

    Raises:
        NoManifests: a path does not exist or cannot be read, or a directory has none.
    """
    return tuple(manifest for path in paths for manifest in _read_path(path))


def plan_apply(manifests: Sequence[Manifest], store: ObjectStore, *, ignored: Iterable[str] = ()) -> ApplyPlan:
    """What of the manifests can be applied to the store as it is now. Pods of `ignored` namespaces declare nothing."""
    diagnostics: list[Diagnostic] = []
    loaded: dict[ObjectKey, _Loaded] = {}
    for manifest in manifests:
        parsed = parse_documents(manifest.where, manifest.text)
        diagnostics += parsed.problems
        for document in parsed.documents:
            for candidate in _candidates(document, diagnostics):
                _take(candidate, loaded, diagnostics, ignored=frozenset(ignored))
    known = _Known(store, loaded)
    good: list[_Loaded] = []
    for one in loaded.values():
        found = known.missing(one)
        diagnostics += [msgspec.structs.replace(problem, where=one.where, subject=str(one.key)) for problem in found]
        if not found:
            good.append(one)
    good.sort(key=lambda one: APPLY_ORDER[one.key.kind])
    return ApplyPlan(
        objects=tuple(one.object for one in good),
        errors=tuple(problem for problem in diagnostics if problem.code not in WARNING_CODES),
        warnings=tuple(problem for problem in diagnostics if problem.code in WARNING_CODES),
    )


def _read_path(path: Path) -> Iterator[Manifest]:
    try:
        if not path.is_dir():
            yield Manifest(where=str(path), text=path.read_text(encoding="utf-8"))
            return
        found = sorted(child for child in path.iterdir() if child.suffix in SUFFIXES and child.is_file())
        if not found:
            raise NoManifests(f"{path}: no file that ends in {', '.join(SUFFIXES)}")
        for child in found:
            yield Manifest(where=str(child), text=child.read_text(encoding="utf-8"))
    except OSError as error:
        raise NoManifests(f"{error.filename or path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise NoManifests(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def _candidates(document: Document, diagnostics: list[Diagnostic]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """(where, object) of a document: itself, or the items of a List."""
    where = f"{document.where}:{document.line}"
    value = document.value
    if not isinstance(value, Mapping):
        diagnostics.append(Diagnostic(code="bad-object", message="a manifest must be an object", where=where))
        return
    if value.get("kind") != "List":
        yield where, value
        return
    items = value.get("items")
    for position, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            yield where, item
        else:
            field = f"items[{position}]"
            diagnostics.append(
                Diagnostic(code="bad-object", message="must be an object", where=where, subject="List", field=field)
            )


def _take(
    candidate: tuple[str, Mapping[str, object]],
    loaded: dict[ObjectKey, _Loaded],
    diagnostics: list[Diagnostic],
    *,
    ignored: frozenset[str],
) -> None:
    """Put an object that is good by itself among the loaded ones."""
    where, value = candidate
    subject = _subject(value)
    problems = _kind_problems(value) or [*inspect(str(value["kind"]), value), *_mesh_problems(value, ignored)]
    diagnostics += [msgspec.structs.replace(problem, where=where, subject=subject) for problem in problems]
    if any(problem.code not in WARNING_CODES for problem in problems):
        return
    object_ = _with_namespace(value)
    key = key_of(object_)
    if key in loaded:
        message = f"it is already in {loaded[key].where}"
        diagnostics.append(Diagnostic(code="duplicate", message=message, where=where, subject=str(key)))
        return
    loaded[key] = _Loaded(where=where, key=key, object=object_)


def _kind_problems(value: Mapping[str, object]) -> Sequence[Diagnostic]:
    """What is wrong about kind, version and labels: then nothing else is looked at."""
    name = value.get("kind")
    if not name:
        return (Diagnostic(code="missing-field", message="is missing", field="kind"),)
    kind = KINDS.get(name) if isinstance(name, str) and name not in _NOT_APPLIED else None
    if kind is None:
        message = f"{str(name)[:80]!r} is not known here; known are {', '.join(_APPLIED_KINDS)}, List"
        return (Diagnostic(code="unknown-kind", message=message, field="kind", item=str(name)[:300]),)
    version = value.get("apiVersion")
    if version != kind.api_version:
        text = str(version)[:80]
        message = f"{text!r} must be {kind.api_version!r} for a {kind.name}" if version else "is missing"
        return (Diagnostic(code="bad-version", message=message, field="apiVersion", item=text if version else ""),)
    metadata = value.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if isinstance(labels, Mapping) and GENERATED_LABEL in labels:
        message = f"label {GENERATED_LABEL!r} is the mesh's own"
        return (Diagnostic(code="reserved-label", message=message, field="metadata.labels", item=GENERATED_LABEL),)
    return ()


def _subject(value: Mapping[str, object]) -> str:
    """``Pod shop/cart``, as far as it is known."""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = KINDS.get(str(value.get("kind")))
    name = str(metadata.get("name") or "")
    name = name if len(name) <= SUBDOMAIN_BYTES else f"{name[:60]}..."
    if kind is not None and kind.is_namespaced:
        name = f"{str(metadata.get('namespace') or DEFAULT_NAMESPACE)[:80]}/{name}"
    return f"{str(value.get('kind') or 'object')[:80]} {name}".rstrip(" ")


def _with_namespace(value: Mapping[str, object]) -> KubeObject:
    metadata = value["metadata"]
    assert isinstance(metadata, Mapping)
    is_namespaced = KINDS[str(value["kind"])].is_namespaced
    namespace = {"namespace": metadata.get("namespace") or DEFAULT_NAMESPACE} if is_namespaced else {}
    rest = {name: content for name, content in metadata.items() if name != "namespace"}
    return {**value, "metadata": {**rest, **namespace}}


class _Known:
    """What objects may name: what the store has, and what is applied with them."""

    def __init__(self, store: ObjectStore, loaded: Container[ObjectKey]) -> None:
        self._store = store
        self._loaded = loaded

    def missing(self, one: _Loaded) -> tuple[Diagnostic, ...]:
        """What the object names and nobody has."""
        key = one.key
        if key.namespace and not self._has(ObjectKey("Namespace", "", key.namespace)):
            message = f"namespace {key.namespace!r} does not exist: add a Namespace to the manifests"
            field = "metadata.namespace"
            return (Diagnostic(code="unknown-namespace", message=message, field=field, item=key.namespace),)
        found = template_of(key.kind, one.object)
        if found is None:
            return ()
        prefix, template = found
        account = template.spec.account
        if account == DEFAULT_ACCOUNT or self._has(ObjectKey("ServiceAccount", key.namespace, account)):
            return ()
        message = f"ServiceAccount {account!r} does not exist in namespace {key.namespace!r}: add it to the manifests"
        field = f"{prefix}spec.serviceAccountName"
        return (Diagnostic(code="unknown-account", message=message, field=field, item=account),)

    def _has(self, key: ObjectKey) -> bool:
        live = self._store.get(key)
        return key in self._loaded or (live is not None and not is_terminating(live))


def _mesh_problems(value: Mapping[str, object], ignored: frozenset[str]) -> Iterator[Diagnostic]:
    """What is wrong about what a pod, or a template's pods, declare to the mesh."""
    found = template_of(str(value["kind"]), value)
    metadata = value.get("metadata")
    if found is None or not isinstance(metadata, Mapping):
        return
    prefix, template = found
    annotations = dict(template.annotations)
    namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE)
    if namespace in ignored or not is_managed(annotations):
        return
    pod = str(metadata.get("name"))
    for check in (
        lambda: parse_declaration(annotations, namespace=namespace, pod=pod),
        lambda: validate_account(namespace=namespace, account=template.spec.account, pod=pod),
    ):
        try:
            check()
        except Rejected as rejected:
            for problem in rejected.diagnostics:
                yield msgspec.structs.replace(problem, field=prefix + problem.field)
