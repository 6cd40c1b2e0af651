"""What `holdfast state` shows of an aggregate of a case, beside the rows that come out when its streams end."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.planning.plan import plan
from holdfast.spec.steps import Step
from holdfast.spec.verbs import VERBS
from holdfast_runtime.inspection.local_app import LocalApp
from holdfast_runtime.inspection.run_stores import RunStores
from holdfast_runtime.inspection.run_tables import table_columns
from holdfast_runtime.inspection.table_rows import plain
from holdfast_runtime.testing import TestDriver
from tests.apps.case import Case, cases


def last_steps(case: Case) -> dict[str, Step]:
    """Output stream -> the aggregate whose rows go there as they are, when its windows end."""
    steps = {step.name: step for step in case.app.spec.steps}
    aggregates = {step.to: steps[step.inputs[0]] for step in steps.values() if step.to and step.inputs[0] in steps}
    return {
        out: step
        for out, step in aggregates.items()
        if step.aggregate is not None and not step.aggregate.updates and out in case.expected
    }


def holds_back(case: Case, step: Step) -> bool:
    """Whether rows wait before the step, too, so that it gets more of them at the end."""
    steps = {step.name: step for step in case.app.spec.steps}
    before = [steps[name] for name in step.inputs if name in steps]
    return any(VERBS[source.verb].holds_rows_back or holds_back(case, source) for source in before)


CASES = {
    f"{case.name} {out}": (case, out, step)
    for case in cases()
    for out, step in last_steps(case).items()
    if all(stream.bounded for stream in case.inputs) and not holds_back(case, step)
}


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(plain(dict(row)), sort_keys=True) for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_state_shows_what_comes_out_at_the_end(name: str, tmp_path: Path) -> None:
    case, out, step = CASES[name]
    with TestDriver(case.app, tmp_path, slots=2) as driver:
        for moment, arrivals in case.arrivals:
            driver.advance(moment - driver.now)
            for arrival in arrivals:
                arrival.feed(driver)
            driver.run_until_idle()
        before, notes = counted(driver.rows(out)), list[str]()
        stores = RunStores.of(LocalApp(case.app, plan(case.app), tmp_path), None, durable=False)
        shown = [row for batch in table_columns(stores, step.name, None, notes.append) for row in batch.to_pylist()]
        for stream in case.inputs:
            driver.end(stream.name)
        driver.run_until_idle()
        came_out = counted(driver.rows(out)) - before
    columns = driver.rows(out)[0].keys() - {"task"}  # a record may have others outside of its value
    assert counted({column: row[column] for column in columns} for row in shown) == came_out
    assert notes == []


def test_there_are_windows_sessions_and_expressions_among_them() -> None:
    aggregates = [step.aggregate for _, _, step in CASES.values() if step.aggregate is not None]
    assert {(bool(verb.window), bool(verb.slide), bool(verb.session)) for verb in aggregates} == {
        (True, False, False),
        (True, True, False),
        (False, False, True),
        (False, False, False),
    }
