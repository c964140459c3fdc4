"""How answers are printed: tables, JSON, YAML; colours only on a terminal."""

import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from aether.cli.failure import ApiRefusal, CliError, exit_code_of
from aether.cli.format import Output
from aether.errors import AetherError, Rejected
from aether.model.world import CheckVerdict

MARKS: Mapping[CheckVerdict, str] = {
    CheckVerdict.OK: "[green]✓[/]",
    CheckVerdict.WARNING: "[yellow]![/]",
    CheckVerdict.FAILED: "[red]\N{MULTIPLICATION SIGN}[/]",
}

_UNBOUNDED_COLUMNS = 10_000


def console(*, is_error: bool = False) -> Console:
    """A console on stdout or stderr. Where that is no terminal: no colours, and lines are never wrapped or cut."""
    stream = sys.stderr if is_error else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=True, width=None if stream.isatty() else _UNBOUNDED_COLUMNS)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Left-aligned columns, one row a line. Cells may carry Rich markup; escape what users wrote."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_data(value: object, output: Output) -> None:
    """`value` (a struct or JSON data) as JSON or YAML."""
    if output is Output.YAML:
        sys.stdout.write(yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True))
    else:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_line(text: str = "", *, is_error: bool = False) -> None:
    """One line, printed as it is."""
    console(is_error=is_error).print(text, markup=False)


def escaped(text: object) -> str:
    """`text` with nothing in it that Rich takes for markup."""
    return escape(str(text))


def print_error(error: AetherError) -> int:
    """Say what went wrong on stderr, one diagnostic a line, and what to do next; returns the exit code."""
    stderr = console(is_error=True)
    diagnostics = error.diagnostics if isinstance(error, ApiRefusal | Rejected) else ()
    for text in [str(diagnostic) for diagnostic in diagnostics] or [str(error)]:
        stderr.print(f"[bold red]error:[/] {escape(text)}")
    if isinstance(error, CliError) and error.advice:
        stderr.print(f"  [dim]→[/] {escape(error.advice)}")
    return exit_code_of(error)
