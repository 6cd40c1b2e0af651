"""The good and bad specs that model and API server must agree on, each a base spec changed in one place.

Left out on purpose, because they can't reach an app or can't hurt it: whole numbers written as 8.0 (the API server
takes them, no YAML writer makes them), unknown fields of metadata (Kubernetes' own business, the model lets them be),
keys given twice (no tree holds them), and half of a surrogate pair (no JSON text holds it).
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.spec.base_app import BASE, SMALL, Path, add, drop, put, resolve
from tests.spec.field_values import ROWS


@dataclass(frozen=True, slots=True)
class Case:
    """A spec, and what everyone must think of it."""

    name: str
    tree: dict[str, Any]
    good: bool
    near: Path = ()
    """Where the model must see an error, or below."""


def cases() -> tuple[Case, ...]:
    """All of them; names are unique."""
    all_cases = (*_of_fields(), *_of_presence(), *_of_rules(), *_of_shapes())
    names = [case.name for case in all_cases]
    assert len(set(names)) == len(names), {name for name in names if names.count(name) > 1}
    return all_cases


def _of_fields() -> Iterator[Case]:
    for row in ROWS:
        path = resolve(BASE, row.path)
        for i, value in enumerate(row.good):
            yield Case(f"{row.path} may be {_short(value)} #{i}", put(row.path, value), good=True)
        for i, value in enumerate(row.refused):
            yield Case(f"{row.path} can't be {_short(value)} #{i}", put(row.path, value), good=False, near=path[:-1])


def _of_presence() -> Iterator[Case]:
    for row in ROWS:
        must = row.required or row.path in _NEEDED_BY_OTHERS
        for how, tree in (("left out", drop(row.path)), ("null", put(row.path, None))):
            near = resolve(BASE, row.path)[:-1] if row.required else ()
            if how == "null" and row.path.count(".") == 2 and row.kind == "object" and row.path in _ITEMS:
                # A null item of a list is no absent one.
                yield Case(f"{row.path} is null", tree, good=False)
            else:
                yield Case(f"{row.path} is {how}", tree, good=not must, near=near if must else ())


_ITEMS = ("spec.systems.events", "spec.streams.clicks", "spec.tables.campaign-info", "spec.steps.out")
_NEEDED_BY_OTHERS = (
    "spec.systems", "spec.streams", "spec.tables", "spec.steps", "spec.systems.events", "spec.streams.clicks",
    "spec.tables.campaign-info", "spec.systems.events.kafka", "spec.systems.files.log", "spec.systems.made.generator",
    "spec.streams.impressions.deadLetter", "spec.tables.campaign-info.sources", "spec.steps.valid.onError",
    "spec.steps.valid.deadLetter", "spec.steps.first.late", "spec.tables.rates.files", "spec.tables.rates.schema",
    "spec.tables.rates.distribution", "spec.tables.rates.versioned",
)  # fmt: skip
"""Optional by themselves, but the base spec uses them, or has another field that needs them."""

_FILES = {"name": "more", "log": {}}
_STREAM = {"name": "more", "system": "files"}
_STEP = {"name": "more", "from": ["valid"], "filter": "true"}
_FIRST = {"name": "first", "from": ["valid"], "deduplicate": {"by": ["ad_id"], "within": "1h"}}
_AGGREGATE = {"name": "more", "from": ["valid"], "aggregate": {"by": ["ad_id"], "compute": ["count(*) AS n"]}}
_LETTERS = {"onError": "DeadLetter", "late": "DeadLetter", "deadLetter": "unread"}
_MERGE = {"name": "merged", "from": ["out", "keep"], "merge": {}}


def _of_rules() -> Iterator[Case]:
    good = {
        "the base": BASE,
        "the small one": SMALL,
        "another system": add("spec.systems", _FILES),
        "another stream": add("spec.streams", _STREAM),
        "another step": add("spec.steps", _STEP),
        "a table and a step of one name": add("spec.steps", _STEP | {"name": "campaign-info"}),
        "a table and a stream of one name": add("spec.streams", _STREAM | {"name": "campaign-info"}),
        "a system and a stream of one name": add("spec.systems", _FILES | {"name": "clicks"}),
        "chain behind to and toTable": add("spec.steps", _MERGE),
        "a step reads one that stands below": put("spec.steps.valid.from", ["all-clicks"]),
        "join of a step with itself": put("spec.steps.matched.from", ["valid", "valid"]),
        "slide without gaps": put("spec.steps.counts.aggregate.slide", "120s"),
        "no tables": _without_tables(),
        "tables is an empty list": put("spec.tables", [], _without_tables()),
        "two tables of one source": add("spec.tables", {"name": "more", "sources": ["campaigns"], "key": ["owner"]}),
        "a source that two tables name twice": put("spec.tables.campaign-info.sources", ["campaigns", "campaigns"]),
        "two writers of one table": add("spec.steps", _STEP | {"toTable": "last-click"} | _no("filter")),
        "nobody writes a table": drop("spec.steps.keep"),
        "dead letters of what can't be written alone": put(
            "spec.streams.attributed",
            {"name": "attributed", "system": "files", "onUnwritable": "DeadLetter", "deadLetter": "unread"},
        ),
        "a step says that it fails": put("spec.steps.short.onError", "Fail"),
        "an aggregate says what fails and what is late": add("spec.steps", _AGGREGATE | _LETTERS),
        "late rows are dropped": put("spec.steps.first", _FIRST | {"late": "Drop"}),
        "late rows are dropped, and failing ones kept": add("spec.steps", _AGGREGATE | _LETTERS | {"late": "Drop"}),
        "updates of windows": put("spec.steps.counts.aggregate.emit", "Update"),
        "final sessions": put("spec.steps.visits.aggregate.emit", "Final"),
        "a dead letter stream is read": add("spec.steps", _STEP | {"from": ["unread"]}),
        "config names a setting near a secret": put("spec.systems.events.kafka.config", {"ssl.ca.location": "x"}),
        "grouping by stream partition without state": put("spec.grouping", "ByStreamPartition", SMALL),
        "a bucket without a claim": put(
            "spec.runtime.checkpoint.location", "a+b.c-d://x", drop("spec.runtime.checkpoint.claim")
        ),
        "location Node without storage class": put("spec.state.location", "Node", drop("spec.state.storageClass")),
        "location Pod without storage class": put("spec.state", {"location": "Pod"}),
        "location by template": put("spec.state", {"location": "{node.labels.rack}/{node.name}"}),
        "a step that was itself": put("spec.steps.tracked.was", "tracked"),
        "a step that was what is now a stream": put("spec.steps.tracked.was", "clicks"),
        "a stream that was another": put("spec.streams.clicks.was", "hits"),
        "a stream that was itself": put("spec.streams.clicks.was", "clicks"),
        "status as the operator writes it": BASE | {"status": {"tasks": 3, "conditions": []}},
        "labels and annotations": put("metadata", {"name": "a", "labels": {"x": "y"}, "annotations": {"x": "y"}}),
    }
    bad = {
        "a system of two kinds": put("spec.systems.files.kafka", {"bootstrapServers": "a:1"}),
        "a system of three kinds": put(
            "spec.systems.files",
            {"name": "files", "log": {}, "kafka": {"bootstrapServers": "a"}, "generator": {"function": "a:b"}},
        ),
        "a system of no kind": drop("spec.systems.files.log"),
        "two systems of one name": add("spec.systems", _FILES, _FILES),
        "two streams of one name": add("spec.streams", _STREAM | {"name": "clicks"}),
        "two tables of one name": add("spec.tables", {"name": "last-click", "key": ["x"]}),
        "two steps of one name": add("spec.steps", _STEP | {"name": "out"}),
        "a step and a stream of one name": add("spec.steps", _STEP | {"name": "clicks"}),
        "a step that is another one now": put("spec.steps.tracked.was", "out"),
        "two steps that were the same one": put("spec.steps.first.was", "seen"),
        "a step without state that was another": put("spec.steps.valid.was", "good"),
        "a stream that is another one now": put("spec.streams.clicks.was", "impressions"),
        "two streams that were the same one": put("spec.streams.clicks.was", "results"),
        "a stream that is a step now": put("spec.streams.clicks.was", "out"),
        "a step of two verbs": put("spec.steps.valid.select", ["1 AS x"]),
        "a step of no verb": drop("spec.steps.valid.filter"),
        "a verb that is null": put("spec.steps.all-clicks.merge", None),
        "a stream of no system": put("spec.streams.clicks.system", "kafka"),
        "a step reads nothing known": put("spec.steps.valid.from", ["click"]),
        "a step reads a table": put("spec.steps.valid.from", ["last-click"]),
        "a merge reads something unknown": put("spec.steps.all-clicks.from", ["valid", "tick"]),
        "to names a step": put("spec.steps.out.to", "valid"),
        "to names a table": put("spec.steps.out.to", "last-click"),
        "toTable names a stream": put("spec.steps.keep.toTable", "attributed"),
        "lookup names a stream": put("spec.steps.enriched.lookup.table", "campaigns"),
        "lookup, and there are no tables": _without_tables(but=("enriched",)),
        "toTable, and there are no tables": _without_tables(but=("keep",)),
        "process looks up a stream": put("spec.steps.tracked.process.tables", ["rates", "campaigns"]),
        "process looks up, and there are no tables": _without_tables(but=("tracked",)),
        "a source names a step": put("spec.tables.campaign-info.sources", ["valid"]),
        "dead letters go to a step": put("spec.streams.impressions.deadLetter", "valid"),
        "dead letters go to the stream itself": put("spec.streams.impressions.deadLetter", "impressions"),
        "a schema of Avro without its format": put("spec.streams.impressions.avro", {"register": True}),
        "lines of another format": put("spec.streams.clicks.csv", {"delimiter": ";"}),
        "a JSON schema without its format": put("spec.streams.clicks.jsonSchema", {"register": True}),
        "changes without a primary key": put("spec.streams.unread.changes", "debezium"),
        "changes as text": put("spec.streams.campaigns.format", "string"),
        "changes with metadata": put("spec.streams.campaigns.metadata", ["offset"]),
        "changes that a partitioner has placed": put("spec.streams.campaigns.partitioner", "murmur2"),
        "changes with event time": put("spec.streams.campaigns.eventTime", {"column": "ts"}),
        "changes that end": put("spec.streams.campaigns.bounded", value=True),
        "changes of another app": put("spec.streams.campaigns.control", value=True),
        "dead letters without DeadLetter": put("spec.streams.clicks.deadLetter", "unread"),
        "what can't be written goes nowhere": put("spec.streams.attributed.onUnwritable", "DeadLetter"),
        "dead letters with Skip": put("spec.streams.impressions.onDecodeError", "Skip"),
        "DeadLetter without dead letters": put("spec.streams.clicks.onDecodeError", "DeadLetter"),
        "dead letters of a step go to a step": put("spec.steps.valid.deadLetter", "short"),
        "dead letters of a step without DeadLetter": put("spec.steps.short.deadLetter", "unread"),
        "DeadLetter of a step without dead letters": put("spec.steps.short.onError", "DeadLetter"),
        "dead letters of a step that can't fail": put("spec.steps.everywhere.onError", "Fail"),
        "late rows go nowhere": put("spec.steps.first", _FIRST | {"late": "DeadLetter"}),
        "late rows are dropped into dead letters": put("spec.steps.first.late", "Drop"),
        "dead letters of a filter that are late": put("spec.steps.valid.late", "DeadLetter"),
        "late rows of a process": put("spec.steps.tracked.late", "Drop"),
        "updates of sessions": put("spec.steps.visits.aggregate.emit", "Update"),
        "dead letters of a step go to a side input": put("spec.steps.valid.deadLetter", "campaigns"),
        "dead letters of a step go to a generator": put("spec.steps.valid.deadLetter", "ticks"),
        "a step reads a side input": put("spec.steps.valid.from", ["campaigns"]),
        "a step writes a side input": put("spec.steps.out.to", "campaigns"),
        "a step writes a table with sources": put("spec.steps.keep.toTable", "campaign-info"),
        "a step writes a generator": put("spec.steps.out.to", "ticks"),
        "dead letters go to a side input": put("spec.streams.impressions.deadLetter", "campaigns"),
        "dead letters go to a generator": put("spec.streams.impressions.deadLetter", "ticks"),
        "a table with sources and schema": put("spec.tables.campaign-info.schema", "a INT"),
        "a step writes a table with files": put("spec.steps.keep.toTable", "rates"),
        "a table with files and sources": put("spec.tables.rates.sources", ["campaigns"]),
        "a table with files that is Partitioned": put("spec.tables.rates.distribution", "Partitioned"),
        "a table with files that is not versioned": put("spec.tables.rates.versioned", value=False),
        "a table with files and an age": put("spec.tables.rates.maxAge", "1h"),
        "a table with files that is not kept": put("spec.tables.rates.persistent", value=False),
        "a written table with select": put("spec.tables.last-click.select", ["ad_id"]),
        "a written table that is versioned": put("spec.tables.last-click.versioned", value=True),
        "a written table that is Broadcast": put("spec.tables.last-click.distribution", "Broadcast"),
        "a join of one input": put("spec.steps.matched.from", ["valid"]),
        "a join of three inputs": put("spec.steps.matched.from", ["valid", "short", "impressions"]),
        "a filter of two inputs": put("spec.steps.valid.from", ["clicks", "ticks"]),
        "window and session": put("spec.steps.counts.aggregate.session", "1m"),
        "slide without window": drop("spec.steps.counts.aggregate.window"),
        "slide with session": put("spec.steps.visits.aggregate.slide", "1m"),
        "slide longer than window": put("spec.steps.counts.aggregate.slide", "1h"),
        "first wait longer than longest": put("spec.restart.backoff", {"initial": "10m"}),
        "a claim and a bucket": put("spec.runtime.checkpoint.location", "s3a://bucket/apps"),
        "storage class of a node": put("spec.state.location", "Node"),
        "storage class of a template": put("spec.state.location", "{node.name}"),
        "grouping by stream partition with state": put("spec.grouping", "ByStreamPartition"),
        "a password in config": put("spec.systems.events.kafka.config", {"sasl.password": "x"}),
        "a jaas line in config": put("spec.systems.events.kafka.config", {"sasl.jaas.config": "x"}),
        "a key in config": put("spec.systems.events.kafka.config", {"ssl.key.pem": "x"}),
        "a secret in config": put("spec.systems.events.kafka.config", {"sasl.oauthbearer.client.secret": "x"}),
        "join by none": drop("spec.steps.matched.join.by"),
        "join on": _under("on", "spec.steps.matched.join"),
        "join on, as kubectl sends it": _under("true", "spec.steps.matched.join"),
        "lookup on, as kubectl sends it": _under("true", "spec.steps.enriched.lookup"),
    }  # fmt: skip
    yield from (Case(name, tree, good=True) for name, tree in good.items())
    yield from (Case(name, tree, good=False) for name, tree in bad.items())


_OBJECTS = (
    "spec", "spec.systems.events", "spec.systems.events.kafka", "spec.systems.files.log", "spec.systems.made.generator",
    "spec.streams.clicks", "spec.streams.impressions.eventTime", "spec.tables.last-click", "spec.steps.valid",
    "spec.steps.all-clicks.merge", "spec.steps.scored.apply", "spec.steps.tracked.process",
    "spec.steps.first.deduplicate", "spec.steps.matched.join", "spec.steps.enriched.lookup",
    "spec.steps.by-campaign.repartition", "spec.steps.counts.aggregate", "spec.steps.everywhere.broadcast",
    "spec.planning", "spec.expansion", "spec.runtime",
    "spec.runtime.trigger", "spec.runtime.checkpoint", "spec.runtime.driver", "spec.runtime.executors", "spec.state",
    "spec.restart", "spec.restart.backoff",
)  # fmt: skip
_PYTHON_NAMES = (
    "spec.run_id", "spec.on_partition_growth", "spec.streams.clicks.event_time", "spec.streams.clicks.schema_",
    "spec.steps.valid.inputs", "spec.steps.keep.to_table", "spec.runtime.spark_conf",
)  # fmt: skip


def _of_shapes() -> Iterator[Case]:
    for path in _OBJECTS:
        for value in ("x", None):
            yield Case(
                f"{path} has an unknown field, {value}",
                put(f"{path}.surprise", value),
                good=False,
                near=resolve(BASE, path),
            )
    for path in _PYTHON_NAMES:
        yield Case(f"{path} is the name of an attribute", put(path, "x"), good=False, near=resolve(BASE, path))
    yield Case("an unknown field at the top", BASE | {"surprise": 1}, good=False, near=("surprise",))
    for name in ("a", "0", "a-b", "x" * 40):
        yield Case(f"metadata.name may be {name}", put("metadata.name", name), good=True)
    for wrong in ("", "A", "-a", "a-", "a.b", "a_b", "x" * 41, "x" * 254, 5, None, ["a"]):
        yield Case(f"metadata.name can't be {wrong}", put("metadata.name", wrong), good=False, near=("metadata",))
    for field, values in {"apiVersion": ("holdfast.dev/v1", "v1", ""), "kind": ("StreamApps", "Pod", "")}.items():
        yield from (
            Case(f"{field} can't be {value!r}", BASE | {field: value}, good=False, near=(field,)) for value in values
        )
    for field in ("apiVersion", "kind", "metadata", "spec"):
        yield Case(f"{field} is left out", drop(field), good=False, near=(field,))
    nothings: tuple[object, ...] = ("x", 5, [], None, {})
    for spec in nothings:
        yield Case(f"spec can't be {spec}", BASE | {"spec": spec}, good=False, near=("spec",))


def _no(field: str) -> dict[str, None]:
    return {field: None}


def _without_tables(but: tuple[str, ...] = ()) -> dict[str, Any]:
    tree = drop("spec.tables")
    removed = {"enriched", "keep"} - set(but)
    tree["spec"]["steps"] = [step for step in tree["spec"]["steps"] if step["name"] not in removed]
    for step in tree["spec"]["steps"]:
        if step["name"] not in but and "process" in step:
            del step["process"]["tables"]
    return tree


def _under(name: str, path: str) -> dict[str, Any]:
    """Give the columns under this name: YAML 1.1 reads an unquoted `on` as true; as a key of JSON that is "true"."""
    tree: Any = deepcopy(BASE)
    node = tree
    for part in resolve(BASE, path):
        node = node[part]
    node[name] = node.pop("by")
    return tree  # type: ignore[no-any-return]


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:30]}...({len(text)})"


CASES = cases()
BY_FIELD: dict[str, list[Case]] = {}
"""What they are about, which their names begin with -> cases: a test for each of them would cost more than it does."""
for _case in CASES:
    BY_FIELD.setdefault(_case.name.partition(" ")[0], []).append(_case)
