"""`aether apply`: manifests from files, directories or the standard input, to the world."""

import sys
from collections.abc import Iterable
from pathlib import Path

from aether.adapters.objects import manifests
from aether.cli.client import ApiClient, open_world
from aether.cli.failure import WRONG_INPUT
from aether.cli.format import Output
from aether.cli.output import console, escaped, print_data, print_line
from aether.model.world import ApplyReport, Manifest

STDIN = "-"


def run_apply(world: str | None, files: Iterable[str], output: Output) -> int:
    """The exit code: 2 if anything was wrong with the manifests; what was right is applied."""
    texts = read_manifests(files)
    report = apply_manifests(open_world(world), texts)
    if output in {Output.JSON, Output.YAML}:
        print_data(report, output)
    else:
        print_report(report)
    return WRONG_INPUT if report.diagnostics else 0


def apply_manifests(client: ApiClient, texts: tuple[Manifest, ...]) -> ApplyReport:
    return client.call("POST", "/v1/apply", reply=ApplyReport, body=texts)


def read_manifests(files: Iterable[str]) -> tuple[Manifest, ...]:
    """The texts of files, of the manifests directly in directories, and of stdin. Raises NoManifests."""
    return tuple(manifest for file in files for manifest in _read(file))


def _read(file: str) -> tuple[Manifest, ...]:
    if file == STDIN:
        return (Manifest(where="stdin", text=sys.stdin.read()),)
    return manifests.read_manifests((Path(file),))


def print_report(report: ApplyReport) -> None:
    """One object a line, as kubectl says it; what is wrong goes to stderr."""
    for applied in report.applied:
        place = f"{applied.namespace}/{applied.name}" if applied.namespace else applied.name
        print_line(f"{applied.kind.lower()} {place} {applied.action}")
    print_diagnostics(report)


def print_diagnostics(report: ApplyReport) -> None:
    """Warnings, then errors, on stderr, each with its code."""
    stderr = console(is_error=True)
    for word, diagnostics in (("[yellow]warning:[/]", report.warnings), ("[bold red]error:[/]", report.diagnostics)):
        for diagnostic in diagnostics:
            stderr.print(f"{word} {escaped(diagnostic)} [dim]({escaped(diagnostic.code)})[/]")
