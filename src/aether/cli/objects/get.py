"""`aether get`: lists of objects, one object, and their changes."""

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from aether.cli.client import ApiClient, open_world, path_of
from aether.cli.failure import WrongUsage
from aether.cli.format import Output
from aether.cli.objects.columns import columns_of
from aether.cli.output import console, escaped, print_data, print_line, print_table

DEFAULT_NAMESPACE = "default"
ALL = "all"
KINDS_OF_ALL = ("Pod", "Service", "Deployment")

KubeObject = dict[str, Any]


class KindInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    plural: str
    short: str
    is_namespaced: bool


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    items: tuple[KubeObject, ...]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    object: KubeObject | None = None


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects. `namespace` "" is every namespace; `name` "" is every name."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, kind: str, name: str | None, namespace: str | None, *, is_everywhere: bool = False) -> "Selection":
        """From a command's words. Raises WrongUsage where they contradict each other."""
        given, _, bare = (name or "").rpartition("/")
        if given and namespace and given != namespace:
            raise WrongUsage(f"{name!r} and -n {namespace} name two namespaces")
        if bare and is_everywhere:
            raise WrongUsage("a NAME and --all-namespaces exclude each other")
        where = "" if is_everywhere else given or namespace or DEFAULT_NAMESPACE
        return cls(kind=kind, namespace=where, name=bare)


def run_get(world: str | None, selection: Selection, output: Output, *, is_watching: bool) -> None:
    client = open_world(world)
    if selection.kind.lower() == ALL:
        for each in KINDS_OF_ALL:
            _print_list(client, msgspec.structs.replace(selection, kind=each), output)
        return
    kind = find_kind(client, selection.kind)
    if is_watching:
        with contextlib.suppress(KeyboardInterrupt):
            _print_changes(client, kind, selection, output)
    elif selection.name:
        found = get_object(client, kind, selection)
        _print_objects(kind.name, [found], output, has_namespace=False)
    else:
        _print_list(client, msgspec.structs.replace(selection, kind=kind.name), output)


def find_kind(client: ApiClient, text: str) -> KindInfo:
    """The kind called `text`. Raises WrongUsage."""
    kinds = client.get("/v1/kinds", reply=tuple[KindInfo, ...])
    for kind in kinds:
        if text.lower() in {kind.name.lower(), kind.plural, kind.short} - {""}:
            return kind
    raise WrongUsage(f"no kind {text!r}", advice=f"there are {', '.join(kind.plural for kind in kinds)}")


def get_object(client: ApiClient, kind: KindInfo, selection: Selection) -> KubeObject:
    namespace = selection.namespace if kind.is_namespaced else "-"
    return client.get(path_of("objects", kind.plural, namespace, selection.name), reply=KubeObject)


def _print_list(client: ApiClient, selection: Selection, output: Output) -> None:
    query = {"namespace": selection.namespace} if selection.namespace else {}
    kind = find_kind(client, selection.kind)
    path = path_of("objects", kind.plural)
    items = client.get(path, query=query if kind.is_namespaced else {}, reply=Listing).items
    has_namespace = kind.is_namespaced and not selection.namespace
    if items or output in {Output.JSON, Output.YAML}:
        _print_objects(kind.name, items, output, has_namespace=has_namespace)
        return
    elsewhere = len(client.get(path, reply=Listing).items)
    hint = f"; {elsewhere} in other namespaces: add -A, or -n NS" if elsewhere else ""
    where = f" in namespace {selection.namespace}" if selection.namespace and kind.is_namespaced else ""
    print_line(f"no {kind.plural}{where}{hint}", is_error=True)


def _print_objects(kind: str, items: Sequence[KubeObject], output: Output, *, has_namespace: bool) -> None:
    if output in {Output.JSON, Output.YAML}:
        print_data(items[0] if len(items) == 1 else {"kind": "List", "apiVersion": "v1", "items": items}, output)
        return
    columns = columns_of(kind, is_wide=output is Output.WIDE, has_namespace=has_namespace)
    rows = [tuple(escaped(cell(item)) for _, cell in columns) for item in items]
    print_table([title for title, _ in columns], rows)


def _print_changes(client: ApiClient, kind: KindInfo, selection: Selection, output: Output) -> None:
    """One line a change, columns as wide as what has been seen."""
    query = {"watch": "true"} | ({"namespace": selection.namespace} if selection.namespace else {})
    columns = columns_of(kind.name, is_wide=output is Output.WIDE, has_namespace=not selection.namespace)
    widths = [len(title) for title, _ in columns]
    is_table = output in {Output.TABLE, Output.WIDE}
    if is_table:
        console().print(
            "  ".join(title.ljust(width) for (title, _), width in zip(columns, widths, strict=True)).rstrip()
        )
    for line in client.stream(path_of("objects", kind.plural), query=query):
        event = msgspec.json.decode(line, type=Event)
        if event.object is None or (selection.name and event.object["metadata"]["name"] != selection.name):
            continue
        if not is_table:
            print_data(event, output)
            continue
        cells = [cell(event.object) for _, cell in columns]
        widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
        text = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print_line(f"{text}  (deleted)" if event.type == "DELETED" else text.rstrip())
