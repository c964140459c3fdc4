"""The ruleset of a network namespace in memory: the elements of its tables, by the text that the kernel would be given.

It reads what `render.nft` writes, and refuses what the kernel refuses of it. Passes `tests/contract/test_ruleset.py`.
"""

import re
from collections.abc import Callable

from aether.adapters.kernel.nft import NftRefused

_STATEMENT = re.compile(
    r"^(?P<verb>add|delete) table inet (?P<whole>\w+)$"
    r"|^table inet (?P<table>\w+) \{\n(?P<body>(?:  .*\n)*)\}$"
    r"|^(?P<edit>add|delete) element inet (?P<owner>\w+) (?P<set>\w+) \{ (?P<elements>.*) \}$",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^  (?:set|map) (?P<name>\w+) \{\n(?P<body>.*?)^  \}$", re.MULTILINE | re.DOTALL)
_INITIAL = re.compile(r"elements = \{(.*?)\}", re.DOTALL)

Tables = dict[str, dict[str, frozenset[str]]]


def _nothing(_: str) -> bool:
    return False


class MemoryRuleset:
    """`texts` are the transactions that were applied. `refuses` says of a text that the kernel does not take it."""

    def __init__(self, *, on_apply: Callable[[], None] | None = None) -> None:
        self.texts: list[str] = []
        self.refuses: Callable[[str], bool] = _nothing
        self.is_closed = False
        self._tables: Tables = {}
        self._on_apply = on_apply

    def apply(self, text: str) -> None:
        if self.is_closed or self.refuses(text):
            raise NftRefused("the ruleset is closed" if self.is_closed else "Error: not today")
        after = {name: dict(sets) for name, sets in self._tables.items()}
        for statement in _STATEMENT.finditer(text):
            _run(statement, after)
        self._tables = after
        self.texts.append(text)
        if self._on_apply is not None:
            self._on_apply()

    def has_table(self, family: str, name: str) -> bool:
        return family == "inet" and name in self._tables

    def close(self) -> None:
        self.is_closed = True

    def opened_again(self, *, on_apply: Callable[[], None] | None = None) -> "MemoryRuleset":
        """The same namespace, opened by the next who comes: what was applied is still there."""
        again = MemoryRuleset(on_apply=on_apply)
        again._tables = self._tables
        return again

    def elements(self, table: str, name: str) -> frozenset[str]:
        """What a set or map holds now."""
        return self._tables.get(table, {}).get(name, frozenset())

    def lose(self, table: str) -> None:
        """Somebody takes a table away."""
        del self._tables[table]


def _run(statement: re.Match[str], tables: Tables) -> None:
    if name := statement["whole"]:
        if statement["verb"] == "add":
            tables.setdefault(name, {})
        elif tables.pop(name, None) is None:
            raise NftRefused(f"Error: no table {name}")
    elif name := statement["table"]:
        tables.setdefault(name, {}).update(_sets(statement["body"]))
    else:
        _edit(statement, tables.get(statement["owner"], {}))


def _edit(statement: re.Match[str], sets: dict[str, frozenset[str]]) -> None:
    name, elements = statement["set"], _split(statement["elements"])
    if (held := sets.get(name)) is None:
        raise NftRefused(f"Error: no set {name}")
    if statement["edit"] == "add":
        sets[name] = held | elements
        return
    if missing := elements - held:
        raise NftRefused(f"Error: {name} has no {min(missing)}")
    sets[name] = held - elements


def _sets(body: str) -> dict[str, frozenset[str]]:
    return {
        block["name"]: _split(found[1]) if (found := _INITIAL.search(block["body"])) else frozenset()
        for block in _BLOCK.finditer(body)
    }


def _split(elements: str) -> frozenset[str]:
    return frozenset(element.strip() for element in elements.split(","))
