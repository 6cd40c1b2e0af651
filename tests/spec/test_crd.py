"""The definition: what the API server thinks of it, what it costs, how large it is, whether it is fresh."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.spec.crd import crd
from holdfast.spec.rules import RULES
from holdfast.spec.transitions import transition_rules
from holdfast_cli.output.yaml_text import to_yaml
from holdfast_cli.plan.builtin_commands import crd_text
from tests.crd.harness import CRD, Answer, Question, ask
from tests.operator.apps import tree

LARGEST = 128 * 1024
"""Half of what `kubectl apply` takes: it keeps what was applied as JSON, in an annotation of at most 256 KiB."""


def test_the_file_is_the_model() -> None:
    assert CRD.read_text() == crd_text(), "make generate"


def test_the_file_is_small_enough() -> None:
    assert len(json.dumps(crd(), separators=(",", ":"))) < LARGEST


@pytest.fixture(scope="module")
def definition() -> dict[str, Any]:
    """What the API server says of it."""
    return ask(()).definition


def test_the_api_server_accepts_the_definition(definition: dict[str, Any]) -> None:
    assert definition["errors"] == []


def test_rules_cost_a_third_of_what_they_may(definition: dict[str, Any]) -> None:
    assert all(rule["cost"] * 3 <= definition["ruleLimit"] for rule in definition["rules"]), definition["rules"][:3]
    assert definition["total"] * 3 <= definition["totalLimit"]


def test_every_rule_reaches_the_api_server(definition: dict[str, Any]) -> None:
    messages = {rule["message"] for rule in definition["rules"]}
    rules = {rule.message for rule in RULES if rule.cel is not None}
    assert rules | {rule.message for rule in transition_rules()} <= messages


@pytest.mark.parametrize(
    ("items", "change", "sentence"),
    [
        ("streams", {"system": "nope"}, 'streams name systems that exist: {"clicks":"nope"}'),
        ("steps", {"from": ["x"]}, 'steps read streams or steps that exist: {"written":["x"]}'),
        ("steps", {"to": "x"}, 'to names a stream that exists: {"written":"x"}'),
        ("steps", {"filter": "true"}, "step written: a step has exactly one verb"),
        ("steps", {"from": ["clicks", "clicks"]}, "step written: join reads two inputs"),
        ("streams", {"deadLetter": "clicks"}, "stream clicks: deadLetter names another stream"),
        ("systems", {"log": {}}, "system events: a system is exactly one of kafka, log, generator"),
    ],
)
def test_the_api_server_says_which_item_breaks_a_rule(items: str, change: dict[str, Any], sentence: str) -> None:
    app = tree()
    app["spec"][items][0] |= change
    (answer,) = ask([Question("app", app)]).answers.values()
    assert any(sentence in error for error in answer.errors), answer.errors


def test_a_missing_table_is_named_beside_existing_ones() -> None:
    app = tree()
    app["spec"]["tables"] = [{"name": "users", "key": ["k"], "schema": "k STRING"}]
    app["spec"]["steps"].append({"name": "seen", "from": ["clicks"], "lookup": {"table": "user", "by": ["k"]}})
    (answer,) = ask([Question("app", app)]).answers.values()
    assert any(
        'toTable, lookup and process name tables that exist: {"seen":"user"}' in error for error in answer.errors
    )


def test_steps_asking_an_app_without_tables_are_named() -> None:
    lookup, process = tree(), tree()
    call = {"function": "m:f", "by": ["k"], "tables": ["user"]}
    lookup["spec"]["steps"].append({"name": "seen", "from": ["clicks"], "lookup": {"table": "user", "by": ["k"]}})
    process["spec"]["steps"].append({"name": "seen", "from": ["clicks"], "process": call})
    answers = ask([Question("lookup", lookup), Question("process", process)]).answers
    for name, written in (("lookup", '"user"'), ("process", '["user"]')):
        sentence = f'toTable, lookup and process name tables that exist: {{"seen":{written}}}'
        assert any(sentence in error for error in answers[name].errors), answers[name].errors


NAMED_LISTS = ("systems", "streams", "tables", "steps")


def test_every_rule_about_items_names_those_that_break_it() -> None:
    nameless = [(path, rule["message"]) for path, rule in _rules() if _about_items(path, rule) and not _names(rule)]
    assert nameless == []


def _rules() -> Iterator[tuple[str, dict[str, str]]]:
    return ((path, rule) for path, node in _nodes(_schema(), "") for rule in node.get("x-kubernetes-validations", ()))


def _about_items(path: str, rule: dict[str, str]) -> bool:
    """By where it stands, or by what it asks."""
    return "[]" in path or re.search(rf"\.({'|'.join(NAMED_LISTS)})\b", rule["rule"]) is not None


def _names(rule: dict[str, str]) -> bool:
    return re.search(r"(self|item|each)\.(name|key)\b", rule.get("messageExpression", "")) is not None


AGGREGATE = {"by": ["k"], "compute": ["count(*) AS n"]}
JOIN = {"by": ["k"], "type": "Inner"}
STEP_RULES: list[tuple[dict[str, Any], str]] = [
    (
        {"join": {**JOIN, "within": "1m", "before": "1m"}},
        "join: * step odd: a join has within, or before, after or both",
    ),
    (
        {"aggregate": {**AGGREGATE, "window": "1m", "session": "1m"}},
        "aggregate: * step odd: window and session exclude",
    ),
    ({"aggregate": {**AGGREGATE, "session": "1m", "emit": "Update"}}, "aggregate: * step odd: a session has no emit"),
    ({"aggregate": {**AGGREGATE, "window": "0s"}}, "aggregate.window: * step odd: must be longer than nothing"),
    ({"deduplicate": {"by": ["k"], "within": "0s"}}, "deduplicate.within: * step odd: must be longer than nothing"),
    ({"filter": "true", "deadLetter": "gone"}, 'deadLetter names a stream that exists: {"odd":"gone"}'),
    ({"merge": {}, "name": "clicks"}, 'streams and steps share one space of names: {"clicks":"a stream is called so"}'),
    ({"to": "made"}, 'a stream of a generator can\'t be written to: {"odd":"made"}'),
    ({"toTable": "fed"}, 'a table has side inputs, files or writers: one of them: {"odd":"fed"}'),
    ({"to": "side"}, 'takes no dead letters: {"odd":"it reads or writes one"}'),
    ({"process": {"function": "f:g", "by": ["k"]}, "was": "written"}, 'belongs to one step: {"written":"odd"}'),
]


OTHER_RULES: list[tuple[str, dict[str, Any], str]] = [
    (
        "systems",
        {"kafka": {"bootstrapServers": "k:1", "config": {"sasl.password": "x"}}},
        "kafka: * system odd: a secret",
    ),
    ("streams", {"eventTime": {"column": "t", "idleAfter": "0s"}}, "eventTime.idleAfter: * stream odd: must be longer"),
    ("streams", {"system": "dice", "retention": "1h"}, 'for streams of a Kafka system: {"odd":"dice"}'),
    (
        "streams",
        {"onDecodeError": "DeadLetter", "deadLetter": "gone"},
        'deadLetter names a stream that exists: {"odd":"g',
    ),
    ("streams", {"onDecodeError": "DeadLetter", "deadLetter": "made"}, 'can\'t be written to: {"odd":"made"}'),
    ("streams", {"onDecodeError": "DeadLetter", "deadLetter": "side"}, 'takes no dead letters: {"odd":"side"}'),
    ("streams", {"was": "clicks"}, 'belongs to one stream, and to no step: {"clicks":"odd"}'),
    ("streams", {"was": "written"}, 'belongs to one stream, and to no step: {"written":"odd"}'),
    ("tables", {"sources": ["gone"]}, 'sources name streams that exist: {"odd":["gone"]}'),
    ("tables", {"sources": ["side"], "maxAge": "0s"}, "maxAge: * table odd: must be longer than nothing"),
]


BREACHES = [*(("steps", step, sentence) for step, sentence in STEP_RULES), *OTHER_RULES]


@pytest.fixture(scope="module")
def breaches() -> dict[str, Answer]:
    """What the API server says of all of them at once."""
    return ask([Question(sentence, _with(items, fields)) for items, fields, sentence in BREACHES]).answers


def _with(items: str, fields: dict[str, Any]) -> dict[str, Any]:
    """An app with an odd item."""
    usual: dict[str, dict[str, Any]] = {
        "steps": {"from": ["clicks"]},
        "streams": {"system": "events"},
        "tables": {"key": ["k"]},
    }
    app = _with_everything()
    app["spec"][items].append({"name": "odd", **usual.get(items, {}), **fields})
    return app


@pytest.mark.parametrize("sentence", [sentence for *_, sentence in BREACHES])
def test_the_api_server_names_the_item_that_breaks_a_rule(sentence: str, breaches: dict[str, Answer]) -> None:
    assert any(_is_like(error, sentence) for error in breaches[sentence].errors), breaches[sentence].errors


def test_the_api_server_names_steps_whose_state_forbids_a_spec() -> None:
    before, after, apart = _with_everything(), _with_everything(), _with_everything()
    for app, window in ((before, "1m"), (after, "2m"), (apart, "1m")):
        app["spec"]["steps"].append({"name": "sums", "from": ["clicks"], "aggregate": {**AGGREGATE, "window": window}})
    apart["spec"]["grouping"] = "ByStreamPartition"
    answers = ask([Question("changed", after, before), Question("apart", apart)]).answers
    changed = 'and it alone starts from nothing: {"sums":["aggregate.window"]}'
    assert any(changed in error for error in answers["changed"].errors), answers["changed"].errors
    stateless = 'ByStreamPartition is for apps without state: {"sums":"it keeps state"}'
    assert any(stateless in error for error in answers["apart"].errors), answers["apart"].errors


def _with_everything() -> dict[str, Any]:
    """An app with a system, a stream and a table of each kind that rules ask for."""
    app = tree()
    app["spec"]["systems"].append({"name": "dice", "generator": {"function": "f:g"}})
    app["spec"]["streams"] += [{"name": "made", "system": "dice"}, {"name": "side", "system": "events", "key": ["k"]}]
    app["spec"]["tables"] = [{"name": "fed", "sources": ["side"], "key": ["k"]}, {"name": "users", "key": ["k"]}]
    return app


def _is_like(error: str, pattern: str) -> bool:
    """`*` stands for anything."""
    return re.search(".*".join(map(re.escape, pattern.split("*"))), error) is not None


def test_a_rule_left_out_of_the_limits_is_noticed(tmp_path: Path) -> None:
    definition = crd()
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    rule = "self.steps.all(step, step.from.all(name, self.steps.exists(other, other.name == name)))"
    spec["x-kubernetes-validations"].append({"rule": rule, "message": "quadratic"})
    file = tmp_path / "crd.yaml"
    file.write_text(to_yaml(definition))
    errors = ask((), file).definition["errors"]
    assert any("exceeds budget" in error for error in errors)


def test_kubectl_shows_what_matters() -> None:
    (version,) = crd()["spec"]["versions"]
    names = [column["name"] for column in version["additionalPrinterColumns"]]
    assert names == ["Ready", "Reason", "Tasks", "Placed", "Partitions", "Restarts", "Attempt", "Message", "Age"]
    assert crd()["spec"]["names"]["shortNames"] == ["sapp"]
    assert version["subresources"] == {"status": {}}


def test_every_field_is_described() -> None:
    bare = [path for path, node in _nodes(_schema(), "") if _is_ours(path) and "description" not in node]
    assert bare == []


@pytest.mark.parametrize("word", ["anyOf", "default", "title", "$ref", "examples", "nullable", "const"])
def test_the_schema_holds_nothing_of_pydantic(word: str) -> None:
    assert [path for path, node in _nodes(_schema(), "") if word in node] == []


def test_named_lists_merge_by_name() -> None:
    spec = _schema()["properties"]["spec"]["properties"]
    merged = [name for name, node in spec.items() if node.get("x-kubernetes-list-map-keys") == ["name"]]
    assert merged == ["systems", "streams", "tables", "steps"]


def test_pod_templates_are_open() -> None:
    open_at = [path for path, node in _nodes(_schema(), "") if "x-kubernetes-preserve-unknown-fields" in node]
    assert open_at == [".spec.runtime.driver.podTemplate", ".spec.runtime.executors.podTemplate"]


def test_every_list_map_and_text_has_a_bound() -> None:
    endless = []
    for path, node in _nodes(_schema(), ""):
        values = node.get("additionalProperties", {})
        endless += [f"{path}[]"] * (node.get("type") == "array" and "maxItems" not in node)
        endless += [f"{path}{{}}"] * ("additionalProperties" in node and "maxProperties" not in node)
        endless += [path] * _endless_text(node)
        endless += [f"{path}.*"] * _endless_text(values)
    # Two that Kubernetes describes, and two times that the operator writes. Pod templates are open: how deep and large
    # they are, no schema can say, and the operator counts before it reads them.
    assert endless == [".apiVersion", ".kind", ".status.retryAt", ".status.conditions[].lastTransitionTime"]


def _endless_text(node: dict[str, Any]) -> bool:
    return node.get("type") == "string" and "maxLength" not in node and "enum" not in node


def _schema() -> Any:
    return crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def _is_ours(path: str) -> bool:
    """Fields, not items; and not the three that Kubernetes describes."""
    return not path.endswith("[]") and path not in (".apiVersion", ".kind", ".metadata")


def _nodes(node: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from _nodes(child, f"{path}.{name}")
    if "items" in node:
        yield from _nodes(node["items"], f"{path}[]")


def test_a_refused_change_of_state_offers_what_costs_less() -> None:
    messages = {rule.items: rule.message.partition("set a new spec.runId")[2] for rule in transition_rules()}
    assert messages["steps"] == ", or give the step another name, and it alone starts from nothing"
    assert messages["tables"] == ", or give the table another name, and it alone is filled anew"
    assert messages["streams"] == messages[""] == ""
