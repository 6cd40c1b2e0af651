"""What may change while state is kept: the API server's rules against the change classes of the model.

The expected verdict is worked out here from two parsed apps; nothing of the generated rules goes into it.
"""

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import ChangeCost, change_of, items_of_list, name_in_files, object_of
from holdfast.spec.parse import parse_app
from holdfast.spec.transitions import transition_rules
from tests.crd.harness import Answer, Question, ask
from tests.spec.base_app import BASE, SMALL, add, drop, put
from tests.spec.corpus import CASES

REFUSAL = re.compile(r"state cannot follow this change of (\S+): set a new spec\.runId.*?: ([\[{].*)")
_JOIN = {"name": "counts", "from": ["valid", "impressions"], "join": {"by": ["ad_id"], "within": "1m"}}
_SELECT = {"name": "valid", "from": ["clicks"], "select": ["1 AS x"]}
_DEDUPLICATE = {"name": "valid", "from": ["clicks"], "deduplicate": {"by": ["x"]}}
_KAFKA = {"name": "files", "kafka": {"bootstrapServers": "a:1"}}


@dataclass(frozen=True, slots=True)
class Pair:
    """A spec put in the place of another."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]


def _refused(pair: Pair) -> frozenset[str]:
    """The fields whose change the API server must refuse."""
    old, new = parse_app(pair.old).spec, parse_app(pair.new).spec
    return frozenset() if old.run_id != new.run_id else frozenset(_costly(old, new, "spec"))


def _costly(old: BaseModel, new: BaseModel, at: str) -> Iterator[str]:
    """The fields between two objects that cost a new run."""
    for attribute, field in type(old).model_fields.items():
        was, is_now = getattr(old, attribute), getattr(new, attribute)
        path = f"{at}.{name_in_files(attribute, field)}"
        if was == is_now:
            continue
        if items_of_list(field) is not None:
            former = {item.name: item for item in was}
            if {item.name for item in is_now} != set(former) and change_of(field) is ChangeCost.NEW_RUN:
                yield path
            for item in is_now:
                if item.name in former:
                    yield from _costly(former[item.name], item, f"{path}[]")
        elif isinstance(was, BaseModel) and isinstance(is_now, BaseModel):
            yield from _costly(was, is_now, path)
        elif change_of(field) is ChangeCost.NEW_RUN:
            yield path


def _scenarios() -> Iterator[Pair]:
    """Changes a user makes, by what they are."""
    run = ("spec.runId", "2")
    yield from (
        Pair(name, BASE, new)
        for name, new in {
            "nothing": BASE,
            "a new run": put(*run),
            "a new run and all else": put(*run, SMALL) | {"metadata": BASE["metadata"]},
            "another key": put("spec.streams.clicks.key", ["user"]),
            "another key in a new run": put(*run, put("spec.streams.clicks.key", ["user"])),
            "a key in another order": put("spec.steps.counts.aggregate.by", ["x", "campaign"]),
            "a stream more": add("spec.streams", {"name": "more", "system": "files"}),
            "a system more": add("spec.systems", {"name": "more", "log": {}}),
            "a step more": add("spec.steps", {"name": "more", "from": ["valid"], "filter": "true"}),
            "a stateful step more": add("spec.steps", _DEDUPLICATE | {"name": "more"}),
            "a stateful step less": drop("spec.steps.totals"),
            "a table more": add("spec.tables", {"name": "more", "key": ["x"]}),
            "steps in another order": put("spec.steps", BASE["spec"]["steps"][::-1]),
            "streams in another order": put("spec.streams", BASE["spec"]["streams"][::-1]),
            "systems in another order": put("spec.systems", BASE["spec"]["systems"][::-1]),
            "an aggregate becomes a join": put("spec.steps.counts", _JOIN),
            "a filter becomes a select": put("spec.steps.valid", _SELECT),
            "a filter becomes a deduplicate": put("spec.steps.valid", _DEDUPLICATE),
            "a window becomes a session": put(
                "spec.steps.counts.aggregate", {"by": ["campaign"], "session": "2m", "compute": ["count(*) AS n"]}
            ),
            "a system changes its kind": put("spec.systems.files", _KAFKA),
            "everything absent that has a default": SMALL | {"metadata": BASE["metadata"]},
            "a longer join": put("spec.steps.matched.join.within", "20m"),
            "storage class appears nowhere": drop("spec.state.storageClass"),
            "changelog left out": drop("spec.runtime.checkpoint.changelog"),
            "changelog in another system": put(
                "spec.runtime.checkpoint.changelog.system", "files", put("spec.systems.files", _KAFKA)
            ),
            "checkpoint left out": drop("spec.runtime.checkpoint"),
            "runtime left out": drop("spec.runtime"),
            "executors scaled": put("spec.runtime.executors.count", 100),
            "suspended no more": put("spec.suspend", value=False),
        }.items()
    )  # fmt: skip
    for step in BASE["spec"]["steps"]:
        other = {"name": step["name"], "from": step["from"][:1], "filter": "false"}
        yield Pair(f"{step['name']} becomes a filter", BASE, put(f"spec.steps.{step['name']}", other))
        yield Pair(f"{step['name']} was a filter", put(f"spec.steps.{step['name']}", other), BASE)
    yield Pair("a generator becomes a log", BASE, put("spec.systems.made", {"name": "made", "log": {}}))


_EXPLICIT_DEFAULTS = {
    "spec.runId": "1",
    "spec.grouping": "ByPartition",
    "spec.tables": [],
    "spec.planning": {},
    "spec.expansion": {},
    "spec.runtime": {},
    "spec.state": {},
    "spec.restart": {},
    "spec.streams.in.partitioner": "murmur2",
    "spec.streams.in.control": False,
}


def _explicit_defaults() -> Iterator[Pair]:
    """An absent field and its default are equal, in both directions."""
    deeper = {
        "planning": {"planning": {"maxIntermediatePartitions": 256}},
        "state": {"state": {"size": "10Gi", "location": "Claim"}},
        "runtime": {"runtime": {"trigger": {}, "executors": {"count": 2}}},
    }
    trees = {path: put(path, value, SMALL) for path, value in _EXPLICIT_DEFAULTS.items()}
    trees |= {name: SMALL | {"spec": SMALL["spec"] | spec} for name, spec in deeper.items()}
    for name, tree in trees.items():
        yield Pair(f"default of {name} written out", SMALL, tree)
        yield Pair(f"default of {name} left out", tree, SMALL)
    join = put("spec.steps.matched.join", {"by": ["ad_id"], "within": "10m"})
    yield Pair("join.type written out", join, put("spec.steps.matched.join.type", "Inner", join))
    yield Pair("join.type left out", put("spec.steps.matched.join.type", "Inner", join), join)
    yield Pair("join.type from the default", join, put("spec.steps.matched.join.type", "Full", join))


def _from_the_corpus() -> Iterator[Pair]:
    """Every good spec in the place of the base and the other way round, and many of each other's."""
    good = [case for case in CASES if case.good]
    for case in good:
        yield Pair(f"base -> {case.name}", BASE, case.tree)
        yield Pair(f"{case.name} -> base", case.tree, BASE)
    chance = random.Random(7)  # noqa: S311 - the same pairs at each run
    for i in range(300):
        old, new = chance.sample(good, 2)
        yield Pair(f"{i}: {old.name} -> {new.name}", old.tree, new.tree)


