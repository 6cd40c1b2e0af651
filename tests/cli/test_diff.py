"""`holdfast diff`: what a change costs, and whether it would be refused."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import RUNNABLE, Holdfast


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
    refused = "refused: StateMisfit: see the note of each (spec.steps[counts].aggregate.window)"
    assert ran.out.splitlines()[-1] == refused


def test_variables_are_told_by_name_and_tolerations_as_a_list(holdfast: Holdfast) -> None:
    runtime = "  runtime: {driver: {env: [%s], tolerations: [{key: %s}]}}\n  steps:\n"
    text = Path("app.yaml").read_text(encoding="utf-8")
    for name, *written in (
        ("old.yaml", "{name: A, value: a}, {name: B, value: b}", "x"),
        ("new.yaml", "{name: B, value: c}, {name: C}, {name: A, value: a}", "z"),
    ):
        Path(name).write_text(text.replace("  steps:\n", runtime % tuple(written)), encoding="utf-8")
    tree = json.loads(holdfast("diff", "old.yaml", "new.yaml", "-o", "json").out)
    assert {change["path"]: (change["old"], change["new"], change["cost"]) for change in tree["changes"]} == {
        "spec.runtime.driver.tolerations": ([{"key": "x"}], [{"key": "z"}], "Restart"),
        "spec.runtime.driver.env[B]": ({"name": "B", "value": "b"}, {"name": "B", "value": "c"}, "Restart"),
        "spec.runtime.driver.env[C]": (None, {"name": "C"}, "Restart"),
    }


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
    assert "note: state of matched: left.user: was STRING and is BIGINT: the state of this run" in ran.out
    assert "refused: StateMisfit" in ran.out


DEDUPLICATED = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: single}
spec:
  systems: [{name: here, log: {}}]
  streams:
  - {name: given, system: here, partitions: 2, key: [id], schema: "id BIGINT, n BIGINT"}
  - {name: single, system: here, partitions: 2, key: [id]}
  steps:
  - {name: once, from: [given], deduplicate: {by: [ID]}}
  - {name: out, from: [once], to: single}
"""


@pytest.mark.parametrize(("column", "code"), [("id", 1), ("n", 0)])
def test_of_what_a_deduplicate_passes_it_keeps_the_key_alone(holdfast: Holdfast, column: str, code: int) -> None:
    Path("old.yaml").write_text(DEDUPLICATED, encoding="utf-8")
    Path("new.yaml").write_text(DEDUPLICATED.replace(f"{column} BIGINT", f"{column} INT"), encoding="utf-8")
    ran = holdfast("diff", "old.yaml", "new.yaml")
    assert ran.code == code
    assert (f"state of once: {column}" in ran.out) is (code == 1)


def test_a_column_that_comes_or_goes_does_not_touch_state(holdfast: Holdfast) -> None:
    changed(("user STRING,", "user STRING, device STRING,"))
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0


def test_what_is_given_up_with_a_step_is_said(holdfast: Holdfast) -> None:
    changed(
        ("name: counts\n    from: [by-campaign]\n    aggregate: {by: [campaign]", TALLY + "{by: [owner]"),
        ("from: [counts]", "from: [tally]"),
    )
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert "note: spec.steps[counts]: the state of counts is given up" in ran.out


TALLY = "name: tally\n    from: [by-campaign]\n    aggregate: "
RENAMED = ("name: counts", "name: tally"), ("from: [counts]", "from: [tally]")


def test_a_renamed_step_with_state_is_refused_as_by_run(holdfast: Holdfast) -> None:
    changed(*RENAMED)
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 1
    assert "note: spec.steps[counts]: the state of counts is given up" in ran.out
    assert "note: spec.steps[tally]: counts is gone and tally is new" in ran.out
    assert "say `was: counts` in it, and its state follows" in ran.out
    assert ran.out.splitlines()[-1] == (
        "refused: StateMisfit, StepRenamed: see the note of each (spec.steps[tally], spec.steps[by-campaign])"
    )


def test_a_renamed_step_is_compared_with_what_it_was(holdfast: Holdfast) -> None:
    changed(("name: counts", "name: tally\n    was: counts"), RENAMED[1], ("window: 1m", "window: 2m"))
    tree = json.loads(holdfast("diff", "app.yaml", "new.yaml", "-o", "json").out)
    assert [(change["path"], change["cost"]) for change in tree["changes"]] == [
        ("spec.steps[counts].name", "Restart"),
        ("spec.steps[counts].aggregate.window", "NewRun"),
        ("spec.steps[out].from", "Restart"),
    ]
    assert tree["changes"][0]["note"] == "the state of counts follows"
    assert tree["changes"][1]["note"].startswith('was "1m" and is "2m": the state of this run was made by what it was')
    assert tree["refused"] == ["spec.steps[counts].aggregate.window"]


