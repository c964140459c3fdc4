"""Three-way merge of JSON objects: what `apply` does to an object that several writers own parts of."""

from collections.abc import Mapping
from typing import Any


def merge(live: Mapping[str, Any], *, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """`live` with one writer's fields moved from `before` to `after`, and everybody else's kept.

    `before` and `after` are what the writer applied last time and now. A field of `before` that `after` lacks is
    removed; a field of `after` takes its value; every other field of `live` stays. Maps are merged, lists are replaced
    whole. A value of None in `after` removes the field.
    """
    merged = {name: value for name, value in live.items() if name not in before or name in after}
    for name, value in after.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            merged[name] = merge(_map(live.get(name)), before=_map(before.get(name)), after=value)
        else:
            merged[name] = value
    return merged


def _map(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
