"""Edits of an app: every field of the model that the app's objects have, with values; steps put in and taken out.

Which fields there are and what changing one costs comes from the model, so that no field can be forgotten. Values are
those of `FIELDS`, which mean something to the rows of drawn apps; for all other fields those that any app may have.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from pydantic import BaseModel

from holdfast.spec.app import AppSpec
from holdfast.spec.fields import ChangeCost, change_of, items_of_list, object_of
from holdfast.spec.values import millis
from tests.pipelines.drawn import DEAD, LENGTHS, Tree
from tests.pipelines.oracle import COMPUTES, FILTERS, SELECTS, over_all_rows
from tests.spec.base_app import copied
from tests.spec.field_values import ROWS

LEFT_OUT: Mapping[str, str] = {
    "runId": "a new run begins from nothing",
    "streams.was": "comes with a new name, in `stream_renamed`",
    "steps.was": "comes with a new name, in `renamed`",
    "steps.deadLetter": "comes with late and onError",
    "steps.apply.concurrency": "comes with another kind of function",
    "streams.changes": "drawn apps have no envelopes",
    "streams.format": "what is fed before can't be read after",
    "tables.bootstrap": "look-ups do not wait for the table",
    "state.size": "is taken in a run on one host, as the cure of a full disk",
    "state.storageClass": "means nothing on one host",
}
"""Fields -> why they are not edited here, beside those of other systems and of formats with schemas."""
_ELSEWHERE = (
    "systems.kafka",
    "systems.generator",
    "streams.avro",
    "streams.jsonSchema",
    "streams.protobuf",
    "streams.csv",
    "runtime.lineage",
)
FIELDS: dict[str, Callable[[Tree, Tree], list[Any]]] = {
    "streams.partitions": lambda _, stream: [stream["partitions"] + 1, stream["partitions"] * 2],
    "streams.key": lambda *_: [["k"], ["v"], ["v", "k"]],
    "streams.system": lambda *_: ["here"],
    "streams.schema": lambda *_: ["v STRING, k STRING, n BIGINT, ts TIMESTAMP, more DOUBLE"],
    "streams.eventTime.lateness": lambda *_: ["0s", "5s", "1m"],
    "streams.eventTime.maxAhead": lambda *_: ["1h", "48h"],
    "streams.eventTime.idleAfter": lambda *_: ["1h", "2h"],
    "streams.deadLetter": lambda *_: [DEAD],
    "tables.sources": lambda tree, _: [table["sources"] for table in tree["tables"] if "sources" in table],
    "tables.key": lambda *_: [["k"], ["v"]],
    "tables.select": lambda *_: [["v", "k", "n"], ["k", "v", "coalesce(n, 1) AS n"]],
    "tables.maxAge": lambda *_: ["1h", "2h"],
    "steps.from": lambda tree, step: [
        step["from"][::-1],
        *([name, *step["from"][1:]] for name in _in_time(tree)),
    ],
    "steps.eventTime.lateness": lambda *_: ["2h", "3h"],
    "steps.eventTime.maxAhead": lambda *_: ["1h", "48h"],
    "steps.eventTime.idleAfter": lambda *_: ["1h", "2h"],
    "steps.filter": lambda *_: [*FILTERS],
    "steps.select": lambda *_: [[*columns] for columns in SELECTS],
    "steps.apply.function": lambda _, step: [
        f"tests.pipelines.functions:{'same_each' if 'concurrency' in step['apply'] else 'same'}_again"
    ],
    "steps.apply.timeout": lambda _, step: ["10s", "1m"] if "concurrency" in step["apply"] else [],
    "steps.apply.retries": lambda _, step: [1, 2] if "concurrency" in step["apply"] else [],
    "steps.process.function": lambda _, step: [
        f"tests.pipelines.functions:{'count_batch' if 'state' in step['process'] else 'count'}_again"
    ],
    "steps.process.form": lambda *_: ["Rows", "Batch"],
    "steps.process.state": lambda *_: ["rows BIGINT, more STRING", "rows INT"],
    "steps.process.by": lambda *_: [["k"], ["v"]],
    "steps.process.tables": lambda tree, _: [
        [table["name"]] for table in tree.get("tables", ()) if table.get("distribution") == "Broadcast"
    ],
    "steps.process.ttl": lambda *_: ["1000h", "2000h"],
    "steps.deduplicate.by": lambda *_: [["n", "v", "k"], ["k", "v"]],
    "steps.deduplicate.within": lambda *_: [*LENGTHS],
    "steps.aggregate.by": lambda *_: [["v", "k"], ["k"]],
    "steps.aggregate.window": lambda *_: [*LENGTHS],
    "steps.aggregate.slide": lambda *_: ["5s", "10s", "30s"],
    "steps.aggregate.session": lambda *_: [*LENGTHS],
    "steps.aggregate.compute": lambda *_: [[one] for one in COMPUTES],
    "steps.join.by": lambda *_: [["k"], ["v"]],
    "steps.join.within": lambda *_: [*LENGTHS],
    "steps.join.before": lambda *_: [*LENGTHS],
    "steps.join.after": lambda *_: [*LENGTHS],
    "steps.lookup.table": lambda tree, _: [table["name"] for table in tree["tables"] if "sources" in table],
    "steps.lookup.by": lambda *_: [["k"], ["v"]],
    "steps.repartition.by": lambda *_: [["k"], ["v"]],
    "steps.to": lambda tree, _: [stream["name"] for stream in tree["streams"]],
    "steps.late": lambda *_: ["DeadLetter"],
    "steps.onError": lambda *_: ["DeadLetter"],
    "steps.toTable": lambda tree, _: [table["name"] for table in tree["tables"]],
    "grouping": lambda *_: ["ByStreamPartition"],
    "state.location": lambda *_: ["Claim", "{pod.name}"],
    "runtime.trigger.maxRecordsPerPartition": lambda *_: [7, 100],
    "runtime.checkpoint.changelog.system": lambda *_: ["events"],
    "expansion.grace": lambda *_: ["0s"],
}
"""Field -> the values it may get, of the whole spec and the object that has it."""


class Field(NamedTuple):
    """A field of the model, in a kind of object: `steps`, `aggregate.window`."""

    kind: str
    """The list that has the object; empty where the spec itself does."""
    path: tuple[str, ...]
    cost: ChangeCost

    def __str__(self) -> str:
        return ".".join(filter(None, (self.kind, *self.path)))


def fields(model: type[BaseModel] = AppSpec, kind: str = "", inside: tuple[str, ...] = ()) -> Iterator[Field]:
    """Return all fields that have a value of their own."""
    for attribute, info in model.model_fields.items():
        path = (*inside, info.alias or attribute)
        if (item := items_of_list(info)) is not None:
            yield from fields(item, path[0])
        elif (inner := object_of(info)) is not None:
            yield from fields(inner, kind, path)
        else:
            yield Field(kind, path, change_of(info))


class Edit(NamedTuple):
    """Another tree, and what was done."""

    description: str
    cost: ChangeCost
    tree: Tree
    step: str | None
    """The step whose rows it changes; None where those of the sources may be."""
    timed: bool = False
    """Whether it matters what event time has passed: state is given up, or more is kept than was before."""


class Place(NamedTuple):
    """A field of one object, and the value that it may get; None: it goes."""

    number: int
    """The object's place in its list."""
    value: Any


