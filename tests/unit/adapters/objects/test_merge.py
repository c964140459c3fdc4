import pytest
from hypothesis import given
from hypothesis import strategies as st

from aether.adapters.objects.merge import merge

TABLE = [
    ("a new field is set", {}, {}, {"a": 1}, {"a": 1}),
    ("a field that is not named any more goes", {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"b": 2}, {"b": 2}),
    ("another's field stays", {"a": 1, "z": 9}, {"a": 1}, {"a": 2}, {"a": 2, "z": 9}),
    ("a field that another changed is set back", {"a": 5}, {"a": 1}, {"a": 1}, {"a": 1}),
    (
        "maps are merged at every level",
        {"m": {"x": 1, "y": 2}},
        {"m": {"x": 1}},
        {"m": {"w": 3}},
        {"m": {"y": 2, "w": 3}},
    ),
    ("lists are replaced whole", {"l": [1, 2]}, {"l": [1]}, {"l": [3]}, {"l": [3]}),
    ("None removes", {"a": 1}, {}, {"a": None}, {}),
    ("a map takes the place of text", {"a": "x"}, {"a": "x"}, {"a": {"b": 1}}, {"a": {"b": 1}}),
]

JSON = st.recursive(
    st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4)


@pytest.mark.parametrize(("rule", "live", "before", "after", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_merge(
    rule: str, live: dict[str, object], before: dict[str, object], after: dict[str, object], expected: object
) -> None:
    assert merge(live, before=before, after=after) == expected, rule


@given(live=OBJECTS, body=OBJECTS)
def test_applying_twice_is_applying_once(live: dict[str, object], body: dict[str, object]) -> None:
    once = merge(live, before={}, after=body)
    assert merge(once, before=body, after=body) == once


@given(body=OBJECTS)
def test_a_lone_writers_object_is_what_it_says(body: dict[str, object]) -> None:
    assert merge({}, before={}, after=body) == body


@given(first=OBJECTS, second=OBJECTS)
def test_a_writer_replaces_what_it_said_before(first: dict[str, object], second: dict[str, object]) -> None:
    live = merge({}, before={}, after=first)
    merged = merge(live, before=first, after=second)
    assert merged.keys() == second.keys()
