"""`holdfast plan` as a user meets it: exit codes, what is printed where, files of all kinds."""

import io
import json
from pathlib import Path

import pytest

from holdfast.planning.plan import PlanningFacts, apply_all_repairs
from holdfast.spec.diff import diff
from holdfast_cli.plan import plan_command
from holdfast_cli.plan.app_file import load_app
from holdfast_cli.plan.fix import repaired_text
from tests.cli.conftest import Holdfast


def edit(*replaced: tuple[str, str], path: str = "app.yaml") -> None:
    text = Path(path).read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    Path(path).write_text(text, encoding="utf-8")


def test_a_valid_plan_exits_0_and_ends_with_its_verdict(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "valid: 2 inputs, 1 intermediate stream, 6 steps, 16 tasks, no Spark SQL"


def test_a_rejected_plan_exits_1_with_lines_counts_and_repairs(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--partitions", "clicks=8")
    assert ran.code == 1
    for part in (
        "PartitionCountMismatch at matched (app.yaml:44:5)",
        "clicks -> valid -> matched",
        "- {name: valid-by-ad-id, from: [valid], repartition: {by: [ad_id]}}",
        "rejected: 1 problem",
    ):
        assert part in ran.out


def test_no_trailing_spaces_and_no_colours_leak_into_a_pipe(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--wide", "--partitions", "clicks=8")
    assert "\x1b" not in ran.out
    assert [line for line in ran.out.splitlines() if line != line.rstrip()] == []


def test_colours_come_when_asked_for(holdfast: Holdfast) -> None:
    assert "\x1b[" in holdfast("plan", "app.yaml", "--color", "always").out


def test_the_json_of_a_plan_has_the_pinned_shape(holdfast: Holdfast) -> None:
    tree = json.loads(holdfast("plan", "app.yaml", "--partitions", "clicks=8", "-o", "json").out)
    assert (tree["app"], tree["valid"]) == ("ad-clicks", False)
    assert {
        name: type(tree[name]) for name in ("streams", "joins", "tasks", "assignment", "moved", "warnings", "problems")
    } == {
        "streams": list,
        "joins": list,
        "tasks": list,
        "assignment": dict,
        "moved": list,
        "warnings": list,
        "problems": list,
    }
    clicks = next(one for one in tree["streams"] if one["name"] == "clicks")
    assert (clicks["role"], clicks["partitions"], clicks["decidedBy"]) == ("input", 8, "given")
    problem = tree["problems"][0]
    assert (problem["reason"], problem["step"]) == ("PartitionCountMismatch", "matched")
    assert problem["streams"] == {"clicks": 8, "impressions": 16}
    assert "repartition valid by ad_id into 16" in problem["repair"]


def test_what_needs_spark_sql_is_named(holdfast: Holdfast) -> None:
    edit(('"user IS NOT NULL"', '"initcap(user) <> user"'), ('"count(*) AS n"', '"max(from_csv(user, user)) AS n"'))
    lines = holdfast("plan", "app.yaml").out.splitlines()
    start = lines.index("SPARK SQL IN  FIELD      EXPRESSION")
    assert lines[start + 1 : start + 5] == [
        "step valid    filter     initcap(user) <> user",
        "step counts   aggregate  max(from_csv(user, user)) AS n",
        "... and maybe more: only Spark knows the columns of step counts",
        "so each batch is a Spark job, about 0.1 s more",
    ]
    assert "no Spark SQL" not in lines[-1]


def test_what_needs_spark_sql_is_in_json(holdfast: Holdfast) -> None:
    none = {"expressions": [], "complete": True}
    assert json.loads(holdfast("plan", "app.yaml", "-o", "json").out)["sparkSql"] == none
    edit(('"user IS NOT NULL"', '"initcap(user) <> user"'))
    expression = {"owner": "step valid", "field": "filter", "text": "initcap(user) <> user"}
    assert json.loads(holdfast("plan", "app.yaml", "-o", "json").out)["sparkSql"] == none | {
        "expressions": [expression]
    }
    ran = holdfast("plan", "app.yaml", "-o", "json", "--partitions", "clicks=8")
    assert json.loads(ran.out)["sparkSql"] is None


def test_a_plan_without_the_runtime_is_silent_about_spark(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_command, "find_spec", lambda _: None)
    assert holdfast("plan", "app.yaml").out.splitlines()[-1].endswith("16 tasks")


def test_tasks_in_json_list_their_partitions(holdfast: Holdfast) -> None:
    tree = json.loads(holdfast("plan", "app.yaml", "-o", "json").out)
    assert tree["tasks"][0]["name"] == "partition-0"
    assert {"clicks/0", "impressions/0"} <= set(tree["tasks"][0]["inputs"])
    assert tree["joins"] == [{"step": "matched", "streams": ["clicks", "impressions"], "partitions": 16}]


def test_all_schema_errors_have_line_column_path_and_cure(holdfast: Holdfast) -> None:
    edit(
        ("lateness: 10s}", "latenes: 10s}"),
        ("partitions: 4\n", 'partitions: "4"\n'),
        ("from: [counts]", "from: [count]"),
    )
    ran = holdfast("plan", "app.yaml")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert (
        lines[0]
        == "app.yaml:24:29: spec.streams[1].eventTime.latenes: there is no field latenes here; did you mean lateness?"
    )
    assert lines[1] == 'app.yaml:27:5: spec.streams[2].partitions: must be a whole number without quotes; found "4"'
    assert lines[2].startswith(
        "app.yaml:57:12: spec.steps[5].from[0]: there is no stream or step count; did you mean counts?"
    )
    assert lines[-1] == "rejected: InvalidSpec: 3 errors in app.yaml"


@pytest.mark.parametrize("command", [("plan",), ("run", "--for", "1s")])
def test_a_claim_beside_a_bucket_is_refused_here_too(holdfast: Holdfast, command: tuple[str, ...]) -> None:
    app = Path("app.yaml")
    checkpoint = "  runtime: {checkpoint: {claim: shared, location: s3a://bucket/apps}}\n"
    app.write_text(app.read_text(encoding="utf-8") + checkpoint, encoding="utf-8")
    ran = holdfast(*command, "app.yaml")
    assert ran.code == 1
    assert "spec.runtime.checkpoint.location: there is a claim, which is mounted at a path" in ran.out + ran.err


def test_schema_errors_in_json_carry_reason_path_and_place(holdfast: Holdfast) -> None:
    edit(('runId: "1"', "runId: 1"))
    ran = holdfast("plan", "app.yaml", "-o", "json")
    tree = json.loads(ran.out)
    assert (ran.code, tree["app"], tree["valid"]) == (1, "ad-clicks", False)
    problem = tree["problems"][0]
    assert (problem["reason"], problem["path"], problem["line"]) == ("InvalidSpec", "spec.runId", 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [", "not YAML"),
        ("", "holds no StreamApp"),
        ("kind: Pod\n---\nkind: Service\n", "holds no StreamApp"),
        ("kind: StreamApp\n---\nkind: StreamApp\n", "2 StreamApps"),
    ],
)
def test_a_file_without_an_app_is_unreadable_and_exits_2(holdfast: Holdfast, text: str, message: str) -> None:
    Path("other.yaml").write_text(text, encoding="utf-8")
    ran = holdfast("plan", "other.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "other.yaml" in ran.err
    assert message in ran.err


def test_a_missing_file_is_named(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "nowhere.yaml")
    assert ran.code == 2
    assert "nowhere.yaml" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--partitions", "click=8"), "has no stream click (streams: attributed, campaigns, clicks, impressions)"),
        (("--partitions", "clicks=0"), "N at least 1"),
        (("--partitions", "clicks"), "clicks=N"),
        (("--record", "nowhere.json"), "nowhere.json"),
        (("--timeout", "0"), "more than 0"),
        (("-o", "png"), "invalid choice"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_right(holdfast: Holdfast, arguments: tuple[str, ...], message: str) -> None:
    ran = holdfast("plan", "app.yaml", *arguments)
    assert ran.code == 2
    assert message in ran.err


def test_an_app_beside_other_objects_is_found(holdfast: Holdfast) -> None:
    text = Path("app.yaml").read_text(encoding="utf-8")
    Path("app.yaml").write_text(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\n---\n{text}", encoding="utf-8"
    )
    assert holdfast("plan", "app.yaml").code == 0


def test_standard_input_is_read_for_a_dash(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(Path("app.yaml").read_text(encoding="utf-8")))
    assert holdfast("plan", "-").code == 0


def test_words_kubectl_reads_as_booleans_are_refused_in_place(holdfast: Holdfast) -> None:
    edit(("key: [ad_id]", "key: [y]"))
    ran = holdfast("plan", "app.yaml")
    assert ran.code == 1
    assert "kubectl reads the unquoted y as a boolean; put it in quotes" in ran.out


def test_keys_given_twice_are_refused(holdfast: Holdfast) -> None:
    edit(("    partitions: 4\n", "    partitions: 4\n    partitions: 5\n"))
    assert "partitions is given twice" in holdfast("plan", "app.yaml").out


def test_fix_changes_nothing_but_what_the_repair_says(holdfast: Holdfast) -> None:
    ran = holdfast("plan", "app.yaml", "--partitions", "clicks=8", "--fix")
    assert ran.code == 0
    assert ran.err == "repaired: repartition valid by ad_id into 16\n"
    before, after = Path("app.yaml").read_text(encoding="utf-8").splitlines(), ran.out.splitlines()
    assert [line for line in after if line not in before] == [
        "  - {name: valid-by-ad-id, from: [valid], repartition: {by: [ad_id]}}",
        "    from: [valid-by-ad-id, impressions]",
    ]
    assert [line for line in before if line not in after] == ["    from: [valid, impressions]"]
    Path("fixed.yaml").write_text(ran.out, encoding="utf-8")
    assert holdfast("plan", "fixed.yaml", "--partitions", "clicks=8").code == 0


def test_a_repaired_file_says_what_the_repaired_model_says(holdfast: Holdfast) -> None:
    assert holdfast("plan", "app.yaml").code == 0
    file = load_app("app.yaml")
    assert file.app is not None
    result = apply_all_repairs(file.app, PlanningFacts(given={"clicks": 8}))
    Path("fixed.yaml").write_text(repaired_text(file, result), encoding="utf-8")
    rewritten = load_app("fixed.yaml").app
    assert rewritten is not None
    assert diff(result.app, rewritten).changes == ()


def test_fix_says_what_it_cannot_mend_and_exits_1(holdfast: Holdfast) -> None:
    edit(("user IS NOT NULL", "usr IS NOT NULL"))
    ran = holdfast("plan", "app.yaml", "--fix")
    assert ran.code == 1
    assert "left: UnknownColumn at valid" in ran.err


def test_a_growth_shows_which_task_gets_which_new_partition(holdfast: Holdfast) -> None:
    grouping = {f"partition-{i}": [f"clicks/{i}", f"impressions/{i}"] for i in range(16)}
    Path("record.json").write_text(json.dumps({"runId": "1", "grouping": grouping}), encoding="utf-8")
    ran = holdfast("plan", "app.yaml", "--record", "record.json", "--partitions", "clicks=32")
    assert ran.code == 0
    assert "clicks/16 to partition-0, clicks/17 to partition-1" in ran.out
    refused = holdfast("plan", "app.yaml", "--record", "record.json", "--partitions", "clicks=20")
    assert refused.code == 1
    assert "NotAMultiple" in refused.out


def write_record_and_processors(processors: object) -> None:
    tasks = [f"partition-{i}" for i in range(16)]
    record = {
        "runId": "1",
        "grouping": {task: [f"clicks/{i}", f"impressions/{i}", f"by-campaign/{i}"] for i, task in enumerate(tasks)},
        "taskLocation": {task: f"node-{i % 2}" for i, task in enumerate(tasks)},
        "taskProcessor": {task: f"exec-{i % 2}" for i, task in enumerate(tasks)},
    }
    Path("record.json").write_text(json.dumps(record), encoding="utf-8")
    Path("processors.json").write_text(json.dumps(processors), encoding="utf-8")


def test_with_processors_it_shows_where_tasks_run_and_what_moves(holdfast: Holdfast) -> None:
    write_record_and_processors({"exec-0": "node-0", "exec-7": "node-7"})
    files = ("--record", "record.json", "--processors", "processors.json")
    ran = holdfast("plan", "app.yaml", *files)
    assert ran.code == 0
    assert "exec-7     node-7        8" in ran.out
    tree = json.loads(holdfast("plan", "app.yaml", *files, "-o", "json").out)
    assert sorted(tree["assignment"]["exec-0"]) == sorted(f"partition-{i}" for i in range(0, 16, 2))
    assert {"task": "partition-1", "from": "node-1", "to": "node-7"} in tree["moved"]
    assert len(tree["moved"]) == 8


def test_where_nothing_changed_nothing_moves(holdfast: Holdfast) -> None:
    write_record_and_processors({"exec-1": "node-1", "exec-0": "node-0"})
    out = holdfast("plan", "app.yaml", "--record", "record.json", "--processors", "processors.json").out
    assert "MOVED" not in out


@pytest.mark.parametrize("processors", [[], {"exec-1": 3}, "x"])
def test_a_processors_file_of_another_shape_is_refused(holdfast: Holdfast, processors: object) -> None:
    write_record_and_processors(processors)
    ran = holdfast("plan", "app.yaml", "--processors", "processors.json")
    assert ran.code == 2
    assert "processors.json must map processors to locations" in ran.err


@pytest.mark.parametrize(("output", "start"), [("svg", "<svg"), ("mermaid", "flowchart"), ("dot", "digraph")])
def test_pictures_are_printed(holdfast: Holdfast, output: str, start: str) -> None:
    ran = holdfast("plan", "app.yaml", "-o", output)
    assert ran.code == 0
    assert start in ran.out[:200]


@pytest.mark.parametrize("command", ["plan", "diff", "crd"])
def test_every_command_has_help(holdfast: Holdfast, command: str) -> None:
    ran = holdfast(command, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"usage: holdfast {command}")


def test_the_crd_is_printed_as_it_is_committed(holdfast: Holdfast) -> None:
    committed = Path(__file__).parents[2] / "crds" / "streamapps.holdfast.dev.yaml"
    assert holdfast("crd").out == committed.read_text(encoding="utf-8")
