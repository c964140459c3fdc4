import msgspec
import pytest

from aether.cli.failure import ApiRefusal, CliError
from aether.cli.format import Output
from aether.cli.output import print_data, print_error, print_line, print_table
from aether.errors import AetherError, Diagnostic, Rejected


class Point(msgspec.Struct):
    x: int
    name: str = "ü"


def test_a_table_is_never_cut_nor_coloured_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table(("NAME", "WHAT"), [("a", "[green]ok[/]"), (long, "-")])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["NAME", "WHAT"], ["a", "ok"], [long, "-"]]


def test_data_are_printed_as_json_and_as_yaml(capsys: pytest.CaptureFixture[str]) -> None:
    print_data(Point(1), Output.JSON)
    assert msgspec.json.decode(capsys.readouterr().out) == {"x": 1, "name": "ü"}
    print_data(Point(1), Output.YAML)
    assert capsys.readouterr().out == "x: 1\nname: ü\n"


def test_users_words_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("[bold]x[/]")
    assert capsys.readouterr().out == "[bold]x[/]\n"


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (CliError("it broke", advice="mend it"), 1, "error: it broke\n  → mend it\n"),
        (AetherError("plain"), 1, "error: plain\n"),
        (Rejected([Diagnostic(code="a", message="x"), Diagnostic(code="b", message="y")]), 1, "error: x\nerror: y\n"),
        (ApiRefusal(problem_code="not-found", detail="gone", diagnostics=(), status=404), 1, "error: gone\n"),
        (ApiRefusal(problem_code="bad-request", detail="what", diagnostics=(), status=400), 2, "error: what\n"),
    ],
)
def test_an_error_says_what_and_what_next_and_has_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: AetherError, code: int, text: str
) -> None:
    assert print_error(error) == code
    assert capsys.readouterr().err == text
