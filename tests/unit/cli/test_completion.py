import pytest
from tests.unit.cli.conftest import Aether


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_printed_for_each_shell(aether: Aether, shell: str) -> None:
    said = aether("completion", shell)
    assert said.code == 0
    assert "_AETHER_COMPLETE" in said.out


def test_another_shell_is_refused(aether: Aether) -> None:
    assert aether("completion", "tcsh").code == 2


def test_the_command_completes_its_own_words(aether: Aether, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_AETHER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "aether st")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert aether().out.split() == ["status"]
