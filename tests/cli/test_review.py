"""Situations in which `holdfast plan` once crashed, or said something that was not so."""

import json
from pathlib import Path

import pytest

from holdfast.tasks.record import RecordInvalidError, parse_record
from tests.cli.conftest import Holdfast

APP = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: app}
spec:
  runId: "1"
  systems:
  - {name: events, log: {}}
  streams:
  - {name: a, system: events, partitions: 8, key: [k], schema: "k STRING, v INT, ts TIMESTAMP",
     eventTime: {column: ts, lateness: 10s}}
  - {name: q, system: events, partitions: 4, key: [k], schema: "k STRING, v INT, ts TIMESTAMP",
     eventTime: {column: ts, lateness: 10s}}
  - {name: out, system: events, partitions: 8}
  - {name: out2, system: events, partitions: 8}
  steps:
  - {name: m, from: [a, q], join: {by: [k], within: 10m, select: [k]}}
  - {name: w, from: [m], to: out}
"""
MISMATCH = ("plan", "review.yaml", "--fix")


def write(*replaced: tuple[str, str], more: str = "") -> None:
    """The app above, edited, as review.yaml."""
    text = APP + more
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    Path("review.yaml").write_text(text, encoding="utf-8")


def write_json(path: str, tree: object) -> None:
    Path(path).write_text(json.dumps(tree), encoding="utf-8")


# Repairs written into a file


@pytest.mark.parametrize("column", ["y", "n", "on", "off", "yes", "No"])
def test_a_repairing_column_that_yaml_reads_as_boolean_is_quoted(holdfast: Holdfast, column: str) -> None:
    write(("[k]", f'["{column}"]'), ("k STRING", f"`{column}` STRING"))
    ran = holdfast(*MISMATCH)
    assert ran.code == 0, ran.err
    assert f"repartition: {{by: ['{column}']}}" in ran.out
    Path("fixed.yaml").write_text(ran.out, encoding="utf-8")
    assert holdfast("plan", "fixed.yaml").code == 0


def test_repairing_a_step_leaves_one_that_aliases_its_list(holdfast: Holdfast) -> None:
    shared = "  - {name: mg, from: *x, merge: {}}\n  - {name: w2, from: [mg], to: out2}\n"
    write(("from: [a, q]", "from: &x [a, q]"), more=shared)
    ran = holdfast(*MISMATCH)
    assert ran.code == 0, ran.err
    assert "- {name: m, from: [a, q-by-k], join:" in ran.out
    assert "- {name: mg, from: [a, q], merge: {}}" in ran.out.replace("&x ", "")
    Path("fixed.yaml").write_text(ran.out, encoding="utf-8")
    assert holdfast("plan", "fixed.yaml").code == 0


def test_repairing_a_list_keeps_an_alias_of_its_items(holdfast: Holdfast) -> None:
    shared = "  - {name: mg, from: [*k, q], merge: {}}\n  - {name: w2, from: [mg], to: out2}\n"
    write(("from: [a, q]", "from: [&k a, q]"), more=shared)
    ran = holdfast(*MISMATCH)
    assert ran.code == 0, ran.err
    assert "- {name: m, from: [&k a, q-by-k], join:" in ran.out
    assert shared in ran.out


def test_a_repair_that_an_anchor_would_carry_elsewhere_is_refused(holdfast: Holdfast) -> None:
    inherits = "  - {<<: *m, name: m2, join: null, merge: {}}\n  - {name: w2, from: [m2], to: out2}\n"
    write(("- {name: m,", "- &m {name: m,"), more=inherits)
    ran = holdfast(*MISMATCH)
    assert (ran.code, ran.out) == (2, "")
    assert "the file's anchors can't be kept" in ran.err
    assert "repaired" not in ran.err


def test_fix_of_an_app_whose_tables_are_left_empty(holdfast: Holdfast) -> None:
    write(("  steps:\n", "  tables:\n  steps:\n"))
    ran = holdfast(*MISMATCH)
    assert (ran.code, ran.err) == (0, "repaired: repartition q by k into 8\n")


def test_fix_names_a_key_given_twice_in_another_document(holdfast: Holdfast) -> None:
    write(more="---\nkind: ConfigMap\ndata: {x: 1, x: 2}\n")
    ran = holdfast(*MISMATCH)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith('holdfast: review.yaml:20:14: found duplicate key "x"')


def test_fix_says_what_only_the_repaired_plan_warns_of(holdfast: Holdfast) -> None:
    write(
        ("  steps:\n", "  planning: {maxIntermediatePartitions: 4}\n  steps:\n"),
        ("  - {name: m, from: [a, q], join: {by: [k], within: 10m, select: [k]}}\n", ""),
        ("from: [m]", "from: [sums]"),
        more="  - {name: sums, from: [a], aggregate: {by: [v], compute: [count(*) AS n]}}\n",
    )
    before, ran = holdfast("plan", "review.yaml").out, holdfast(*MISMATCH)
    assert ran.code == 0, ran.err
    assert "CountCapped" not in before
    assert [line.split(":")[0:2] for line in ran.err.splitlines()][1:] == [["warning", " CountCapped at a-by-v"]]


# Files of strange shape


def test_a_warning_without_a_place_beside_empty_tables(holdfast: Holdfast) -> None:
    write(("  steps:\n", "  tables:\n  steps:\n"), ("partitions: 4", "partitions: 8"))
    write_json("record.json", {"runId": "0", "grouping": {}})
    ran = holdfast("plan", "review.yaml", "--record", "record.json")
    assert ran.code == 0
    assert "RecordIgnored" in ran.out


@pytest.mark.parametrize("metadata", ["", "text", "[1]"])
def test_two_apps_of_which_one_has_no_metadata_are_refused(holdfast: Holdfast, metadata: str) -> None:
    write(more=f"---\nkind: StreamApp\nmetadata: {metadata}\n")
    ran = holdfast("plan", "review.yaml")
    assert ran.code == 2
    assert "review.yaml holds 2 StreamApps (app, without a name)" in ran.err


@pytest.mark.parametrize("number", ["9" * 5000, "100001", "0" * 5000])
def test_a_partition_count_beyond_all_reason_is_bad_usage(holdfast: Holdfast, number: str) -> None:
    ran = holdfast("plan", "app.yaml", "--partitions", f"clicks={number}")
    assert ran.code == 2
    assert "write clicks=N with N at least 1 and at most 100000" in ran.err


def test_a_partition_number_of_5000_digits_is_refused(holdfast: Holdfast) -> None:
    write_json("record.json", {"runId": "1", "grouping": {"partition-0": ["clicks/" + "9" * 5000]}})
    ran = holdfast("plan", "app.yaml", "--record", "record.json")
    assert ran.code == 2
    assert "does not name a stream partition" in ran.err


@pytest.mark.parametrize("output", ["text", "json"])
def test_half_a_surrogate_pair_is_printed_as_its_escape(holdfast: Holdfast, output: str) -> None:
    write_json("record.json", {"runId": "\ud800", "grouping": {}})
    ran = holdfast("plan", "app.yaml", "--record", "record.json", "-o", output)
    assert ran.code == 0
    assert "the record is of run \\ud800" in ran.out


def test_a_processors_file_without_processors_is_refused(holdfast: Holdfast) -> None:
    write_json("processors.json", {})
    ran = holdfast("plan", "app.yaml", "--processors", "processors.json")
    assert ran.code == 2
    assert "processors.json has no processors" in ran.err


# Growth


def record_of(run_id: str, streams: tuple[str, ...], tasks: int) -> None:
    grouping = {f"partition-{i}": [f"{stream}/{i}" for stream in streams] for i in range(tasks)}
    write_json("record.json", {"runId": run_id, "grouping": grouping})


def test_the_record_of_another_run_shows_no_growth(holdfast: Holdfast) -> None:
    record_of("0", ("clicks", "impressions"), 8)
    ran = holdfast("plan", "app.yaml", "--record", "record.json")
    assert ran.code == 0
    assert "GROWN" not in ran.out


def test_a_stateless_apps_shrunken_stream_is_not_called_refused(holdfast: Holdfast) -> None:
    write(("join: {by: [k], within: 10m, select: [k]}", "merge: {}"))
    record_of("1", ("a", "q"), 16)
    ran = holdfast("plan", "review.yaml", "--record", "record.json")
    assert ran.code == 0, ran.out
    assert "GROWN" in ran.out
    assert "(refused)" not in ran.out


def test_a_refused_growth_is_called_so_beside_its_stream_only(holdfast: Holdfast) -> None:
    record_of("1", ("clicks", "impressions"), 16)
    ran = holdfast("plan", "app.yaml", "--record", "record.json", "--partitions", "clicks=20")
    assert ran.code == 1
    assert [line.split()[0] for line in ran.out.splitlines() if "(refused)" in line] == ["clicks"]


@pytest.mark.parametrize(
    "grouping",
    [
        {"t0": ["a/0"], "t1": ["a/0"], "t2": ["a/1"]},
        {"t0": ["a/0"], "t1": ["a/1", "a/0"]},
    ],
)
def test_a_partition_in_two_tasks_of_a_record_is_refused(grouping: dict[str, list[str]]) -> None:
    with pytest.raises(RecordInvalidError, match="a/0 in t0 and in t1"):
        parse_record({"runId": "1", "grouping": grouping})


def test_a_record_with_a_broadcast_stream_everywhere_is_read() -> None:
    grouping = {f"t{i}": [f"a/{i}", "all/0", "all/1"] for i in range(3)}
    assert parse_record({"runId": "1", "grouping": grouping}).counts() == {"a": 3, "all": 2}
