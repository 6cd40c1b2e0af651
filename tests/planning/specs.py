"""Random apps that satisfy the model: small graphs over few names, so that streams meet often and in odd ways."""

from typing import Any

from hypothesis import strategies as st

COUNTS = (1, 2, 4, 8, 12, 16)
KEYS = (["k"], ["j"], ["k", "j"])
SCHEMA = "k STRING, j STRING, v BIGINT, ts TIMESTAMP"


def app_tree(spec: dict[str, Any]) -> dict[str, Any]:
    """A whole object around a spec."""
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "app"}, "spec": spec}


@st.composite
def specs(draw: st.DrawFn, *, any_keys: bool = True) -> dict[str, Any]:
    """A spec whose names resolve; joins and look-ups may or may not fit. `any_keys=False`: every key is k."""
    names = [f"s{i}" for i in range(draw(st.integers(2, 5)))]
    sides = [f"side{i}" for i in range(draw(st.integers(0, 2)))]
    streams = [_stream(draw, name, any_keys=any_keys) for name in [*names, *sides, "out"]]
    tables = [_table(draw, i, sides) for i in range(draw(st.integers(0, 2)))]
    heads, steps = list(names), []
    for number in range(draw(st.integers(1, 12))):
        step = _step(draw, f"x{number}", heads, tables, any_keys=any_keys)
        steps.append(step)
        heads.append(step["name"])
    steps.append({"name": "last", "from": [draw(st.sampled_from(heads))], "to": "out"})
    spec: dict[str, Any] = {
        "systems": [{"name": "log", "log": {}}],
        "streams": streams,
        "steps": steps,
        "tables": tables,
    }
    if draw(st.booleans()):
        spec["planning"] = {"intermediatePartitions": draw(st.sampled_from(COUNTS))}
    return spec


def _stream(draw: st.DrawFn, name: str, *, any_keys: bool) -> dict[str, Any]:
    stream: dict[str, Any] = {
        "name": name,
        "system": "log",
        "partitions": draw(st.sampled_from(COUNTS)),
        "schema": SCHEMA,
        "key": ["k"],
        "eventTime": {"column": "ts"},
    }
    if any_keys:
        stream["key"] = draw(st.sampled_from(KEYS))
        stream["partitioner"] = draw(st.sampled_from(("murmur2", "murmur2", "murmur2", "crc32", "none")))
        if draw(st.integers(0, 5)) == 0:
            del stream["key"]
    return stream


def _table(draw: st.DrawFn, number: int, sides: list[str]) -> dict[str, Any]:
    table: dict[str, Any] = {"name": f"t{number}", "key": ["k"]}
    fed: bool = draw(st.booleans())
    if sides and fed:
        table["sources"] = [draw(st.sampled_from(sides))]
        table["distribution"] = draw(st.sampled_from(("Partitioned", "Broadcast")))
    else:
        table["schema"] = SCHEMA
    return table


def _step(
    draw: st.DrawFn, name: str, heads: list[str], tables: list[dict[str, Any]], *, any_keys: bool
) -> dict[str, Any]:
    source, other = draw(st.sampled_from(heads)), draw(st.sampled_from(heads))
    by: list[str] = draw(st.sampled_from(KEYS)) if any_keys else ["k"]
    columns = ["k", "left.j AS j", "left.v AS v", "left.ts AS ts"]
    verbs: list[dict[str, Any]] = [
        {"from": [source], "filter": "v > 3"},
        {"from": [source], "select": ["k", "j", "v + 1 AS v", "ts"]},
        {"from": [source], "select": ["upper(k) AS k", "j", "v", "ts"]},
        {"from": [source, other], "merge": {}},
        {"from": [source, other], "join": {"by": by, "within": "10m", "select": [*by, *_others(by)]}},
        {"from": [source], "repartition": {"by": by}},
        {"from": [source], "broadcast": {}},
        {"from": [source], "deduplicate": {"by": by}},
        {"from": [source], "to": "out"},
    ]
    if not any_keys:
        verbs.pop(2)
    for table in tables:
        verbs.append({"from": [source], "lookup": {"table": table["name"], "by": ["k"], "select": columns}})
        if "sources" not in table:
            verbs.append({"from": [source], "toTable": table["name"]})
    return {"name": name, **draw(st.sampled_from(verbs))}


def _others(by: list[str]) -> list[str]:
    return [f"left.{name} AS {name}" for name in ("k", "j", "v", "ts") if name not in by]
