"""Apps to draw: the conformance specs, a few with a character of their own, and generated ones with hostile texts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from holdfast.planning.picture.model import picture_of
from holdfast.planning.picture.parts import Picture
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.parse import SpecInvalidError, parse_app

CONFORMANCE = Path(__file__).parent.parent / "conformance" / "cases" / "planner.json"
HOSTILE = "<b>&\"'\\`|#%;{}[]()-->\u202e\u0007\n\u2603 日本 ]]> %%{init}%% <!-- "


def drawn(spec: dict[str, Any], *, name: str = "app", counts: dict[str, int] | None = None) -> Picture:
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": name}, "spec": spec}
    app = parse_app(tree)
    return picture_of(plan(app, PlanningFacts(given=counts or {})), app)


def conformance_pictures() -> Iterator[tuple[str, Picture]]:
    for case in json.loads(CONFORMANCE.read_text(encoding="utf-8")):
        try:
            yield case["name"], drawn(case["spec"], counts=case["partitions"])
        except SpecInvalidError:
            continue  # there is no plan to draw


def stream(name: str, **fields: Any) -> dict[str, Any]:
    plain = {
        "name": name,
        "system": "log",
        "key": ["k"],
        "partitions": 8,
        "schema": "k STRING, v STRING, ts TIMESTAMP",
        "eventTime": {"column": "ts"},
    }
    return {key: value for key, value in (plain | fields).items() if value is not None}


def spec(
    streams: list[dict[str, Any]], steps: list[dict[str, Any]], tables: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {"systems": [{"name": "log", "log": {}}], "streams": streams, "steps": steps, "tables": tables or []}


REJECTED = spec(
    [
        stream("orders", partitions=16),
        stream("payments", onDecodeError="DeadLetter", deadLetter="broken"),
        stream("people", partitions=12),
        stream("report", schema=None, eventTime=None),
        stream("broken", partitions=1, schema=None, eventTime=None, key=None),
    ],
    [
        {"name": "large", "from": ["orders"], "filter": "amont > 1"},
        {
            "name": "paid",
            "from": ["large", "payments"],
            "join": {"by": ["k"], "within": "1h", "select": ["k", "left.v"]},
        },
        {"name": "known", "from": ["paid"], "lookup": {"table": "persons", "by": ["k"], "select": ["k", "left.v"]}},
        {"name": "moved", "from": ["known"], "repartition": {"by": ["v"]}},
        {"name": "counts", "from": ["moved"], "aggregate": {"by": ["v"], "window": "1m", "compute": ["count(*) AS n"]}},
        {"name": "out", "from": ["counts"], "to": "report"},
    ],
    [{"name": "persons", "sources": ["people"], "key": ["k"]}],
)
"""Two joins that disagree, a column that does not exist, a side input, a dead letter stream, a repartition."""

TABLE_CIRCLE = spec(
    [stream("events"), stream("changes", schema=None, eventTime=None)],
    [
        {"name": "seen", "from": ["events"], "lookup": {"table": "last", "by": ["k"], "select": ["k", "left.v"]}},
        {"name": "keep", "from": ["seen"], "toTable": "last"},
        {"name": "out", "from": ["keep"], "to": "changes"},
    ],
    [{"name": "last", "key": ["k"], "schema": "k STRING, v STRING"}],
)

STEP_CIRCLE = spec(
    [stream("events")],
    [
        {"name": "x", "from": ["events", "y"], "merge": {}},
        {"name": "y", "from": ["x"], "filter": "true"},
        {"name": "own", "from": ["own"], "filter": "true"},
    ],
)

SELF_JOIN = spec(
    [stream("trades")],
    [{"name": "both", "from": ["trades", "trades"], "join": {"by": ["k"], "within": "1m", "select": ["k"]}}],
)


def many_joins(count: int) -> dict[str, Any]:
    """More join sets than there are colours, and a merge of all."""
    streams = [stream(f"{side}{i}") for i in range(count) for side in ("left", "right")]
    steps: list[dict[str, Any]] = [
        {
            "name": f"join{i}",
            "from": [f"left{i}", f"right{i}"],
            "join": {"by": ["k"], "within": "1m", "select": ["k", "left.v"]},
        }
        for i in range(count)
    ]
    return spec(streams, steps)


def long_chain(count: int) -> dict[str, Any]:
    steps = [
        {"name": f"s{i}", "from": [f"s{i - 1}" if i else "events"], "filter": f"length(v) > {i}"} for i in range(count)
    ]
    return spec([stream("events")], steps)


_names = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9]{0,60}[A-Za-z0-9])?\Z")
_texts = st.one_of(st.text(min_size=1, max_size=80), st.just(HOSTILE), st.just("v" * 500)).filter(str.strip)


@st.composite
def hostile_specs(draw: st.DrawFn) -> dict[str, Any]:
    """Chains, forks and joins with any names and any texts the model lets through."""
    names = draw(st.lists(_names, min_size=4, max_size=9, unique=True))
    sources, rest = names[:2], names[2:]
    streams = [stream(name, key=[draw(_texts)], partitions=draw(st.integers(1, 64))) for name in sources]
    steps: list[dict[str, Any]] = []
    ends = list(sources)
    for name in rest:
        verb = draw(st.sampled_from(["filter", "select", "repartition", "broadcast", "join", "merge", "toTable"]))
        first = draw(st.sampled_from(ends))
        second = draw(st.sampled_from(ends))
        bodies: dict[str, dict[str, Any]] = {
            "filter": {"from": [first], "filter": draw(_texts)},
            "select": {"from": [first], "select": [draw(_texts), draw(_texts)]},
            "repartition": {"from": [first], "repartition": {"by": [draw(_texts)]}},
            "broadcast": {"from": [first], "broadcast": {}},
            "join": {"from": [first, second], "join": {"by": [draw(_texts)], "within": "1m"}},
            "merge": {"from": list(dict.fromkeys((first, second, sources[0], sources[1]))), "merge": {}},
            "toTable": {"from": [first], "toTable": "t"},
        }
        steps.append({"name": name, **bodies[verb]})
        ends.append(name)
    tables = [{"name": "t", "key": [draw(_texts)]}] if any("toTable" in step for step in steps) else []
    return spec(streams, steps, tables)
