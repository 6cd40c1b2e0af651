"""`join` beside DuckDB over the whole input, however the rows are cut into batches and whatever the watermark does."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.planning.join_columns import JoinColumn
from holdfast.times import MICROS_PER_MILLI, micros
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.joins import side_buffer
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.joins.join_plan import JoinPlan, Kind
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.steps.memory import MemoryTables

KINDS: tuple[Kind, ...] = ("Inner", "Left", "Right", "Full")
COLUMNS = (
    JoinColumn("both", "k", "k"),
    JoinColumn("both", "j", "j"),
    JoinColumn("left", "n", "n"),
    JoinColumn("right", "n", "m"),
)
KEYS: list[tuple[pa.DataType, Sequence[Any]]] = [
    (pa.string(), ["", "a", "aa", "ä", None]),
    (pa.binary(), [b"", b"\0", b"\0\0", None]),
    (pa.int8(), [-128, -1, 0, 127, None]),
    (pa.int64(), [-(2**63), 0, 2**63 - 1, None]),
    (pa.float64(), [0.0, -0.0, float("nan"), float("inf"), 1e-300, None]),
    (pa.decimal128(38, 2), [Decimal("-0.01"), Decimal(0), Decimal("9e35"), None]),
    (pa.bool_(), [True, False, None]),
    (pa.date32(), [0, -1, 20_000, None]),
    (pa.timestamp("us", "UTC"), [0, -1, 1_700_000_000_000_000, None]),
]
Times = npt.NDArray[np.int64]
MS = MICROS_PER_MILLI


def side(keys: tuple[pa.DataType, Sequence[Any]], times: Times, seed: int) -> pa.Table:
    """Rows in order of time: two columns of the key, a number, and the time, as DuckDB has it in microseconds."""
    drawn, (type_, values) = np.random.default_rng(seed), keys
    first = [values[at] for at in drawn.integers(0, len(values), len(times))]
    second = pa.array(drawn.integers(0, 3, len(times)), pa.int32(), mask=drawn.random(len(times)) < 0.1)
    columns = [pa.array(first, type_), second, pa.array(np.arange(len(times)))]
    return pa.table([*columns, pa.array(times).cast(pa.timestamp("us"))], names=["k", "j", "n", "t"])


def expected(kind: Kind, left: pa.Table, right: pa.Table, bounds: tuple[int, int]) -> list[str]:
    with duckdb.connect() as db:
        db.execute("SET disabled_optimizers = 'join_filter_pushdown'")  # it loses NaN beside infinity
        db.register("l", left)
        db.register("r", right)
        query = db.execute(
            f"""SELECT l.n, r.n, epoch_us(coalesce(greatest(l.t, r.t), l.t, r.t)) FROM l {kind} JOIN r
            ON l.k = r.k AND l.j = r.j
            AND r.t BETWEEN l.t - INTERVAL '{bounds[0]} ms' AND l.t + INTERVAL '{bounds[1]} ms'"""  # noqa: S608 - ours
        )
        return sorted(map(str, query.fetchall()))


def joined(plan: JoinPlan, sides: Sequence[pa.Table], cuts: Sequence[int], watermarks: Sequence[bool]) -> list[str]:
    """What comes out, in batches; where it is moved, the watermark stands at the oldest row that is still to come."""
    tables, rows_out, before = MemoryTables(), list[str](), None
    ends = [[len(one) * cut // 100 for cut in sorted(cuts)] for one in sides]
    batches = len(cuts) + 1
    for batch in range(batches):
        inputs, coming = [], []
        for side_rows, end in zip(sides, ends, strict=True):
            start, stop = [0, *end, len(side_rows)][batch : batch + 2]
            part = side_rows.slice(start, stop - start).combine_chunks()
            rows = part.drop_columns("t").to_batches() or [pa.RecordBatch.from_pylist([], plan.left)]
            times = part["t"].cast(pa.int64())
            inputs.append(TimedRows(rows[0].cast(plan.left), pa.array(times.to_pylist(), pa.int64())))
            coming += side_rows["t"].slice(stop, 1).cast(pa.int64()).to_pylist()
        ended = batch == batches - 1
        moved = coming and batch < len(watermarks) and watermarks[batch]
        watermark = min(coming) // MS if moved else before
        step, clock = JoinStep("j", plan, "j"), StepClock(0, watermark, ended, before)
        outcome = step.run(inputs[0], inputs[1], tables, clock)
        columns = (*outcome.rows.rows.columns[2:], outcome.rows.times)
        rows_out += map(str, zip(*(column.to_pylist() for column in columns), strict=True))
        assert outcome.late == {"j.left": 0, "j.right": 0}
        before = watermark
    return sorted(rows_out)


@pytest.mark.parametrize("keys", KEYS, ids=[str(type_) for type_, _ in KEYS])
@settings(max_examples=max(20, settings().max_examples // 10))
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    rows=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    span=st.sampled_from([1, 50, 5_000]),
    fine=st.sampled_from([1, 400, 500, MS]),
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    cuts=st.lists(st.integers(0, 100), max_size=6),
    moved=st.lists(st.booleans(), max_size=6),
)
def test_a_join_gives_what_duckdb_gives(  # noqa: PLR0913, PLR0917 - what is drawn
    keys: tuple[pa.DataType, Sequence[Any]],
    kind: Kind,
    seed: int,
    rows: tuple[int, int],
    span: int,
    fine: int,
    bounds: tuple[int, int],
    cuts: list[int],
    moved: list[bool],
) -> None:
    drawn = np.random.default_rng(seed)
    # Many at a whole millisecond, or at `fine` microseconds beside one: where bounds have their edges.
    times = [drawn.integers(0, span, count) * MS + drawn.integers(-1, 2, count) * fine for count in rows]
    sides = [side(keys, np.sort(side_times), seed + at) for at, side_times in enumerate(times)]
    schema = sides[0].schema.remove(3)
    plan = JoinPlan(("k", "j"), micros(bounds[0]), micros(bounds[1]), kind, COLUMNS, schema, schema)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_buffer, "_LEAST_WIDTH", 7 * MS)
        assert joined(plan, sides, cuts, moved) == expected(kind, sides[0], sides[1], bounds)
