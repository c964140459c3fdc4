"""Run every check, print what was found, fail if anything is refused."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.check.commands import check_commands, write_page
from tools.check.fragments import check_fragments
from tools.check.links import check_links
from tools.check.mirror import check_mirror
from tools.check.pins import check_pins
from tools.check.reference import check_reference
from tools.check.size import check_size
from tools.check.tree import Finding, Tree
from tools.check.words import check_words

CHECKS: tuple[Callable[[Tree], Iterable[Finding]], ...] = (
    check_size,
    check_mirror,
    check_reference,
    check_commands,
    check_words,
    check_pins,
    check_fragments,
    check_links,
)


def main(arguments: list[str]) -> int:
    tree = Tree.of_repository(Path(__file__).resolve().parents[2])
    if "--write" in arguments:
        write_page(tree)
    findings = sorted(finding for check in CHECKS for finding in check(tree))
    for finding in findings:
        print(finding if finding.is_refused else f"{finding} (asked)")
    refused = sum(finding.is_refused for finding in findings)
    print(f"tools.check: {len(CHECKS)} checks, {refused} refused, {len(findings) - refused} asked about")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
