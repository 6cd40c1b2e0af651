"""What a run remembers of its app: an edit of a field is refused by the run where `diff` says it costs a new run.

Fields and values come from the model and the rows that every field has, so that no field can be forgotten.
"""

from typing import Any

import pytest

from holdfast.spec.diff import diff
from holdfast.spec.fields import ChangeCost
from holdfast.spec.made_by import edits, made_by
from holdfast.spec.parse import SpecInvalidError, parse_app
from tests.spec.base_app import BASE, drop, put
from tests.spec.field_values import ROWS

_TRACKED = ("spec.steps[seen]", "spec.steps[tracked]")
"""A run calls a step what its state is called."""
_LEFT_OUT = {"spec.runId", "spec.steps[tracked].was", "spec.state.storageClass", "spec.state.size"}
"""Fields that say which state is meant, and where it lies."""


def _edits() -> dict[str, dict[str, Any]]:
    """Apps that differ from the base in one field, by what was done."""
    rows = [row for row in ROWS if row.path != "spec.runId"]
    found = {f"{row.path}: {str(value)[:40]}": put(row.path, value) for row in rows for value in row.good}
    return found | {f"{row.path} left out": drop(row.path) for row in rows if not row.required}


EDITS = _edits()
OLD = parse_app(BASE)


@pytest.mark.parametrize("name", EDITS)
def test_the_run_refuses_what_diff_says_costs_a_new_run(name: str) -> None:
    try:
        new = parse_app(EDITS[name])
    except SpecInvalidError:
        return  # left out, or with others than the base's: it can't be applied at all
    told = {change.path for change in diff(OLD, new).changes if change.cost is ChangeCost.NEW_RUN}
    found = edits(made_by(OLD.spec), made_by(new.spec))
    refused = {f"{path}.{field}".replace(*_TRACKED) for path, fields in found.items() for field in fields}
    assert refused == told - _LEFT_OUT