def places_of(field: Field, tree: Tree) -> Iterator[Place]:
    """Return all objects that may have the field, with each value that would change it."""
    for number, item in enumerate(tree.get(field.kind, ()) if field.kind else (tree,)):
        if _has(item, field):
            value_now = _value(item, field)
            values = (*_values(field, tree, item), None)
            yield from (Place(number, value) for value in values if value != value_now)


def edit_at(field: Field, place: Place, tree: Tree) -> Edit:
    """Return the edit of the field there."""
    edited = copied(tree)
    item = edited[field.kind][place.number] if field.kind else edited
    before, name = _value(item, field), item.get("name")
    _put(item, field.path, copied(place.value))
    if str(field) in {"steps.late", "steps.onError", "streams.onDecodeError", "streams.onUnwritable"}:
        item["deadLetter"] = DEAD
    timed = field.path[-1] in {"within", "before", "after"} and not _shorter(place.value, before)
    description = f"{field} of {name}: {before} -> {place.value}"
    return Edit(description, field.cost, edited, name if field.kind == "steps" else None, timed)


def _has(item: Tree, field: Field) -> bool:
    """Whether an object of this kind may have the field: verbs and kinds of systems are not changed into others."""
    first = field.path[0]
    if first in item:
        return True
    if field.kind == "steps":
        return first in {"late", "onError"}
    return first not in {"eventTime", "kafka", "generator", "log"}


def _value(item: Tree, field: Field) -> Any:
    field_value: Any = item
    for name in field.path:
        field_value = None if field_value is None else field_value.get(name)
    return field_value


def _values(field: Field, tree: Tree, item: Tree) -> list[Any]:
    if str(field) in FIELDS:
        return FIELDS[str(field)](tree, item)
    if field.path == ("name",):
        return []
    return [value for row in ROWS if _of_row(row.path) == str(field) for value in row.good]


def _of_row(path: str) -> str:
    _, kind, *rest = path.split(".")
    return ".".join((kind, *rest[1:])) if kind in {"systems", "streams", "tables", "steps"} else ".".join((kind, *rest))


def _put(at: Tree, path: tuple[str, ...], value: object) -> None:
    *way, last = path
    for name in way:
        at = at.setdefault(name, {})
    if value is None:
        at.pop(last, None)
    else:
        at[last] = value


