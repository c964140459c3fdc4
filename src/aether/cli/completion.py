"""`aether completion`: the script a shell reads to complete this command."""

from typer import completion

from aether.cli.failure import WrongUsage
from aether.cli.output import print_line

SHELLS = ("bash", "zsh", "fish")


def run_completion(shell: str, variable: str) -> None:
    if shell not in SHELLS:
        raise WrongUsage(f"no completion for {shell!r}", advice=f"there is {', '.join(SHELLS)}")
    script = completion.get_completion_script(prog_name="aether", complete_var=variable, shell=shell)  # type: ignore[attr-defined]  # Typer re-exports it
    print_line(script)


def answer_completions() -> None:
    """Let the command answer a shell's requests for completions, which come in the environment."""
    completion.completion_init()  # type: ignore[attr-defined]  # Typer re-exports it
