from pathlib import Path

from tools.check.commands import PAGE, check_commands, render_page, write_page
from tools.check.tree import Tree


def test_the_page_has_every_command_with_its_options() -> None:
    page = render_page()
    assert "## aether explain" in page
    assert "| `-H, --host HOST` | The Host header. Default: URL's. |" in page
    assert "aether exec [OPTIONS] POD CMD..." in page
    assert "FILE\\|DIR\\|-" in page


def test_a_page_that_says_otherwise_is_found_and_can_be_rewritten(tmp_path: Path) -> None:
    tree = Tree.of_folder(tmp_path)
    assert [finding.path for finding in check_commands(tree)] == [PAGE]
    write_page(tree)
    assert list(check_commands(tree)) == []
