import pytest

from aether.cli.world.progress import Progress


def test_where_there_is_no_terminal_each_phase_is_a_line_when_it_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.doing("pods 0/2")
        progress.done("pods [2]/2")
        progress.warn("not all")
    assert capsys.readouterr().out == "✓ pods [2]/2\n! not all\n"
