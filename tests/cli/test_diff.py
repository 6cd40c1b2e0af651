"""`holdfast diff`: what a change costs, and whether it would be refused."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Holdfast


def changed(*replaced: tuple[str, str]) -> None:
    text = Path("app.yaml").read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    Path("new.yaml").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("replaced", "path", "cost", "code"),
    [
        (("steps:\n", "suspend: true\n  steps:\n"), "spec.suspend", "Live", 0),
        (("user IS NOT NULL", "user <> ''"), "spec.steps[valid].filter", "Restart", 0),
        (("within: 10m", "within: 20m"), "spec.steps[matched].join.within", "Restart", 0),
        (("window: 1m", "window: 2m"), "spec.steps[counts].aggregate.window", "NewRun", 1),
        (("name: ad-clicks", "name: clicks-of-ads"), "metadata.name", "Forbidden", 1),
        (("  - name: out\n    from: [counts]\n    to: attributed\n", ""), "spec.steps[out]", "Restart", 0),
        (
            ("  key: [campaign]\n    distribution", "  key: [owner]\n    distribution"),
            "spec.tables[campaign-info].key",
            "NewRun",
            1,
        ),
    ],
)
def test_each_field_costs_what_it_declares(
    holdfast: Holdfast, replaced: tuple[str, str], path: str, cost: str, code: int
) -> None:
    changed(replaced)
    ran = holdfast("diff", "app.yaml", "new.yaml", "-o", "json")
    tree = json.loads(ran.out)
    assert ran.code == code
    assert tree["cost"] == cost
    assert [change["path"] for change in tree["changes"]] == [path]
    assert tree["refused"] == ([path] if code else [])


def test_a_new_run_makes_what_needs_one_applicable(holdfast: Holdfast) -> None:
    changed(("window: 1m", "window: 2m"), ('runId: "1"', 'runId: "2"'))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 0
    assert "applies: NewRun: a new run starts with empty state" in ran.out


def test_the_sum_is_the_dearest_change(holdfast: Holdfast) -> None:
    changed(("window: 1m", "window: 2m"), ("user IS NOT NULL", "user <> ''"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("refused: NewRun: state cannot follow: set a new spec.runId")


def test_a_default_written_down_is_no_change(holdfast: Holdfast) -> None:
    changed(("key: [ad_id]", "key: [ad_id]\n    partitioner: murmur2"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert (ran.code, ran.out) == (0, "app.yaml and new.yaml mean the same\n")


def test_another_order_of_named_lists_is_no_change(holdfast: Holdfast) -> None:
    tree = Path("app.yaml").read_text(encoding="utf-8").split("  - name: out\n")
    Path("new.yaml").write_text(
        tree[0].replace("  steps:\n", "  steps:\n  - name: out\n    from: [counts]\n    to: attributed\n"),
        encoding="utf-8",
    )
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0


def test_a_file_that_breaks_its_schema_is_not_compared(holdfast: Holdfast) -> None:
    changed(("window: 1m", "window: one minute"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert "new.yaml:55:33: spec.steps[4].aggregate.window: must be a duration" in ran.err


def test_a_column_that_state_holds_cannot_change_its_type(holdfast: Holdfast) -> None:
    changed(("user STRING", "user BIGINT"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 1
    assert "state of matched: user" in ran.out
    assert "refused: NewRun" in ran.out


def test_a_column_that_only_comes_or_goes_does_not_touch_state(holdfast: Holdfast) -> None:
    changed(("user STRING,", "user STRING, device STRING,"))
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0


def test_what_is_given_up_with_a_step_is_said(holdfast: Holdfast) -> None:
    changed(("name: counts", "name: tally"), ("from: [counts]", "from: [tally]"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 0
    assert "note: spec.steps[counts]: the state of counts is given up" in ran.out
