"""`aether delete`: objects by name, or those that manifests name."""

from collections.abc import Iterable, Sequence

import msgspec
import yaml

from aether.cli.client import ApiClient, open_world, path_of
from aether.cli.failure import ApiRefusal, WrongUsage
from aether.cli.objects.apply import read_manifests
from aether.cli.objects.get import Selection, find_kind
from aether.cli.output import print_error, print_line


class Deletion(msgspec.Struct, frozen=True):
    deleted: str


def run_delete(world: str | None, selections: Sequence[Selection], *, grace_s: int | None) -> int:
    """The exit code: 1 if something was not there; the rest is deleted all the same."""
    client = open_world(world)
    code = 0
    for selection in selections:
        try:
            _delete(client, selection, grace_s)
        except ApiRefusal as error:
            if error.problem_code != "not-found":
                raise
            code = print_error(error)
    return code


def select(kind: str | None, names: Sequence[str], files: Sequence[str], namespace: str | None) -> Sequence[Selection]:
    """What a command's words mean. Raises WrongUsage for neither names nor files, or both."""
    if bool(files) == bool(kind):
        raise WrongUsage("say what: `delete KIND NAME…` or `delete -f FILE`")
    if kind and not names:
        raise WrongUsage(f"which {kind}?", advice="give at least one NAME")
    return [Selection.of(kind, name, namespace) for name in names] if kind else list(_named_in(files, namespace))


def _delete(client: ApiClient, selection: Selection, grace_s: int | None) -> None:
    kind = find_kind(client, selection.kind)
    path = path_of("objects", kind.plural, selection.namespace if kind.is_namespaced else "-", selection.name)
    query = {} if grace_s is None else {"grace_s": str(grace_s)}
    deletion = client.call("DELETE", path, query=query, reply=Deletion)
    print_line(f"{deletion.deleted} deleted")


def _named_in(files: Iterable[str], namespace: str | None) -> Iterable[Selection]:
    """What the manifests name, last first: what names others goes before what it names."""
    selections = []
    for manifest in read_manifests(files):
        try:
            documents = [document for document in yaml.safe_load_all(manifest.text) if document]
            selections += [_selection(document, namespace) for document in documents]
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            raise WrongUsage(f"{manifest.where}: not a manifest: {error}") from error
    return reversed(selections)


def _selection(document: dict[str, dict[str, str]], namespace: str | None) -> Selection:
    metadata = document["metadata"]
    return Selection.of(str(document["kind"]), metadata["name"], metadata.get("namespace") or namespace)
