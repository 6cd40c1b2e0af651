"""Apps drawn at random: three to eight verbs over rows `k STRING, v STRING, n BIGINT`, in any order that is sound.

All of them are valid. Of what arrives in an order that nobody promises, nothing is asked that depends on it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.planning.types.avro.columns import avro_of
from holdfast.planning.types.ddl import parse_schema
from tests.pipelines.oracle import COMPUTES, FILTERS, SELECTS, join_select

Tree = dict[str, Any]
SCHEMA = "k STRING, v STRING, n BIGINT, ts TIMESTAMP"
AVRO = avro_of(parse_schema(SCHEMA), "row")
PROTOBUF = """
syntax = "proto3"; import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Row {
  google.protobuf.Timestamp ts = 20; optional sint64 n = 3; google.protobuf.StringValue v = 2; optional string k = 1;
}
"""
FORMATS: list[Tree] = [
    *({} for _ in range(5)),
    *({"format": "avro", "avro": {"schema": AVRO}} for _ in range(2)),
    {"format": "protobuf", "protobuf": {"schema": PROTOBUF}},
    {"format": "csv", "csv": {"delimiter": ";"}},
]
DEAD = "dead"
"""A stream for dead letters, which every app has."""
LENGTHS = ("10s", "30s", "1m", "90s")
MOST_VERBS, MOST_JOINS = 8, 3


@dataclass(frozen=True)
class Node:
    """A stream or step whose rows a step may read."""

    name: str
    key: str
    """The column by which its rows are in tasks."""
    ordered: bool = True
    """Whether equal rows come in the order of their times."""
    timed: bool = True
    """Whether its rows have an event time that follows from the data."""
    joins: int = 0
    """How many joins its rows have gone through, on all ways together: each may multiply them."""


@dataclass
class Draft:
    """An app in the making."""

    draw: random.Random
    partitions: int
    streams: list[Tree] = field(default_factory=list)
    tables: list[Tree] = field(default_factory=list)
    steps: list[Tree] = field(default_factory=list)
    open: list[Node] = field(default_factory=list)
    """What is not read yet."""

    def step(self, *sources: Node, **verb: Any) -> str:
        """Add a step with such a verb."""
        name = f"{next(iter(verb))}-{len(self.steps)}"
        self.steps.append({"name": name, "from": [source.name for source in sources], **verb})
        return name

    def length(self) -> str:
        """A duration."""
        return self.draw.choice(LENGTHS)

    def stream(self, name: str, **more: Any) -> None:
        """Add a stream."""
        self.streams.append({"name": name, "system": "here", "partitions": self.partitions, **more})

    def raw(self, key: str = "") -> Node:
        """Add an input, with the time of its rows as a column."""
        name, key = f"in-{len(self.streams)}", key or self.draw.choice("kv")
        of_format = self.draw.choice(FORMATS)
        self.stream(name, key=[key], schema=SCHEMA, eventTime={"column": "ts"}, bounded=True, **of_format)
        return Node(name, key)

    def source(self, key: str = "") -> Node:
        """Add an input."""
        raw = self.raw(key)
        if self.draw.random() < 0.3:
            # Says again what the stream says, but takes it of the rows, a batch later.
            event_time = {"from": "coalesce(ts, ts)", "lateness": "1h"}
            name = self.step(raw, select=["k", "v", "n", "ts"], eventTime=event_time)
            raw = Node(name, raw.key)
        return Node(self.step(raw, select=["k", "v", "n"]), raw.key)

    def output(self, node: Node) -> None:
        """Write what comes out of a node."""
        name = f"out-{len(self.streams)}"
        self.stream(name)
        self.step(node, to=name)


def _filter(draft: Draft, node: Node) -> Node:
    return replace(node, name=draft.step(node, filter=draft.draw.choice([*FILTERS])))


def _select(draft: Draft, node: Node) -> Node:
    columns = draft.draw.choice([columns for columns in SELECTS if node.key in columns])
    return replace(node, name=draft.step(node, select=[*columns]))


def _repartition(draft: Draft, node: Node) -> Node:
    key = draft.draw.choice("kv")
    return replace(node, name=draft.step(node, repartition={"by": [key]}), key=key)


def _deduplicate(draft: Draft, node: Node) -> Node:
    within = {"within": draft.length()} if node.ordered and node.timed and draft.draw.random() < 0.7 else {}
    keys = {"by": ["k", "v", "n"], **within}
    return replace(node, name=draft.step(node, deduplicate=keys), timed=node.timed and node.ordered)


def _aggregate(draft: Draft, node: Node) -> Node:
    kind = draft.draw.choice(("window", "window", "slide", "session", "all"))
    settings: Tree = {"by": ["k", "v"], "compute": [draft.draw.choice([*COMPUTES])]}
    if kind == "all":
        totals = draft.step(node, aggregate=settings | {"emit": "Final"})
        return replace(node, name=totals, ordered=False)
    if not node.timed:
        return node
    settings |= {"window": "1m", "slide": "30s"} if kind == "slide" else {kind: draft.length()}
    windows = replace(node, name=draft.step(node, aggregate=settings))
    return replace(node, name=draft.step(windows, select=["k", "v", "n"]), ordered=False)


def _updates(draft: Draft, node: Node) -> None:
    """Results that are written with each row that changes them."""
    settings: Tree = {"by": ["k", "v"], "compute": [draft.draw.choice([*COMPUTES])], "emit": "Update"}
    if node.timed and draft.draw.random() < 0.7:
        settings["window"] = draft.length()
        if draft.draw.random() < 0.3:
            settings |= {"window": "1m", "slide": "30s"}
    draft.output(replace(node, name=draft.step(node, aggregate=settings)))


def _join(draft: Draft, node: Node) -> Node:
    other = _taken(draft)
    joins = node.joins + other.joins + 1
    if not (node.timed and other.timed) or joins > MOST_JOINS:
        draft.open.append(other)
        return node
    if draft.draw.random() < 0.2:
        other = Node(draft.step(other, broadcast={}), node.key)
        kinds: tuple[str, ...] = ("Inner", "Left")
    else:
        kinds = ("Inner", "Left", "Right", "Full")
        if other.key != node.key:
            other = Node(draft.step(other, repartition={"by": [node.key]}), node.key)
    settings = {
        "by": [node.key],
        "within": draft.length(),
        "type": draft.draw.choice(kinds),
        "select": join_select(node.key),
    }
    return Node(draft.step(node, other, join=settings), node.key, ordered=False, joins=joins)


def _merge(draft: Draft, node: Node) -> Node:
    other = _taken(draft)
    if other.key != node.key:
        other = Node(draft.step(other, repartition={"by": [node.key]}), node.key)
    timed, joins = node.timed and other.timed, node.joins + other.joins
    return replace(node, name=draft.step(node, other, merge={}), ordered=False, timed=timed, joins=joins)


def _lookup(draft: Draft, node: Node) -> Node:
    table = (_written if draft.draw.random() < 0.3 else _fed)(draft, node.key)
    draft.tables.append(table)
    columns = ["k", "left.v" if node.key == "k" else "v", "right.n"]
    if node.key == "v":
        columns[0] = "left.k"
    settings = {
        "table": table["name"],
        "by": [node.key],
        "type": draft.draw.choice(("Left", "Inner")),
        "select": columns,
    }
    return replace(node, name=draft.step(node, lookup=settings))


def _fed(draft: Draft, key: str) -> Tree:
    """A table with a side input of its own."""
    number = len(draft.tables)
    draft.stream(f"side-{number}", key=[key], schema="k STRING, v STRING, n BIGINT")
    table: Tree = {"name": f"table-{number}", "sources": [f"side-{number}"], "key": [key]}
    if draft.draw.random() < 0.4:
        table["distribution"] = "Broadcast"
    if draft.draw.random() < 0.3:
        table["persistent"] = False
    return table


def _written(draft: Draft, key: str) -> Tree:
    """A table that steps write, of which the rows of a key come in one order: from one partition."""
    name = f"table-{len(draft.tables)}"
    node = draft.source(key)
    for _ in range(draft.draw.randrange(3)):
        node = draft.draw.choice((_filter, _select, _apply))(draft, node)
    draft.output(replace(node, name=draft.step(node, toTable=name)))
    return {"name": name, "key": [key]}


def _process(draft: Draft, node: Node) -> Node:
    settings: Tree = {
        "function": "tests.pipelines.functions:count",
        "by": [node.key],
        "schema": "k STRING, v STRING, n BIGINT",
        "keeps": [node.key],
    }
    if draft.draw.random() < 0.5:
        settings |= {"function": "tests.pipelines.functions:count_batch", "form": "Batch", "state": "rows BIGINT"}
    if draft.draw.random() < 0.4:
        table = _fed(draft, node.key) | {"distribution": "Broadcast"}
        draft.tables.append(table)
        settings["tables"] = [table["name"]]
    return replace(node, name=draft.step(node, process=settings), ordered=False, timed=False)


def _quiet(draft: Draft) -> Node:
    """A step with timers, which come between rows in one way where the rows are those of one partition."""
    source = draft.raw()
    if draft.draw.random() < 0.5:
        source = Node(draft.step(source, filter=draft.draw.choice([*FILTERS])), source.key)
    settings = {
        "function": "tests.pipelines.functions:quiet",
        "by": [source.key],
        "schema": "k STRING, v STRING, n BIGINT",
        "keeps": [source.key],
    }
    return Node(draft.step(source, process=settings), source.key, ordered=False, timed=False)


def _apply(draft: Draft, node: Node) -> Node:
    function: Tree = {"function": "tests.pipelines.functions:same", "keeps": ["k", "v"]}
    if draft.draw.random() < 0.5:
        function |= {"function": "tests.pipelines.functions:same_each", "concurrency": draft.draw.choice([1, 3, 100])}
    return replace(node, name=draft.step(node, apply=function))


VERBS: tuple[Callable[[Draft, Node], Node], ...] = (
    _filter,
    _select,
    _repartition,
    _deduplicate,
    _aggregate,
    _aggregate,
    _join,
    _join,
    _merge,
    _lookup,
    _process,
    _apply,
)
"""Aggregates and joins, in which most can go wrong, stand here twice."""


def _taken(draft: Draft) -> Node:
    """A node for one more reader: of those that nobody reads yet, or a source of its own."""
    if draft.open and draft.draw.random() < 0.6:
        return draft.open.pop(draft.draw.randrange(len(draft.open)))
    return draft.source()


def drawn_app(draw: random.Random, *, timers: bool = False) -> Tree:
    """An app; with timers and updates, if it may have any: then it can't be edited or grow, as both may change."""
    draft = Draft(draw, draw.randint(1, 4))
    node = draft.source()
    for _ in range(draw.randint(3, MOST_VERBS)):
        if draw.random() < 0.2:
            draft.open.append(node)
        if draw.random() < 0.15:
            draft.output(node)
        if timers and draw.random() < 0.1:
            _updates(draft, node)
        if timers and draw.random() < 0.1:
            draft.open.append(node)
            node = _quiet(draft)
        else:
            node = draw.choice(VERBS)(draft, node)
    for last in (node, *draft.open):
        draft.output(last)
    draft.stream(DEAD)
    spec: Tree = {"systems": [{"name": "here", "log": {}}], "streams": draft.streams, "steps": draft.steps}
    if draft.tables:
        spec["tables"] = draft.tables
    spec["planning"] = {"intermediatePartitions": draft.partitions if draw.random() < 0.7 else draw.randint(1, 4)}
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "drawn"}, "spec": spec}


def may_grow(app: Tree) -> bool:
    """Whether its inputs may all grow: what goes through an intermediate stream has a count that stays."""
    return not any({"repartition", "broadcast"} & step.keys() for step in app["spec"]["steps"])
