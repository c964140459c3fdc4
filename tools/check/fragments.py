"""Fragments of the changelog: `changes/<topic>.<kind>.md`, one sentence from the user's side."""

import re
from collections.abc import Iterator

from tools.check.tree import Finding, Tree

KINDS = ("added", "changed", "fixed", "removed", "security")
_NAME = re.compile(rf"changes/[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md")


def check_fragments(tree: Tree) -> Iterator[Finding]:
    for path in tree.below("changes"):
        text = tree.text(path).strip()
        if not _NAME.fullmatch(path):
            yield Finding(path, 0, f"must be changes/TOPIC.KIND.md; kinds are {', '.join(KINDS)}")
        elif not text.endswith(".") or "\n\n" in text:
            yield Finding(path, 0, "must be one paragraph that ends in a full stop")
