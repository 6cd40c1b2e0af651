"""A column of an input that the lineage does not name has no part in what is written, says the interpreter of rows."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.planning.lineage import InputColumn, RowLineage, column_lineage
from holdfast.spec.parse import parse_app
from tests.pipelines.drawn import Tree, drawn_app
from tests.pipelines.flow import tables_written_from
from tests.pipelines.oracle import Oracle, Row

PIPELINES, ROWS, SECOND = 100, 25, 1_000_000
COLUMNS = ("k", "v", "n")
Fed = dict[str, list[Row]]


def drawn_rows(draw: random.Random, spec: Tree) -> Fed:
    """Rows of each input in the order of their times, and of each side input."""
    rows: Fed = {}
    for stream in spec["streams"]:
        if "schema" in stream:
            times = sorted(draw.randrange(300) * SECOND for _ in range(ROWS)) if "eventTime" in stream else [0] * 5
            rows[stream["name"]] = [
                Row(f"k{draw.randrange(5)}", f"v{draw.randrange(3)}", draw.randrange(60), at) for at in times
            ]
    return rows


def written(spec: Tree, fed: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """What comes out: tables are loaded before rows look them up."""
    oracle = Oracle()
    sides = {source for table in spec.get("tables", ()) for source in table.get("sources", ())}
    writers = {name for name in fed if tables_written_from(name, spec)}
    for names in (sides, writers - sides, fed.keys() - writers - sides):
        oracle.turn(spec, {name: rows if name in names else [] for name, rows in fed.items()})
    oracle.turn(spec, {name: [] for name in fed}, over=True, ended=True)
    return dict(oracle.written)


def changed(rows: Sequence[Row], column: str) -> list[Row]:
    """The same rows with other values in a column; other times keep their order."""
    match column:
        case "ts":
            return [row._replace(at=row.at * 3 + 17 * SECOND) for row in rows]
        case "n":
            return [row._replace(n=None if (row.n or 0) % 5 == 0 else 61 - (row.n or 0)) for row in rows]
        case "k":
            return [row._replace(k=f"k{letters(row) % 4}") for row in rows]
        case _:
            return [row._replace(v=f"v{letters(row) % 4}") for row in rows]


def letters(row: Row) -> int:
    """A number that follows from the row, and differs from row to row."""
    return sum(map(ord, f"{row.k}{row.v}{row.n}"))


def apart(lineage: RowLineage, output: str, column: InputColumn) -> bool:
    """Whether the column has no part in this one, nor in which rows there are."""
    return all(use.input != column for use in lineage.of(output) | lineage.rows)


def values(rows: Sequence[Row], column: str) -> Counter[Any]:
    return Counter(getattr(row, column) for row in rows)


def test_columns_that_lineage_leaves_out_change_nothing() -> None:
    changes = moved = 0
    for seed in range(PIPELINES):
        draw = random.Random(seed)  # noqa: S311 - it draws tests
        app = drawn_app(draw)
        spec, lineage = app["spec"], column_lineage(parse_app(app).spec)
        fed = drawn_rows(draw, spec)
        before = written(spec, fed)
        for name in fed:
            timed = any(stream["name"] == name and "eventTime" in stream for stream in spec["streams"])
            for column in (*COLUMNS, "ts") if timed else COLUMNS:
                after = written(spec, fed | {name: changed(fed[name], column)})
                for stream, rows in before.items():
                    for output in COLUMNS:
                        same = values(rows, output) == values(after[stream], output)
                        if apart(lineage.streams[stream], output, InputColumn("stream", name, column)):
                            changes += 1
                            assert same, f"seed {seed}: {name}.{column} has a part in {stream}.{output}"
                        else:
                            moved += not same
    assert min(changes, moved) > 1_000, (changes, moved)
