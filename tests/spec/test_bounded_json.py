"""JSON of others is read only within its bounds, and what is within them is read as ever."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.bounded_json import MOST_LEVELS, JsonTooBigError, check, load

_TREES = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


def _levels(tree: object) -> int:
    if isinstance(tree, dict):
        return 1 + max(map(_levels, tree.values()), default=0)
    return 1 + max(map(_levels, tree), default=0) if isinstance(tree, list) else 0


@given(_TREES, st.booleans())
def test_levels_are_counted_outside_of_strings(tree: object, escaped: bool) -> None:
    text = json.dumps(tree, ensure_ascii=escaped)
    levels = _levels(tree)
    assert load(text, most_levels=levels) == tree
    if levels:
        with pytest.raises(JsonTooBigError, match="deeper than"):
            load(text, most_levels=levels - 1)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "[" * 65 + "]" * 65])
def test_too_deep_nesting_is_refused_before_parsing(text: str) -> None:
    with pytest.raises(JsonTooBigError, match=f"deeper than {MOST_LEVELS} levels"):
        load(text)


@pytest.mark.parametrize("text", ["", "[", '"' + '\\"' * 1000, "]", "[}", "nul", '{"a":1}}'])
def test_what_is_no_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        load(text)


def test_what_is_too_long_is_refused_with_its_length() -> None:
    with pytest.raises(JsonTooBigError, match="it has 12 bytes, and at most 11 are read"):
        load('"1234567890"', most_bytes=11)


def test_values_are_counted_outside_of_strings() -> None:
    text = b'{"a,[{": [1, 2, 3]}'
    check(text, most_bytes=100, most_levels=2, most_values=4)
    with pytest.raises(JsonTooBigError, match="more than 3 values"):
        check(text, most_bytes=100, most_levels=2, most_values=3)
