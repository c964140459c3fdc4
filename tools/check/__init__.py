"""Checks of the repository's own rules: sizes, the mirror of tests, documentation that is complete, pinned versions.

    python -m tools.check            run them all; exit code 1 if anything is refused
    python -m tools.check --write    also rewrite the pages that are generated

A finding is refused or asked about; only refusals fail.
"""
