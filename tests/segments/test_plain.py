"""Plain expressions give in Arrow what Spark SQL gives, and nothing else is taken for plain."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

from holdfast.planning.sql.plain import PlainCall, PlainColumn, PlainValue, plain_filter, plain_select
from holdfast.tasks.partitions import StreamPartition
from holdfast_runtime.steps.plain_sql import pick, plain_kinds, sift
from holdfast_runtime.steps.timed_rows import RowOrigin, TimedRows
from tests.planning.apps import step
from tests.segments.graphs import compiled, read, written

WHOLE = (0, 1, -1, 2, -7, 7, 100, -123, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), None)
TEXTS = ("", "a", "A", "ab", "b", "ä", "z", "\U0001f600", "\uffff", " a", "a ", "1", None)
NUMBERS = [str(one) for one in WHOLE if one is not None and abs(one) < 2**63]
WORDS = [f"'{one}'" for one in TEXTS if one is not None]
SIZES = {"v": (pa.int64(), 64), "w": (pa.int32(), 32), "s": (pa.int16(), 16), "t": (pa.int8(), 8)}
ROWS = 300
EXPRESSIONS = 400


def given() -> pa.RecordBatch:
    draw = random.Random(5)  # noqa: S311
    columns = {
        name: pa.array([_within(draw.choice(WHOLE), bits) for _ in range(ROWS)], kind)
        for name, (kind, bits) in SIZES.items()
    }
    columns |= {name: pa.array([draw.choice(TEXTS) for _ in range(ROWS)]) for name in ("k", "other text")}
    columns |= {name: pa.array([draw.choice((True, False, None)) for _ in range(ROWS)]) for name in ("f", "g")}
    columns["d"] = pa.array([draw.choice((0.5, None)) for _ in range(ROWS)])
    return pa.RecordBatch.from_pydict(columns)


def _within(value: int | None, bits: int) -> int | None:
    return value if value is None or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else 3


def whole(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(4 if depth else 2)
    if kind == 0:
        return draw.choice([*SIZES, "V", "`w`"])
    if kind == 1:
        return draw.choice(NUMBERS)
    return f"({whole(draw, depth - 1)}) % {draw.choice((1, 2, 7, 123, 2**31, 2**63 - 1))}"


def text(draw: random.Random) -> str:
    return draw.choice(["k", "`other text`", *WORDS])


def condition(draw: random.Random, depth: int) -> str:
    def below() -> str:
        return f"({condition(draw, depth - 1)})"

    sign = draw.choice(("=", "<>", "!=", "<", "<=", ">", ">=", "=="))
    some, words = ", ".join(draw.sample(NUMBERS, 3)), ", ".join(draw.sample(WORDS, 3))
    column, negated = draw.choice(["k", "v", "d", "f"]), draw.choice(("", "NOT "))
    made = [
        f"{whole(draw, 2)} {sign} {whole(draw, 2)}",
        f"{text(draw)} {sign} {text(draw)}",
        draw.choice(("f", "g")),
        f"f {draw.choice(('=', '<>'))} g",
        f"{column} IS {negated}NULL",
        f"{whole(draw, 1)} {negated}IN ({some})",
        f"k {negated}IN ({words})",
        f"{whole(draw, 1)} {negated}BETWEEN {whole(draw, 1)} AND {whole(draw, 1)}",
    ]
    if depth:
        made += [f"{below()} AND {below()}", f"{below()} OR {below()}", f"NOT {below()}"] * 2
    return draw.choice(made)


def test_conditions_give_what_spark_gives_for_every_row(spark: SparkSession) -> None:
    draw, rows = random.Random(20261123), given()  # noqa: S311
    kinds = plain_kinds(rows.schema)
    texts = [one for one in (condition(draw, 3) for _ in range(EXPRESSIONS * 2)) if plain_filter(one, kinds)]
    assert len(texts) >= EXPRESSIONS, "only conditions without a column are not plain"
    frame = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1)
    found = frame.select(*[expr(one).alias(f"c{at}") for at, one in enumerate(texts)]).toArrow()
    schema = pa.schema([(f"c{at}", pa.bool_()) for at in range(len(texts))])
    made = plain_select([f"{one} AS c{at}" for at, one in enumerate(texts)], kinds)
    assert made is not None
    mine = pick(TimedRows(rows, pa.nulls(ROWS, pa.int64())), made, schema).rows
    for at, one in enumerate(texts):
        assert mine.column(at).to_pylist() == found.column(at).to_pylist(), one


def test_a_select_has_columns_as_they_are_and_computed_ones_in_the_types_of_spark(spark: SparkSession) -> None:
    rows = given()
    items = ["*", "w % 7 AS seventh", "v % 10000 AS key", "k = 'a' AS is_a", "d AS `half`"]
    made = plain_select(items, plain_kinds(rows.schema))
    assert made is not None
    found = spark.createDataFrame(pa.Table.from_batches([rows])).coalesce(1).selectExpr(*items).toArrow()
    mine = pick(TimedRows(rows, pa.nulls(ROWS, pa.int64())), made, found.schema).rows
    assert pa.Table.from_batches([mine]).equals(found.combine_chunks())


def test_a_filter_keeps_times_and_origins_of_the_rows_that_stay() -> None:
    rows = pa.RecordBatch.from_pydict({"v": [1, 2, None, 4]})
    origin = RowOrigin(StreamPartition("a", 0), pa.array([10, 11, 12, 13]))
    condition = plain_filter("v % 2 = 0", plain_kinds(rows.schema))
    assert condition is not None
    kept = sift(TimedRows(rows, pa.array([5, 6, 7, 8]), (origin,)), condition)
    assert (kept.rows.to_pydict(), kept.times.to_pylist()) == ({"v": [2, 4]}, [6, 8])
    assert [one.offsets.to_pylist() for one in kept.origins] == [[11, 13]]


@pytest.mark.parametrize(
    "text",
    [
        "v + 1 > 0",
        "v > 1.5",
        "d > 1",
        "d = d",
        "v = k",
        "k = 5",
        "v % w = 0",
        "v % 0 = 1",
        "v % -2 = 0",
        "v / 2 = 1",
        "k LIKE 'a%'",
        "k = 'a\\n'",
        "k = r'a'",
        "v <=> 3",
        "v > 10L",
        "v > 9223372036854775808",
        "v = NULL",
        "v IN (1, NULL)",
        "v IN (w)",
        "f > g",
        "length(k) > 2",
        "CASE WHEN f THEN g ELSE f END",
        "nothing = 1",
        "TRUE",
        "1 = 1 OR",
        "cast(k AS BIGINT) = 1",
        "k || 'a' = 'b'",
    ],
)
def test_what_may_fail_or_mean_something_else_is_left_to_spark(text: str) -> None:
    assert plain_filter(text, plain_kinds(given().schema)) is None


def test_names_that_are_there_twice_are_left_to_spark() -> None:
    assert plain_kinds(pa.schema([("v", pa.int64()), ("v", pa.int64())])) == {}


def test_rows_that_come_from_spark_stay_there_and_others_do_not_go() -> None:
    def ask(_: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:
        return pa.schema([(text.split()[-1], pa.int64()) for text in texts])

    steps = [
        step("even", "a", filter="v % 2 = 0"),
        step("hard", "even", select=["v + 1 AS v"]),
        step("low", "hard", filter="v < 7"),
        step("rest", "even", select=["v", "v % 7 AS r"]),
        step("out-step", "low", to="out"),
        step("other-step", "rest", to="other"),
    ]
    graph = compiled([read("a"), written(), written("other")], steps, ask)
    assert {node.name: (node.verb, node.level) for node in graph.nodes if node.step is not None} == {
        "even": ("sift", 0),
        "hard": ("select", 1),
        "low": ("filter", 1),
        "rest": ("pick", 0),
        "out-step": ("to", 2),
        "other-step": ("to", 2),
    }
    assert next(node.plain for node in graph.nodes if node.name == "rest") == (
        PlainColumn("v"),
        PlainCall("%", (PlainColumn("v"), PlainValue(7))),
    )
