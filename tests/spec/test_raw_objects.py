"""Texts of the API server are cut to what can be parsed, and nothing else of them changes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.bounded_json import WATCHED, ObjectDepth, bounded_objects

SCALARS = st.none() | st.booleans() | st.integers() | st.text()
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
OBJECTS = st.fixed_dictionaries(
    {"metadata": st.dictionaries(st.text(), TREES), "spec": TREES}, optional={"status": TREES, "kind": st.text()}
)
DEEP = "[" * 1_500 + "]" * 1_500
WIDE = f"[{'[],' * 70_000}[]]"


def text(tree: Any, **holes: str) -> bytes:
    """JSON, with these texts in the place of the strings of their names."""
    made = json.dumps(tree)
    for name, hole in holes.items():
        made = made.replace(json.dumps(name), hole)
    return made.encode()


def app(name: str, **fields: Any) -> Any:
    """An object of this name."""
    managed = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    return {"kind": "StreamApp", "metadata": {"name": name, "uid": "u", "managedFields": managed}, **fields}


@given(OBJECTS, st.booleans())
def test_what_can_be_parsed_stays_as_it_is(tree: Any, escaped: bool) -> None:
    made = json.dumps(tree, ensure_ascii=escaped).encode(errors="surrogatepass")
    assert bounded_objects(made, ObjectDepth.OBJECT) is made


@given(st.lists(OBJECTS, max_size=4), st.integers(0, 3), st.booleans())
def test_beside_an_unparsable_object_everything_stays_as_it_was(trees: Any, at: int, spaced: bool) -> None:
    """But for who managed which field."""
    separators = (", ", ": ") if spaced else (",", ":")
    items = [json.dumps(tree, separators=separators) for tree in trees]
    hostile = text(app("hostile", spec="hole", status={"attempt": 3}), hole=DEEP).decode()
    items.insert(at, hostile)
    made = json.loads(bounded_objects(f'{{"kind": "L", "items": [{",".join(items)}]}}'.encode(), ObjectDepth.LIST))
    index = min(at, len(trees))
    bounded = made["items"].pop(index)
    assert made["kind"] == "L"
    assert bounded.pop("unread") == {"spec": "it is nested deeper than 64 levels"}
    assert bounded == {"kind": "StreamApp", "metadata": {"name": "hostile", "uid": "u"}, "status": {"attempt": 3}}
    for tree in trees:
        tree["metadata"].pop("managedFields", None)
    assert made["items"] == trees


@pytest.mark.parametrize(("hole", "why"), [(DEEP, "deeper than 64 levels"), (WIDE, "more than 65536 values")])
def test_too_large_a_part_is_left_out_and_named(hole: str, why: str) -> None:
    event = {"type": "ADDED", "object": app("a", spec="hole", status={"runId": ']}\\"'})}
    made = json.loads(bounded_objects(text(event, hole=hole), ObjectDepth.EVENT))
    assert made["type"] == "ADDED"
    unread = made["object"].pop("unread")
    assert list(unread) == ["spec"]
    assert why in unread["spec"]
    assert made["object"] == {
        "kind": "StreamApp",
        "metadata": {"name": "a", "uid": "u"},
        "status": {"runId": ']}\\"'},
    }


def test_managed_fields_are_left_out_however_deep() -> None:
    tree = app("a", spec={"b": 1})
    tree["metadata"]["managedFields"] = "hole"
    made = json.loads(bounded_objects(text(tree, hole=DEEP), ObjectDepth.OBJECT))
    assert made == {"kind": "StreamApp", "metadata": {"name": "a", "uid": "u"}, "spec": {"b": 1}}


def test_a_long_text_is_no_reason_to_leave_anything_out() -> None:
    tree = {"metadata": {"name": "shard"}, "binaryData": {"value": "A" * 1_000_000}}
    assert json.loads(bounded_objects(text(tree), ObjectDepth.OBJECT)) == tree


def test_a_watch_has_less_room_than_a_read() -> None:
    tree = {"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"code": "A" * 300_000}}
    cut = json.loads(bounded_objects(text({"type": "ADDED", "object": tree}), ObjectDepth.EVENT, WATCHED))["object"]
    assert cut.pop("unread") == {"spec": "it has 300013 bytes, and at most 262144 are read"}
    assert cut == {"metadata": tree["metadata"]}
    assert json.loads(bounded_objects(text(tree), ObjectDepth.OBJECT)) == tree