def test_a_renamed_step_in_a_new_run_needs_no_state(holdfast: Holdfast) -> None:
    changed(*RENAMED, ('runId: "1"', 'runId: "2"'))
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0


def test_an_intermediate_stream_under_another_name_is_refused(holdfast: Holdfast) -> None:
    changed(("name: by-campaign", "name: per-campaign"), ("from: [by-campaign]", "from: [per-campaign]"))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    assert ran.code == 1
    assert "rows on their way would stay behind in the intermediate stream of by-campaign" in ran.out


@pytest.mark.parametrize(
    ("old", "new", "path", "reason", "says"),
    [
        ("partitions: 4", "partitions: 6", "clicks", "NotAMultiple", "grew from 4 to 6 partitions, which is not a"),
        ("partitions: 4", "partitions: 2", "clicks", "PartitionsShrank", "keep partitions: 4"),
        ("partitions: 2", "partitions: 1", "counted", "PartitionsShrank", "keep partitions: 2"),
    ],
)
def test_partition_counts_that_the_run_refuses_are_refused(
    holdfast: Holdfast, old: str, new: str, path: str, reason: str, says: str
) -> None:
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    changed((old, new))
    ran = holdfast("diff", "app.yaml", "new.yaml", "-o", "json")
    (change,) = json.loads(ran.out)["changes"]
    assert ran.code == 1
    assert (change["path"], change["reason"]) == (f"spec.streams[{path}].partitions", reason)
    assert says in change["note"]