def _in_time(tree: Tree) -> list[str]:
    """Streams, and steps whose rows do not come at the end alone: those would be late where event time has passed."""
    late = {step["name"] for step in tree["steps"] if over_all_rows(step)}
    for _ in tree["steps"]:
        late |= {step["name"] for step in tree["steps"] if late.intersection(step["from"])}
    return [item["name"] for kind in ("streams", "steps") for item in tree[kind] if item["name"] not in late]


def _shorter(new: object, old: object) -> bool:
    return isinstance(new, str) and (not isinstance(old, str) or millis(new) <= millis(old))


def stream_renamed(draw: random.Random, tree: Tree) -> Edit:
    """A stream under another name, whose topic stays as it is called: as the run knows it, or not."""
    edited = copied(tree)
    stream = draw.choice(edited["streams"])
    name, keeps = stream["name"], draw.random() < 0.7
    stream.setdefault("topic", name)
    if keeps:
        stream.setdefault("was", name)
    else:
        stream.pop("was", None)
    # Before or behind all others: the order of names decides nothing.
    stream["name"] = _fresh(tree, draw.choice(("a-renamed", "z-renamed")))
    _reread(edited, name, stream["name"])
    for table in edited.get("tables", ()):
        if "sources" in table:
            table["sources"] = [stream["name"] if one == name else one for one in table["sources"]]
    for item in (*edited["streams"], *edited["steps"]):
        for field in {"to", "deadLetter"} & item.keys():
            item[field] = stream["name"] if item[field] == name else item[field]
    return Edit(f"stream {name} renamed, was: {stream.get('was')}", ChangeCost.RESTART, edited, None)


def renamed(draw: random.Random, tree: Tree) -> Edit:
    """A step under another name, whose state comes along or not."""
    edited = copied(tree)
    step = draw.choice(edited["steps"])
    name, keeps = step["name"], draw.random() < 0.7
    step["name"] = _fresh(tree, "renamed")
    if keeps:
        step.setdefault("was", name)
    else:
        step.pop("was", None)
    _reread(edited, name, step["name"])
    return Edit(f"{name} renamed, was: {step.get('was')}", ChangeCost.RESTART, edited, name, timed=not keeps)


def put_in(draw: random.Random, tree: Tree) -> Edit:
    """One more step between two."""
    edited = copied(tree)
    reader = draw.choice(edited["steps"])
    source = draw.choice(reader["from"])
    verbs: list[Tree] = [
        {"filter": draw.choice([*FILTERS])},
        {"select": [*draw.choice([*SELECTS])]},
        {"repartition": {"by": [draw.choice("kv")]}},
    ]
    for table in tree.get("tables", ()):
        (key,) = table["key"]
        columns = ["k" if key == "k" else "left.k", "v" if key == "v" else "left.v", "right.n"]
        name = _fresh(tree, "table")
        edited["tables"].append(table | {"name": name, "distribution": draw.choice(("Partitioned", "Broadcast"))})
        verbs += [{"lookup": {"table": name, "by": [key], "select": columns}}] * 3
    step = {"name": _fresh(tree, "put-in"), "from": [source], **draw.choice(verbs)}
    used = step.get("lookup", {}).get("table")
    if "tables" in edited:
        edited["tables"] = [one for one in edited["tables"] if one in tree["tables"] or one["name"] == used]
    reader["from"] = [step["name"] if name == source else name for name in reader["from"]]
    edited["steps"].append(step)
    return Edit(f"{step} before {reader['name']}", ChangeCost.RESTART, edited, reader["name"])


def taken_out(draw: random.Random, tree: Tree) -> Edit:
    """One step less; who read it reads what it read."""
    edited = copied(tree)
    step = draw.choice(edited["steps"])
    edited["steps"].remove(step)
    # Rows that every task has would be written by every task, as a warning says.
    everywhere = {one["name"] for one in edited["steps"] if "broadcast" in one}
    _reread(
        edited, step["name"], draw.choice([name for name in step["from"] if name not in everywhere] or step["from"])
    )
    return Edit(f"{step} taken out", ChangeCost.RESTART, edited, step["name"], timed=True)


def drawn_edit(draw: random.Random, tree: Tree) -> Edit:
    """Any edit of a field, or of the graph."""
    if draw.random() < 0.4:
        return draw.choice((renamed, stream_renamed, put_in, put_in, taken_out))(draw, tree)
    while True:
        field = draw.choice(ALL_FIELDS)
        if places := [*places_of(field, tree)]:
            return edit_at(field, draw.choice(places), tree)


ALL_FIELDS = tuple(field for field in fields() if str(field) not in LEFT_OUT and not str(field).startswith(_ELSEWHERE))


def _reread(tree: Tree, name: str, other: str) -> None:
    for step in tree["steps"]:
        step["from"] = [other if one == name else one for one in step["from"]]


def _fresh(tree: Tree, name: str) -> str:
    used = str(tree)
    return next(fresh for number in count() if (fresh := f"{name}-{number}") not in used)