def _of_one_object(pair: Pair) -> Pair:
    """Both under one name: Kubernetes itself refuses another."""
    metadata = {"metadata": {"name": "app", "namespace": "default", "resourceVersion": "1", "uid": "1"}}
    return Pair(pair.name, pair.old | metadata, pair.new | metadata)


# Names are ids of tests and keys of answers.
PAIRS = tuple(map(_of_one_object, (*_scenarios(), *_explicit_defaults(), *_from_the_corpus())))
assert len({pair.name for pair in PAIRS}) == len(PAIRS)
BY_NAME = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


@pytest.fixture(scope="module")
def answers() -> dict[str, Answer]:
    return ask(Question(pair.name, pair.new, pair.old) for pair in PAIRS).answers


@pytest.fixture(scope="module")
def refused() -> dict[str, frozenset[str]]:
    return {pair.name: _refused(pair) for pair in PAIRS}


@BY_NAME
def test_exactly_what_costs_a_new_run_is_refused(
    pair: Pair, answers: dict[str, Answer], refused: dict[str, frozenset[str]]
) -> None:
    named = [list(_named(error)) for error in answers[pair.name].errors]
    assert sorted(field for fields in named for field in fields) == sorted(refused[pair.name])
    assert all(named), "an error that names nothing"


def _named(error: str) -> Iterator[str]:
    """The fields that an error says have changed, whichever items they are of."""
    refusal = REFUSAL.search(error)
    assert refusal, error
    where, fields = refusal[1], json.loads(refusal[2])
    if isinstance(fields, list):
        yield from (f"{where}.{field}" for field in fields)
    else:
        yield from {f"{where}[].{field}" for changed in fields.values() for field in changed}


def test_every_field_that_costs_a_new_run_is_covered(refused: dict[str, frozenset[str]]) -> None:
    tried = frozenset[str]().union(*refused.values())
    assert tried == {field for rule in transition_rules() for field in rule.fields}
    assert tried == set(_costing(AppSpec, "spec")) - {"spec.runId"}


def test_there_are_pairs_of_both_kinds(refused: dict[str, frozenset[str]]) -> None:
    assert sum(map(bool, refused.values())) >= 60
    assert sum(not fields for fields in refused.values()) >= 60


def _costing(model: type[BaseModel], at: str) -> Iterator[str]:
    """The fields of the model that cost a new run, but for names by which items are matched."""
    for attribute, field in model.model_fields.items():
        path = f"{at}.{name_in_files(attribute, field)}"
        inner = _model_of(field)
        if change_of(field) is ChangeCost.NEW_RUN and not path.endswith("[].name") and not _has_defaults(field.default):
            yield path
        if inner is not None:
            yield from _costing(inner, f"{path}[]" if items_of_list(field) else path)


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    return object_of(field) or items_of_list(field)


def _has_defaults(default: object) -> bool:
    """An object that is never absent: only its fields can change."""
    return isinstance(default, BaseModel)
