"""What a run remembers of its app: an edit of a field is refused by the run where `diff` says it costs a new run.

Fields and values come from the model and the rows that every field has, so that no field can be forgotten.
"""

from typing import Any

import pytest

from holdfast.spec.diff import diff
from holdfast.spec.edits import edits
from holdfast.spec.fields import ChangeCost
from holdfast.spec.made_by import made_by
from holdfast.spec.parse import SpecInvalidError, parse_app
from tests.spec.base_app import BASE, drop, put
from tests.spec.field_values import ROWS, Row

_TRACKED = ("spec.steps[seen]", "spec.steps[tracked]")
"""A run calls a step what its state is called."""
_ATTRIBUTED = ("spec.streams[results]", "spec.streams[attributed]")
"""And a stream what it has called it first."""
_LEFT_OUT = {
    "spec.runId",
    "spec.steps[tracked].was",
    "spec.streams[attributed].was",
    "spec.state.storageClass",
    "spec.state.size",
}
"""Fields that say which state is meant, and where it lies."""


OLD = parse_app(BASE)
MADE = made_by(OLD.spec)


@pytest.mark.parametrize("row", [row for row in ROWS if row.path != "spec.runId"], ids=lambda row: row.path)
def test_the_run_refuses_what_diff_says_costs_a_new_run(row: Row) -> None:
    for value in row.good:
        _check(put(row.path, value))
    if not row.required:
        _check(drop(row.path))


def _check(tree: dict[str, Any]) -> None:
    try:
        new = parse_app(tree)
    except SpecInvalidError:
        return  # left out, or with others than the base's: it can't be applied at all
    changes = diff(OLD, new).changes
    # Sources are compared by the names that the run has for streams, which `diff` alone does not know.
    costly = {one.path for one in changes if one.cost is ChangeCost.NEW_RUN or one.path.endswith("].sources")}
    edited = edits(MADE, made_by(new.spec))
    refused = {
        f"{path}.{field}".replace(*_TRACKED).replace(*_ATTRIBUTED)
        for path, fields in edited.items()
        for field in fields
    }
    assert refused == costly - _LEFT_OUT
