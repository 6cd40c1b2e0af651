"""`holdfast plan --lineage`: which columns of inputs a column is made of, as text and as JSON."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Holdfast


def test_a_stream_is_shown_column_by_column(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--lineage", "attributed")
    assert (ran.code, ran.err) == (0, "")
    lines = [line.split(maxsplit=1) for line in ran.out.splitlines()]
    assert ["attributed.campaign", "impressions.campaign"] in lines
    assert ["attributed.window_start", "clicks.ts, impressions.ts (computed)"] in lines
    assert ["attributed.n", "(no column)"] in lines
    assert ["attributed.users", "clicks.user (aggregated)"] in lines
    assert lines[-1][0] == "attributed"
    assert lines[-1][1].startswith("(rows)")
    assert "filtered by clicks.user; joined by " in lines[-1][1]
    assert "; by event time clicks.ts, impressions.ts" in lines[-1][1]


def test_without_a_name_all_that_is_written_is_shown(holdfast: Holdfast) -> None:
    out = holdfast("plan", "app.yaml", "--lineage").out
    names = {line.split(".")[0].split()[0] for line in out.splitlines()[1:]}
    assert names == {"attributed", "campaign-info"}


def test_one_column_and_what_decides_its_rows(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--lineage", "attributed.USERS", "-o", "json")
    tree = json.loads(ran.out)
    assert (tree["app"], tree["valid"]) == ("ad-clicks", True)
    (shown,) = tree["lineage"]
    assert (shown["kind"], shown["name"]) == ("stream", "attributed")
    use = {"stream": "clicks", "column": "user", "type": "DIRECT", "subtype": "AGGREGATION"}
    assert shown["columns"] == {"users": [use]}
    assert {"stream": "clicks", "column": "user", "type": "INDIRECT", "subtype": "FILTER"} in shown["rows"]


def test_all_columns_of_an_input_are_one_star(holdfast: Holdfast) -> None:
    text = (
        "apiVersion: holdfast.dev/v1alpha1\nkind: StreamApp\nmetadata: {name: f}\nspec:\n"
        "  systems: [{name: log, log: {}}]\n"
        "  streams:\n"
        '  - {name: in, system: log, partitions: 1, schema: "a INT, b INT, c INT"}\n'
        "  - {name: out, system: log}\n"
        "  steps:\n"
        '  - {name: scored, from: [in], apply: {function: "f:g", schema: "a INT, s INT", keeps: [a]}}\n'
        "  - {name: written, from: [scored], to: out}\n"
    )
    Path("f.yaml").write_text(text, encoding="utf-8")
    out = holdfast("plan", "f.yaml", "--lineage", "out").out
    assert [line.split(maxsplit=1)[1] for line in out.splitlines()[1:]] == [
        "in.a",
        "in.* (computed)",
        "(rows)  filtered by in.*",
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--lineage", "atributed"), "did you mean attributed?"),
        (("--lineage", "clicks"), "clicks is an input"),
        (("--lineage", "attributed.user"), "did you mean users?"),
        (("--lineage", "-o", "svg"), "as text or JSON"),
        (("--lineage", "--fix"), "leave --fix"),
    ],
)
def test_what_has_no_lineage_is_said(holdfast: Holdfast, options: tuple[str, ...], sentence: str) -> None:
    ran = holdfast("plan", "app.yaml", *options)
    assert ran.code == 2
    assert sentence in ran.err


def test_a_rejected_plan_shows_its_problems(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--partitions", "clicks=8", "--lineage")
    assert ran.code == 1
    assert "PartitionCountMismatch" in ran.out
