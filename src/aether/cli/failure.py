"""What the command line says when it cannot do what was asked, and with which exit code.

Exit codes: 0 it was done, 1 it failed, 2 the usage or the input is wrong.
"""

from typing import ClassVar

from aether.errors import AetherError, Diagnostic

FAILED = 1
WRONG_INPUT = 2


class CliError(AetherError):
    """Something to tell the user. `advice` is what to do next, or "" if there is nothing."""

    code = "cli-error"
    exit_code: ClassVar[int] = FAILED

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.advice = advice


class WrongUsage(CliError):
    code = "wrong-usage"
    exit_code = WRONG_INPUT


class NoWorld(CliError):
    code = "no-world"


class SeveralWorlds(CliError):
    code = "several-worlds"
    exit_code = WRONG_INPUT

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(
            f"{len(names)} worlds are running: {', '.join(names)}", advice="say which one with --world NAME"
        )


class ApiRefusal(CliError):
    """The world answered with an error: its code, its text and what was wrong with which input."""

    code = "api-refusal"

    def __init__(self, *, problem_code: str, detail: str, diagnostics: tuple[Diagnostic, ...], status: int) -> None:
        super().__init__(detail)
        self.problem_code = problem_code
        self.diagnostics = diagnostics
        self.status = status


def exit_code_of(error: AetherError) -> int:
    """2 if the user's words were wrong, 1 if the world or the machine could not."""
    if isinstance(error, ApiRefusal):
        return WRONG_INPUT if error.status in {400, 405, 413, 415, 422} else FAILED
    if isinstance(error, CliError):
        return error.exit_code
    return WRONG_INPUT if error.code in {"bad-world-name", "no-manifests"} else FAILED
