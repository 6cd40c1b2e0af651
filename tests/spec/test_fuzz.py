"""Whatever tree comes in, an app or `SpecInvalidError` comes out."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import items_of_list, name_in_files, object_of
from holdfast.spec.parse import SpecInvalidError, parse_app
from tests.spec.base_app import BASE

Way = tuple[Any, ...]


def _known_names(model: Any) -> set[str]:
    names: set[str] = set()
    for attribute, field in model.model_fields.items():
        names.add(name_in_files(attribute, field))
        inner = object_of(field) or items_of_list(field)
        names |= _known_names(inner) if inner else set()
    return names


def _ways(node: Any, way: Way = ()) -> list[Way]:
    """Every path of a tree."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [way, *(deeper for part, child in children for deeper in _ways(child, (*way, part)))]


# Half of a surrogate pair too: a reader of YAML may hand one on.
TEXTS = st.one_of(
    st.text(st.characters(codec=None, exclude_categories=()), max_size=20),
    st.sampled_from(["", "valid", "clicks", "1h", "9" * 5000 + "s", "1" * 5000 + "h", "\ud800", "{", "Claim", "\x00"]),
)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**30, -(10**400), 0, 1]),
    st.floats(),
    TEXTS,
    st.binary(max_size=5),
    st.dates(),
)
KEYS = st.one_of(
    st.sampled_from(sorted(_known_names(AppSpec))),
    TEXTS,
    st.integers(),
    st.none(),
    st.booleans(),
    st.tuples(st.integers()),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=30,
)
WAYS = _ways(BASE)


def _nested(depth: int, as_list: bool) -> Any:
    tree: Any = "end"
    for _ in range(depth):
        tree = [tree] if as_list else {"spec": tree}
    return tree


DEEP = st.builds(_nested, st.integers(1, 50), st.booleans())
VALUES = st.one_of(TREES, DEEP)


def _put(way: Way, value: Any) -> Callable[[Any], Any]:
    def change(tree: Any) -> Any:
        node: Any = {"whole": tree}
        *through, last = ("whole", *way)
        for part in through:
            if not _has(node, part):
                return tree  # an earlier change took the path away
            node = node[part]
        if isinstance(node, dict) or _has(node, last):
            node[last] = value
        return value if not way else tree

    return change


def _has(node: Any, part: Any) -> bool:
    if isinstance(node, list):
        return isinstance(part, int) and 0 <= part < len(node)
    return isinstance(node, dict) and part in node


CHANGES = st.one_of(
    st.builds(_put, st.sampled_from(WAYS), VALUES),
    st.builds(lambda way, key, value: _put((*way, key), value), st.sampled_from(WAYS), KEYS, VALUES),
)


def _parse(tree: Any) -> None:
    try:
        parse_app(tree)
    except SpecInvalidError as error:
        assert error.errors
        for problem in error.errors:
            assert problem.dotted
            assert problem.shown
            assert problem.message


@settings(deadline=None)
@given(VALUES)
def test_any_tree(tree: Any) -> None:
    _parse(tree)


@settings(deadline=None)
@given(VALUES)
def test_any_spec(spec: Any) -> None:
    _parse(BASE | {"spec": spec})


@settings(deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=4))
def test_a_good_spec_with_anything_anywhere(changes: list[Callable[[Any], Any]]) -> None:
    tree = deepcopy(BASE)
    for change in changes:
        tree = change(tree)
    _parse(tree)