def test_a_growth_to_a_multiple_applies(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    changed(("partitions: 4", "partitions: 8"))
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0


def test_growth_by_a_non_multiple_applies_in_a_new_run(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    new_run = ("spec:\n", 'spec:\n  runId: "2"\n')
    changed(("partitions: 4", "partitions: 6"), new_run)
    assert holdfast("diff", "app.yaml", "new.yaml").code == 0
    changed(("partitions: 2", "partitions: 1"), new_run)
    assert holdfast("diff", "app.yaml", "new.yaml").code == 1


def test_long_values_are_shown_where_they_differ(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text(RUNNABLE.replace("ad STRING, n", f"{'x' * 80} INT, ad STRING, n"), encoding="utf-8")
    changed(("n BIGINT", "n INT"))
    line = next(line for line in holdfast("diff", "app.yaml", "new.yaml").out.splitlines() if "process.schema" in line)
    assert "n BIGINT" in line
    assert "n INT" in line


def test_a_changed_module_of_code_is_one_line(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    changed(('"n": len(rows)', '"n": len(rows) + 1'))
    ran = holdfast("diff", "app.yaml", "new.yaml")
    heading, change, empty = ran.out.splitlines()[:3]
    assert (heading.split()[0], empty) == ("FIELD", "")
    assert change.startswith("spec.runtime.code[f]")
    assert change.endswith("Restart")
    assert "len(rows)}\\n" in change
    assert "len(rows) + 1}\\n" in change
    assert len(change) < 150


def test_a_new_module_of_code_is_one_line(holdfast: Holdfast) -> None:
    Path("app.yaml").write_text(RUNNABLE, encoding="utf-8")
    changed(("    code:\n", "    code:\n      g: |\n        import os\n        import re\n"))
    lines = holdfast("diff", "app.yaml", "new.yaml").out.splitlines()
    assert lines[1].startswith("spec.runtime.code[g]")
    assert "import os\\n" in lines[1]
    assert lines[2] == ""


def test_a_refused_diff_is_json_where_json_was_asked_for(holdfast: Holdfast) -> None:
    changed(("window: 1m", "window: one minute"))
    ran = holdfast("diff", "app.yaml", "new.yaml", "-o", "json")
    tree = json.loads(ran.out)
    assert (ran.code, tree["error"]) == (1, "InvalidSpec")
    assert tree["problems"][0]["path"] == "spec.steps[4].aggregate.window"
    ran = holdfast("diff", "app.yaml", "nowhere.yaml", "-o", "json")
    assert (ran.code, json.loads(ran.out)["error"]) == (2, "FileUnreadableError")
    assert "nowhere.yaml" in ran.err


ORDERS = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: shop}
spec:
  systems: [{name: here, kafka: {bootstrapServers: "b:9092", registry: {url: "http://nowhere"}}}]
  streams:
  - {name: orders, system: here, partitions: 1, format: FORMAT, schema: "id BIGINT, cents BIGINT"}
  - {name: large, system: here, partitions: 1, format: FORMAT}
  steps:
  - {name: chosen, from: [orders], filter: "cents > 10"}
  - {name: out, from: [chosen], to: large}
"""


def with_schema(text: str, name: str = "avro") -> None:
    Path("app.yaml").write_text(ORDERS.replace("FORMAT", name), encoding="utf-8")
    Path("version").write_text(text, encoding="utf-8")


def order(cents: str, *more: dict[str, object]) -> str:
    fields = [{"name": "id", "type": "long"}, {"name": "cents", "type": cents}, *more]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def test_a_version_is_judged_before_it_is_registered(holdfast: Holdfast) -> None:
    with_schema(order("int", {"name": "shop", "type": "string", "default": "web"}))
    ran = holdfast("diff", "app.yaml", "--schema", "orders=version")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "orders  read, subject orders-value",
            "",
            "FIELD  SCHEMA  COLUMN  EFFECT",
            "id     long    BIGINT  fits",
            "cents  int     BIGINT  widened",
            "shop   string  -       ignored",
            "",
            "applies: with this version as the latest, the app starts",
        ],
    )
    ran = holdfast("diff", "app.yaml", "--schema", "orders=version", "--schema", "large=version")
    assert ran.code == 1
    assert 'shop   string  -       filled: default "web"' in ran.out
    assert ran.out.splitlines()[-1].startswith("refused: SchemaMisfitError: stream large: the rows do not fit the ")


def test_a_version_that_is_refused_is_json_where_asked(holdfast: Holdfast) -> None:
    with_schema(order("string"))
    ran = holdfast("diff", "app.yaml", "--schema", "orders=version", "-o", "json")
    tree = json.loads(ran.out)
    assert (ran.code, tree["changes"], tree["refused"]) == (1, [], ["spec.streams[orders]"])
    (judged,) = tree["schemas"]
    assert (judged["role"], judged["refused"], judged["error"]) == ("read", True, "SchemaMisfitError")
    assert judged["fields"][1] == {
        "path": "cents",
        "schema": "string",
        "column": "BIGINT",
        "effect": "refused",
        "why": "cents is string, and column cents is BIGINT; declare it as STRING",
    }


def test_a_version_is_judged_against_the_new_app(holdfast: Holdfast) -> None:
    with_schema(order("string"))
    changed(("cents BIGINT", "cents STRING"))
    assert holdfast("diff", "app.yaml", "--schema", "orders=version").code == 1
    ran = holdfast("diff", "app.yaml", "new.yaml", "--schema", "orders=version")
    assert ran.code == 0
    assert "spec.streams[orders].schema" in ran.out
    assert "orders  read, subject orders-value" in ran.out


def test_files_beside_a_message_are_imported(holdfast: Holdfast) -> None:
    with_schema("", "protobuf")
    text = 'syntax = "proto3"; import "money.proto"; message Order { int64 id = 1; Cents cents = 2; }'
    Path("order.proto").write_text(text, encoding="utf-8")
    ran = holdfast("diff", "app.yaml", "--schema", "orders=order.proto")
    assert (ran.code, "imports money.proto, which is not there" in ran.out) == (1, True)
    Path("money.proto").write_text('syntax = "proto3"; message Cents { int64 cents = 1; }', encoding="utf-8")
    ran = holdfast("diff", "app.yaml", "--schema", "orders=order.proto")
    assert "cents is Cents, and column cents is BIGINT" in ran.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give one of them"),
        (("--schema", "orders"), "--schema orders: write STREAM=FILE, e.g. orders=order.avsc"),
        (("--schema", "orders=version", "--schema", "orders=app.yaml"), "stream orders has version already"),
        (("-", "--schema", "orders=-"), "standard input is one file; write - once"),
        (("--schema", "order=version"), "there is no stream order; did you mean orders?"),
    ],
)
def test_versions_that_can_not_be_judged_say_why(holdfast: Holdfast, arguments: tuple[str, ...], why: str) -> None:
    with_schema(order("long"))
    ran = holdfast("diff", "app.yaml", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
