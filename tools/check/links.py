"""Links between the pages lead somewhere: to a file of the repository, and to a heading that is on the page."""

import posixpath
import re
from collections.abc import Iterator

from tools.check.tree import Finding, Tree

_FENCE = re.compile(r"^ *```")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$")
_ELSEWHERE = re.compile(r"[a-z]+:")


def check_links(tree: Tree) -> Iterator[Finding]:
    for path in tree.paths:
        if path.endswith(".md"):
            for number, target in _links(tree.text(path)):
                if why := _broken(tree, path, target):
                    yield Finding(path, number, why)


def anchors(text: str) -> frozenset[str]:
    """What a `#` behind the page's path can name: its headings, as common renderers spell them."""
    return frozenset(_anchor(found.group(1)) for _, line in _prose(text) if (found := _HEADING.match(line)))


def _links(text: str) -> Iterator[tuple[int, str]]:
    for number, line in _prose(text):
        for found in _LINK.finditer(_CODE.sub("", line)):
            if not _ELSEWHERE.match(found.group(1)):
                yield number, found.group(1)


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines outside of code blocks."""
    is_code = False
    for number, line in enumerate(text.splitlines(), start=1):
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line


def _broken(tree: Tree, page: str, target: str) -> str:
    file, _, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file)) if file else page
    if not tree.has(path) and not any(tree.below(path)):
        return f"link to {target!r}: there is no {path}"
    if anchor and anchor not in anchors(tree.text(path)):
        return f"link to {target!r}: {path} has no such heading"
    return ""


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
