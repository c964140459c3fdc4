"""`aether apply`: manifests from files, directories or the standard input, to the world."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from aether.cli.client import ApiClient, open_world
from aether.cli.failure import WRONG_INPUT, WrongUsage
from aether.cli.format import Output
from aether.cli.output import console, escaped, print_data, print_line
from aether.errors import Diagnostic
from aether.model.world import ApplyReport, Manifest

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"


def run_apply(world: str | None, files: Iterable[str], output: Output) -> int:
    """The exit code: 2 if anything was wrong with the manifests; what was right is applied."""
    manifests = read_manifests(files)
    report = apply_manifests(open_world(world), manifests)
    if output in {Output.JSON, Output.YAML}:
        print_data(report, output)
    else:
        print_report(report)
    return WRONG_INPUT if report.diagnostics else 0


def apply_manifests(client: ApiClient, manifests: tuple[Manifest, ...]) -> ApplyReport:
    return client.call("POST", "/v1/apply", reply=ApplyReport, body=manifests)


def read_manifests(files: Iterable[str]) -> tuple[Manifest, ...]:
    """The texts, directories walked in the order of their paths.

    Raises:
        WrongUsage: a file or directory cannot be read, is not text, or has no manifest in it.
    """
    return tuple(manifest for file in files for manifest in _read(file))


def print_report(report: ApplyReport) -> None:
    """One object a line, as kubectl says it; what is wrong goes to stderr."""
    for applied in report.applied:
        place = f"{applied.namespace}/{applied.name}" if applied.namespace else applied.name
        print_line(f"{applied.kind.lower()} {place} {applied.action}")
    print_diagnostics(report.diagnostics)


def print_diagnostics(diagnostics: Iterable[Diagnostic]) -> None:
    stderr = console(is_error=True)
    for diagnostic in diagnostics:
        stderr.print(f"[bold red]error:[/] {escaped(diagnostic)} [dim]\\[{escaped(diagnostic.code)}][/]")


def _read(file: str) -> Iterator[Manifest]:
    if file == STDIN:
        yield Manifest(where="stdin", text=sys.stdin.read())
        return
    path = Path(file)
    if not path.is_dir():
        yield _manifest(path)
        return
    found = sorted(child for child in path.rglob("*") if child.suffix in SUFFIXES and child.is_file())
    if not found:
        raise WrongUsage(f"{file}: no manifest in it", advice=f"manifests end in {', '.join(SUFFIXES)}")
    for child in found:
        yield _manifest(child)


def _manifest(path: Path) -> Manifest:
    try:
        return Manifest(where=str(path), text=path.read_text())
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUsage(f"{path}: not UTF-8 text (byte {error.start})") from error
