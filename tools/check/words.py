"""Words that belong to nobody else's machine: registries' hosts, and paths of the machine it was written on."""

import re
from collections.abc import Iterator

from tools.check.tree import Finding, Tree

_FORBIDDEN = {
    "a registry's host": r"\b(pypi|pythonhosted|npmjs|rubygems|crates)\.(org|io|com)\b|\b(deb|security)\.debian\.org\b"
    r"|\b(docker|ghcr|quay|gcr)\.io\b|--(extra-)?index-url\b|\bindex-url *=",
    "a path of somebody's machine": r"(?<![\w.<{$-])/(work|root|home)/[\w.-]",
}

_PATTERNS = {what: re.compile(pattern) for what, pattern in _FORBIDDEN.items()}


def check_words(tree: Tree) -> Iterator[Finding]:
    for path in tree.paths:
        for number, line in enumerate(tree.text(path).splitlines(), start=1):
            for what, pattern in _PATTERNS.items():
                if found := pattern.search(line):
                    yield Finding(path, number, f"{what}: {found.group().strip()!r}")
