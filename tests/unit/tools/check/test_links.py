from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.check.links import anchors, check_links
from tools.check.tree import Tree

PAGES = {
    "docs/b.md": "# Ports\n## The HTTP proxy port: `18081`\n",
    "docs/deep/c.md": "text\n",
}


def findings(root: Path, pages: Mapping[str, str]) -> list[str]:
    for path, text in pages.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return [str(finding) for finding in check_links(Tree.of_folder(root))]


@pytest.mark.parametrize(
    "link",
    [
        "[b](b.md)",
        "[b](../docs/b.md)",
        "[deep](deep)",
        "[its heading](b.md#the-http-proxy-port-18081)",
        "[mine](#top)",
        "[elsewhere](https://example.com/none.md)",
        "`[code](none.md)`",
        "```text\n[code](none.md)\n```",
    ],
)
def test_a_link_that_leads_somewhere_is_fine(tmp_path: Path, link: str) -> None:
    assert findings(tmp_path, {**PAGES, "docs/a.md": f"# Top\n{link}\n"}) == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("[none](none.md)", "link to 'none.md': there is no docs/none.md"),
        ("[none](/docs/b.md)", "link to '/docs/b.md': there is no /docs/b.md"),
        ("[none](b.md#none)", "link to 'b.md#none': docs/b.md has no such heading"),
    ],
)
def test_a_link_to_nothing_is_found_with_its_line(tmp_path: Path, link: str, why: str) -> None:
    assert findings(tmp_path, {**PAGES, "docs/a.md": f"# Top\n\nsee {link}\n"}) == [f"docs/a.md:3: {why}"]


def test_headings_in_code_are_no_anchors() -> None:
    assert anchors("# What *is* a port?\n```sh\n# comment\n```\n") == {"what-is-a-port"}
