"""Apps of every kind that is hostile to whoever reads them: deep, wide, long, many, quadratic, SQL of every trick.

Each kind puts its own on top of an app that could run. Must not know what anybody makes of them.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

from tests.spec.hostile_sql import EXPRESSIONS, SCHEMAS, noise

Tree = dict[str, Any]
Kind = Callable[[Random], Tree]

LARGEST = 950_000
"""Bytes of JSON; an API server takes a little more than a megabyte."""

_STREAMS: list[Tree] = [
    {"name": "clicks", "system": "events", "key": ["k"], "schema": "k STRING, a INT, b ARRAY<INT>, ts TIMESTAMP"},
    {"name": "views", "system": "events", "key": ["k"], "schema": "k STRING, c INT"},
    {"name": "out", "system": "events"},
]


def app(steps: list[Tree] | None = None, streams: list[Tree] | None = None, **spec: Any) -> Tree:
    """An app that an operator would start, but for what is given."""
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "hostile"},
        "spec": {
            "systems": [{"name": "events", "kafka": {"bootstrapServers": "kafka:9092"}}],
            "streams": _STREAMS if streams is None else streams,
            "steps": [{"name": "s", "from": ["clicks"], "filter": "true"}] if steps is None else steps,
            "runtime": {"checkpoint": {"location": "s3a://bucket/hostile"}},
            **spec,
        },
    }


def _chain(*verbs: Tree, count: int = 1, start: str = "clicks") -> list[Tree]:
    """Steps that read each other, with these verbs in turn."""
    names = [start, *(f"s{n}" for n in range(count))]
    return [{"name": f"s{n}", "from": [names[n]], **verbs[n % len(verbs)]} for n in range(count)]


def _nested(depth: int, shape: str) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree] if shape == "list" else {"a": tree} if shape == "object" else [{"a": tree}]
    return tree


# One text of SQL, and as much of it as there is room for.


def _one_expression(text: str, chance: Random) -> Tree:
    field = chance.choice(("filter", "select", "compute", "join", "table"))
    if field == "filter":
        return app([{"name": "s", "from": ["clicks"], "filter": text}])
    if field == "select":
        return app([{"name": "s", "from": ["clicks"], "select": ["k", f"{text} AS x"]}])
    if field == "compute":
        return app([{"name": "s", "from": ["clicks"], "aggregate": {"by": ["k"], "compute": [f"{text} AS x"]}}])
    if field == "join":
        join = {"by": ["k"], "within": "1m", "select": [f"{text} AS x"]}
        return app([{"name": "s", "from": ["clicks", "views"], "join": join}])
    return app(tables=[{"name": "t", "key": ["k"], "sources": ["views"], "select": ["k", f"{text} AS x"]}])


def _full_of(text: str, room: int = LARGEST - 20_000) -> Tree:
    """The text in as many items of as many steps as there is room for."""
    size = len(json.dumps(text)) + 8
    items = max(min(room // size, 200_000), 1)
    selects = [[f"{text} AS x{n}" for n in range(at, min(at + 200, items))] for at in range(0, items, 200)]
    return app([{"name": f"s{n}", "from": ["clicks"], "select": select} for n, select in enumerate(selects[:1000])])


def _sql(trick: str) -> Kind:
    def kind(chance: Random) -> Tree:
        length = chance.choice((100, 2_000, 7_000, 8_150, 60_000))
        if chance.random() < 0.4:
            return _full_of(EXPRESSIONS[trick](min(length, 8_150)))
        return _one_expression(EXPRESSIONS[trick](length), chance)

    return kind


def _schema(trick: str) -> Kind:
    def kind(chance: Random) -> Tree:
        text = SCHEMAS[trick](chance.choice((1_000, 16_000, 100_000)))
        streams = chance.choice((1, max(min((LARGEST - 10_000) // (len(text) + 60), 490), 1)))
        made = [{"name": f"x{n}", "system": "events", "schema": text} for n in range(streams)]
        return app(streams=[*_STREAMS, *made], steps=_chain({"filter": "true"}, start="x0"))

    return kind


def _noise(chance: Random) -> Tree:
    items = [noise(chance, chance.choice((20, 200, 2_000))) for _ in range(chance.choice((1, 50, 200)))]
    return app([{"name": "s", "from": ["clicks"], "select": items}])


# Deep, wide, long.


def _deep_template(chance: Random) -> Tree:
    # A parser of JSON recurses; what is deeper still never reaches a tree.
    spec = _nested(chance.choice((60, 200, 700)), chance.choice(("list", "object", "both")))
    return app(runtime={chance.choice(("driver", "executors")): {"podTemplate": {"spec": {"a": spec}}}})


def _wide_template(chance: Random) -> Tree:
    n = chance.choice((1_000, 20_000))
    spec = chance.choice(
        (
            {"containers": [{"name": f"c{i}", "image": "x"} for i in range(n)]},
            {"volumes": [{"name": "v", "emptyDir": {}}] * n},
            {"tolerations": [{"key": "a", "operator": "Exists"}] * n},
            {f"field{i}": i for i in range(n)},
            {"containers": [{"name": "a", "env": [{"name": f"E{i}", "value": "x"} for i in range(n)]}]},
        )
    )
    metadata = {chance.choice(("labels", "annotations")): {f"l{i}": "x" for i in range(chance.choice((1, n)))}}
    return app(runtime={"executors": {"podTemplate": {"metadata": metadata, "spec": spec}}})


def _deep_field(chance: Random) -> Tree:
    tree = _nested(chance.choice((60, 200, 700)), chance.choice(("list", "object", "both")))
    path = chance.choice(("runId", "systems", "streams", "steps", "runtime", "state", "suspend"))
    return app(**{path: tree})


def _wide_errors(chance: Random) -> Tree:
    n = chance.choice((1_000, 100_000))
    wrong: Any = chance.choice((1, None, "", [], {}, {"a": 1}, -0.5))
    fields: dict[str, Any] = chance.choice(
        (
            {"steps": [wrong] * n},
            {"streams": [wrong] * n},
            {"systems": [wrong] * n},
            {"tables": [wrong] * n},
            {"steps": [{"name": "s", "from": [wrong] * n, "merge": {}}]},
            {"steps": [{"name": "s", "from": ["clicks"], "select": [wrong] * n}]},
            {"runtime": {"code": {f"m{i}": wrong for i in range(n // 4)}}},
            {"runtime": {"sparkConf": {f"m{i}": wrong for i in range(n // 4)}}},
            {f"unknown{i}": wrong for i in range(n // 4)},
            {"steps": [{"name": "s", "from": ["clicks"], **{f"u{i}": wrong for i in range(n // 4)}}]},
        )
    )
    return app(**fields)


def _wide_unknown_names(chance: Random) -> Tree:
    length = chance.choice((5, 200, 2_000))
    names = [f"filtre{n}".ljust(length, "x") for n in range(min(60_000, LARGEST // (length + 10) - 10))]
    step = {"name": "s", "from": ["clicks"], "filter": "true"}
    return app([step | dict.fromkeys(names, 1)])


def _long_text(chance: Random) -> Tree:
    text = chance.choice(("x", "\u0301", "\U0001f600", "'", "\\", "\n", "a.", "1h", "{a}", "-", "\x00", "%", "(")) * (
        chance.choice((300, 5_000, 60_000))
    )
    fields: dict[str, Any] = chance.choice(
        (
            {"runId": text},
            {"systems": [{"name": text, "log": {}}]},
            {"systems": [{"name": "events", "kafka": {"bootstrapServers": text, "config": {text: text}}}]},
            {"systems": [{"name": "events", "generator": {"function": text}}]},
            {"streams": [{"name": "clicks", "system": text, "topic": text, "key": [text], "retention": text}]},
            {"steps": [{"name": text, "from": [text], "to": text}]},
            {"steps": [{"name": "s", "from": ["clicks"], "apply": {"function": text}}]},
            {"steps": [{"name": "s", "from": ["clicks"], "deduplicate": {"by": [text], "within": text}}]},
            {"expansion": {"parent": text, "grace": text}},
            {"expansion": {"parent": "(" * 60 + "partition" + ")" * 60}},
            {"expansion": {"parent": "-" * 180 + "partition"}},
            {"state": {"location": text, "size": text, "storageClass": text}},
            {"state": {"location": "{a}" * 80}},
            {"runtime": {"image": text, "checkpoint": {"location": f"s3a://{text}"}}},
            {"runtime": {"sparkConf": {text: text}}},
            {"runtime": {"driver": {"nodeSelector": {text: text}, "tolerations": [{"key": text, "value": text}] * 50}}},
            {"runtime": {"executors": {"env": [{"name": f"{text}{n}", "value": text} for n in range(100)]}}},
            {"runtime": {"trigger": {"interval": text}, "driver": {"memory": text}}},
            {"restart": {"backoff": {"initial": text, "max": text}}},
        )
    )
    return app(**fields)


def _long_names(chance: Random) -> Tree:
    """Names of columns, tables and steps as long as they may be, in messages about all of them."""
    names = [f"c{n:03}".ljust(255, "x") for n in range(60)]
    schema = ", ".join(f"{name} INT" for name in names)
    verb = chance.choice(
        (
            {"deduplicate": {"by": names[:16]}},
            {"select": [f"{name}y" for name in names]},
            {"aggregate": {"by": names[:16], "compute": names}},
            {"repartition": {"by": [f"{name}y"[:255] for name in names[:16]]}},
        )
    )
    streams = [{"name": f"x{n}", "system": "events", "key": names[:1], "schema": schema} for n in range(40)]
    steps = [{"name": f"s{n}", "from": [f"x{n % 40}"], **verb} for n in range(100)]
    return app(steps, streams)


def _code(chance: Random) -> Tree:
    length = chance.choice((5_000, 60_000, 600_000))
    text: str = chance.choice(
        (
            "a;" * (length // 2), "(" * length, "-" * length + "1", "a" + "+a" * (length // 2), "[" * 90 + "]" * 90,
            "\n" * length, "lambda:" * (length // 7), "x = " * (length // 4) + "1", "if a:\n" * (length // 6),
            "#" * length,
            "not " * (length // 4) + "1", "f'{" * 50 + "}'" * 50, "'" + "\\N{" * (length // 3), "\x00" * length,
            "def f(): pass\n" * (length // 14), "9" * length, "a.b" + ".b" * (length // 2), "a" + "[0]" * (length // 3),
            "await " * (length // 6), "\\\n" * (length // 2), "match a:\n case " + "[" * (length // 2),
            "\ufeff# coding: rot13\n", "import " + "a." * (length // 2) + "a", " " * 99 + "a\n" + " " * 98 + "b",
        )
    )  # fmt: skip
    modules = chance.choice((1, 100))
    share = min(len(text), 600_000 // modules)
    code = {f"m{n}": text[:share] for n in range(modules)}
    steps = _chain({"apply": {"function": "m0:f"}}, {"process": {"function": "m1:g", "by": ["k"]}}, count=10)
    return app(steps, runtime={"code": code, "checkpoint": {"location": "s3a://bucket/hostile"}})


# Many, and what multiplies.


def _many_steps(chance: Random) -> Tree:
    n = 1_000
    choices: tuple[list[Tree], ...] = (
        [{"filter": "a > 0"}],
        [{"select": ["*"]}],
        [{"select": ["k", "a + 1 AS a"]}],
        [{"repartition": {"by": ["k"]}}, {"filter": "a > 0"}],
        [{"broadcast": {}}],
        [{"deduplicate": {"by": ["a"]}}],
        [{"aggregate": {"by": ["k"], "compute": ["count(*) AS a"]}}],
        [{"process": {"function": "a:b", "by": ["nothing"]}}],
        [{"filter": "unknown > 0"}],
        [{"toTable": "t"}, {"lookup": {"table": "t", "by": ["k"]}}],
        [{"to": "out"}],
    )
    verbs = chance.choice(choices)
    tables = [{"name": "t", "key": ["k"]}] if "toTable" in verbs[0] else []
    steps = _chain(*verbs, count=n)
    if chance.random() < 0.3:
        steps[0] = steps[0] | {"from": [f"s{n - 1}"]}
    return app(steps, tables=tables)


def _meshed(chance: Random) -> Tree:
    """Every step reads sixteen before it."""
    names = [f"x{n}" for n in range(chance.choice((16, 490)))]
    count = chance.choice((300, 1_000))
    keyed = chance.choice(("merge", "repartition", "deduplicate", "mixed"))
    steps: list[Tree] = []
    for n in range(count):
        known = [*names, *(step["name"] for step in steps)]
        if keyed == "merge" or n % 2 == 0:
            sources = [known[-(1 + (n * 7 + i * i) % len(known))] for i in range(16)]
            steps.append({"name": f"s{n}", "from": sources, "merge": {}})
        else:
            verb = chance.choice(("repartition", "deduplicate")) if keyed == "mixed" else keyed
            steps.append({"name": f"s{n}", "from": [known[-1]], verb: {"by": ["k"]}})
    counts = chance.choice((1, 2))
    return app(steps, [_stream(name, partitions=1 + i % counts) for i, name in enumerate(names)])


def _stream(name: str, **fields: Any) -> Tree:
    return {"name": name, "system": "events", "key": ["k"], "schema": "k STRING, ts TIMESTAMP", **fields}


def _joined(chance: Random) -> Tree:
    """Joins of joins, over streams whose counts and keys disagree."""
    count = chance.choice((200, 490))
    streams = [
        _stream(f"x{n}", partitions=n + 1, key=["k" if n % 2 else "q"], schema="k STRING, q INT, ts TIMESTAMP")
        for n in range(count)
    ]
    join = {"by": ["k"], "within": "1m", "select": ["k"]}
    steps = [
        {"name": f"s{n}", "from": [f"s{n - 1}" if n else "x0", f"x{n + 1}"], "join": join} for n in range(count - 1)
    ]
    more = [{"name": f"t{n}", "from": [f"s{n}", f"s{(n * 7) % (count - 1)}"], "join": join} for n in range(count - 1)]
    return app(steps + more[: 1000 - len(steps)], streams)


def _tables(chance: Random) -> Tree:
    """Tables that are written behind what looks them up, in circles."""
    tables = [{"name": f"t{n}", "key": ["k"]} for n in range(100)]
    steps: list[Tree] = []
    for n in range(500):
        source = chance.choice(("clicks", f"w{chance.randrange(max(n, 1))}" if n else "clicks"))
        table = f"t{chance.randrange(100)}"
        steps.append({"name": f"l{n}", "from": [source], "lookup": {"table": table, "by": ["k"], "select": ["k"]}})
        steps.append({"name": f"w{n}", "from": [f"l{n}"], "toTable": f"t{chance.randrange(100)}"})
    return app(steps, tables=tables)


def _doubling(chance: Random) -> Tree:
    """What comes out of each step is larger than what goes in."""
    wide = ", ".join(f"c{n} INT" for n in range(1_500))
    verb, start, schema = chance.choice(
        (
            ({"select": ["k", "struct(a AS x, a AS y) AS a"]}, 60, None),
            ({"select": ["k", "array(a) AS a"]}, 1_000, None),
            ({"select": ["k", "map(a, a) AS a"]}, 300, None),
            ({"select": ["k", "named_struct('x', a, 'y', a) AS a"]}, 60, None),
            ({"select": ["k", f"struct({', '.join(['a'] * 1_000)}) AS a"]}, 5, None),
            ({"select": ["struct(*) AS a", "k"]}, 100, None),
            ({"select": ["*", "a AS a1"]}, 1_000, None),
            ({"select": ["*", *(f"a AS x{{n}}y{i}" for i in range(150))]}, 300, None),
            ({"select": ["*"]}, 1_000, wide),
            ({"select": ["* EXCEPT (c1)", "c1"]}, 1_000, wide),
            ({"select": ["*", "struct(*) AS s{n}"]}, 400, wide),
            ({"filter": " AND ".join(f"d{i} > 0" for i in range(500))}, 100, wide),
            ({"aggregate": {"by": ["k"], "compute": ["collect_list(a) AS a"]}}, 200, None),
        )
    )
    steps = _chain({}, count=start)
    written = json.dumps(verb)
    steps = [step | json.loads(written.replace("{n}", str(n))) for n, step in enumerate(steps)]
    streams = deepcopy(_STREAMS)
    if schema is not None:
        streams[0]["schema"] = f"k STRING, a INT, {schema}"
    return app(steps, streams)


def _misnamed(chance: Random) -> Tree:
    """Thousands of names that nearly exist."""
    streams = [_stream(f"stream-{n}") for n in range(490)]
    steps: list[Tree] = [
        {"name": f"s{n}", "from": [f"strean-{n * 16 + i}" for i in range(16)], "merge": {}}
        for n in range(chance.choice((200, 1_000)))
    ]
    if chance.random() < 0.5:
        steps = [
            step | {"from": ["stream-1"], "onError": "DeadLetter", "deadLetter": f"x{step['name']}"} for step in steps
        ]
    return app(steps, streams)


def _same(chance: Random) -> Tree:
    """One name over and over."""
    n = chance.choice((100, 900))
    what = chance.choice(("systems", "streams", "tables", "steps"))
    item: Tree = {
        "systems": {"name": "events", "log": {}},
        "streams": _stream("clicks"),
        "tables": {"name": "t", "key": ["k"]},
        "steps": {"name": "s", "from": ["clicks"], "filter": "a > 0"},
    }[what]
    return app(**{what: [item] * n})


def _numbers(chance: Random) -> Tree:
    number = chance.choice((10**30, -(10**400), 10**4000, 2**63, 2**63 - 1, -1, 0, 1e308, 100_000, 99_999))
    fields: dict[str, Any] = chance.choice(
        (
            {"streams": [_stream("clicks", partitions=number), _stream("views", partitions=100_000)]},
            {"planning": {"intermediatePartitions": number, "maxIntermediatePartitions": number}},
            {"runtime": {"executors": {"count": number, "cores": number}, "replan": number}},
            {"runtime": {"trigger": {"maxRecordsPerPartition": number}}},
            {"systems": [{"name": "events", "kafka": {"bootstrapServers": "a:1", "replication": number}}]},
        )
    )
    return app(**fields)


def _many_partitions(chance: Random) -> Tree:
    """As many tasks as a spec may ask for."""
    count = chance.choice((5, 400))
    streams = [_stream(f"x{n}", partitions=100_000) for n in range(count)]
    steps = [{"name": f"s{n}", "from": [f"x{n}"], "filter": "k = 'a'"} for n in range(count)]
    return app(steps, streams, grouping=chance.choice(("ByPartition", "ByStreamPartition")))


_SHAPES: tuple[Kind, ...] = (
    _noise, _deep_template, _wide_template, _deep_field, _wide_errors, _wide_unknown_names, _long_text, _long_names,
    _code, _many_steps, _meshed, _joined, _tables, _doubling, _misnamed, _same, _numbers, _many_partitions,
)  # fmt: skip
KINDS: dict[str, Kind] = {
    **{f"sql: {name}": _sql(name) for name in EXPRESSIONS},
    **{f"schema: {name}": _schema(name) for name in SCHEMAS},
    **{kind.__name__.strip("_").replace("_", " "): kind for kind in _SHAPES},
}
