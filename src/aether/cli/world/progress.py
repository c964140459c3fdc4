"""How a start is shown: a spinner on a terminal, one line for each phase that is done anywhere."""

from types import TracebackType
from typing import Self

from aether.cli.output import MARKS, console, escaped
from aether.model.world import CheckVerdict


class Progress:
    """One phase after another. Use as a context manager, so that the terminal is left in order."""

    def __init__(self) -> None:
        self._console = console()
        self._spinner = self._console.status("starting") if self._console.is_terminal else None

    def __enter__(self) -> Self:
        if self._spinner is not None:
            self._spinner.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spinner is not None:
            self._spinner.stop()

    def doing(self, text: str) -> None:
        """What is waited for now; may be said again with other numbers."""
        if self._spinner is not None:
            self._spinner.update(escaped(text))

    def done(self, text: str) -> None:
        self._console.print(f"{MARKS[CheckVerdict.OK]} {escaped(text)}")

    def warn(self, text: str) -> None:
        self._console.print(f"{MARKS[CheckVerdict.WARNING]} {escaped(text)}")
