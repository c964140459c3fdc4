"""`aether completion`: the script a shell reads to complete this command."""

from typer.completion import get_completion_script

from aether.cli.failure import WrongUsage
from aether.cli.output import print_line

SHELLS = ("bash", "zsh", "fish")


def run_completion(shell: str, variable: str) -> None:
    if shell not in SHELLS:
        raise WrongUsage(f"no completion for {shell!r}", advice=f"there is {', '.join(SHELLS)}")
    print_line(get_completion_script(prog_name="aether", complete_var=variable, shell=shell))
