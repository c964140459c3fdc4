"""The page of the command line, generated from the command line itself."""

from collections.abc import Iterator
from typing import Any

import typer.main

from aether.cli.main import app
from tools.check.tree import Finding, Tree

PAGE = "docs/reference/cli.md"
ESCAPED_BAR = "\\|"
_INTRODUCTION = """\
# Command line

Generated from the commands themselves (`python -m tools.check --write`).

`aether` starts worlds and talks to them. A pod is named `NAME`, `NAMESPACE/NAME`, `deploy/NAME` or `svc/NAME`; without
a namespace, whichever has it. Where several worlds run, `--world NAME` (or `AETHER_WORLD`) says which.

Exit codes: `0` it was done, `1` it failed, `2` the usage or the input was wrong; `exec` ends with its command's own.

Files of a world are below `/run/aether` and `/var/lib/aether` for root, below `$XDG_RUNTIME_DIR/aether` (else
`/tmp/aether-UID/aether`) and `$XDG_STATE_HOME/aether` (else `~/.local/state/aether`) for everybody else, and where
`AETHER_RUNTIME_DIR` and `AETHER_STATE_DIR` say, if they are set.
"""


def check_commands(tree: Tree) -> Iterator[Finding]:
    if tree.text(PAGE) != render_page():
        yield Finding(PAGE, 0, "is not what the commands say: python -m tools.check --write")


def write_page(tree: Tree) -> None:
    path = tree.root / PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(), encoding="utf-8")


def render_page() -> str:
    """The whole page, commands in the order in which `aether --help` lists them."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="aether")
    return "\n".join((_INTRODUCTION, *(_render(one, context) for one in command.commands.values())))


def _render(command: Any, parent: Any) -> str:
    context = command.context_class(command, info_name=command.name, parent=parent)
    pieces = [piece.replace("{", "").replace("}", "") for piece in command.collect_usage_pieces(context)]
    lines = [f"## aether {command.name}", "", "```text", f"aether {command.name} {' '.join(pieces)}", "```"]
    lines += ["", (command.help or "").strip(), ""]
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        lines += ["| | |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        spelled = parameter.metavar or parameter.name
    else:
        spelled = ", ".join(parameter.opts) + (f" {parameter.metavar}" if parameter.metavar else "")
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    shown = "" if default in (None, "", False) else f" Default: {getattr(default, 'value', default)}."
    return f"| `{spelled.replace('|', ESCAPED_BAR)}` | {parameter.help or ''}{shown} |"
