"""`join` beside lists of rows: any order, any cut into batches, late rows, nulls, hot keys, windows' edges, changes."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.join_columns import JoinColumn
from holdfast.times import MICROS_PER_MILLI, micros
from holdfast_runtime.columns import key_columns
from holdfast_runtime.columns.sorted_hashes import CHUNK, find_hashes
from holdfast_runtime.state.errors import StateUnreadableError
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.joins import join, side_buffer
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.joins.join_plan import JoinPlan, Kind
from holdfast_runtime.steps.joins.pairing import pairs
from holdfast_runtime.steps.joins.side_rows import SideRows, kept_rows
from holdfast_runtime.steps.timed_rows import TimedRows
from tests.steps.memory import MemoryTables
from tests.steps.moments import moments

KINDS: tuple[Kind, ...] = ("Inner", "Left", "Right", "Full")
LEFT = pa.schema([("k", pa.string()), ("n", pa.int64())])
RIGHT = pa.schema([("K", pa.string()), ("m", pa.int64())])
COLUMNS = (JoinColumn("both", "k", "k"), JoinColumn("left", "n", "n"), JoinColumn("right", "m", "m"))
Row = tuple[Any, int, int | None]
"""Key, number, event time in microseconds."""
Out = tuple[Any, int | None, int | None, int | None]
"""Key, both numbers, event time in microseconds."""
MS = MICROS_PER_MILLI


def plan(kind: Kind = "Inner", before: int = 10, after: int = 10) -> JoinPlan:
    """A join within these milliseconds."""
    return JoinPlan(("k",), micros(before), micros(after), kind, COLUMNS, LEFT, RIGHT)


def timed(rows: Sequence[Row], schema: pa.Schema) -> TimedRows:
    keys, numbers, times = zip(*rows, strict=True) if rows else ((), (), ())
    columns = [pa.array(keys, schema.field(0).type), pa.array(numbers, pa.int64())]
    return TimedRows(pa.RecordBatch.from_arrays(columns, schema=schema), pa.array(times, pa.int64()))


@dataclass
class Task:
    """One task of a step, from batch to batch, with the watermark of its batches."""

    plan: JoinPlan
    tables: MemoryTables = field(default_factory=MemoryTables)
    watermark: int | None = None
    late: list[int] = field(default_factory=lambda: [0, 0])

    def run(
        self,
        left: Sequence[Row] = (),
        right: Sequence[Row] = (),
        watermark: int | None = None,
        *,
        ended: bool = False,
        horizon: int | None = None,
    ) -> list[Out]:
        """Run a batch, and those that it leaves rows to."""
        step = JoinStep("j", self.plan, "j")
        clock = StepClock(0, watermark, ended, self.watermark, horizon)
        sides = timed(left, self.plan.left), timed(right, self.plan.right)
        rows_out: list[Out] = []
        while True:
            outcome = step.run(*sides, self.tables, clock)
            columns = (*outcome.rows.rows.columns, outcome.rows.times)
            rows_out += zip(*(column.to_pylist() for column in columns), strict=True)
            for at, late in enumerate(outcome.late.values()):
                self.late[at] += late
            if outcome.unfired is None:
                break
            sides, clock = (timed([], self.plan.left), timed([], self.plan.right)), replace(clock, before=watermark)
        self.watermark = watermark
        return rows_out


@dataclass
class Model:
    """The same with lists."""

    plan: JoinPlan
    sides: tuple[list[list[Any]], list[list[Any]]] = field(default_factory=lambda: ([], []))
    """Rows that wait: key, number, time, whether it had a partner."""
    watermark: int | None = None
    late: list[int] = field(default_factory=lambda: [0, 0])

    def run(
        self, left: Sequence[Row] = (), right: Sequence[Row] = (), watermark: int | None = None, *, ended: bool = False
    ) -> list[Out]:
        rows_out: list[Out] = []
        for at, rows in enumerate((left, right)):
            for key, number, time in rows:
                if time is None or (self.watermark is not None and time < self.watermark * MS):
                    self.late[at] += 1
                elif key is None:
                    if self.plan.outer[at]:
                        rows_out.append(self._alone(at, key, number, time))
                else:
                    self._meet(at, [canonical(key), number, time, False, key], rows_out)
        for at in (0, 1):
            for row in list(self.sides[at]):
                if ended or (watermark is not None and row[2] + self.plan.waits[at] < watermark * MS):
                    self.sides[at].remove(row)
                    if self.plan.outer[at] and not row[3]:
                        rows_out.append(self._alone(at, row[4], row[1], row[2]))
        self.watermark = watermark
        return rows_out

    def _meet(self, at: int, row: list[Any], rows_out: list[Out]) -> None:
        for other in self.sides[1 - at]:
            left, right = (row, other) if at == 0 else (other, row)
            if left[0] == right[0] and -self.plan.before <= right[2] - left[2] <= self.plan.after:
                rows_out.append((left[4], left[1], right[1], max(left[2], right[2])))
                row[3] = other[3] = True
        self.sides[at].append(row)

    def _alone(self, at: int, key: Any, number: int, time: int) -> Out:
        return (key, number, None, time) if at == 0 else (key, None, number, time)


def canonical(key: Any) -> Any:
    return ("nan" if key != key else key + 0.0) if isinstance(key, float) else key  # noqa: PLR0124 - NaN is not itself


def ordered(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    return sorted(map(str, rows))


def ms(*rows: Any) -> list[Any]:
    """The same rows, whose last value is milliseconds, with microseconds."""
    return [(*row[:-1], row[-1] * MS) for row in rows]


def numbered(rows: Sequence[tuple[Any, int | None]]) -> list[Row]:
    return [(key, number, time) for number, (key, time) in enumerate(rows)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[Row], list[Row], int | None]]:
    """Batches: rows of both sides, and the watermark after it."""
    keys = st.one_of(st.none(), st.sampled_from(["a", "b", "c"]))
    mark, number, batches = None, 0, []
    for at in range(draw(st.integers(1, 7))):
        base = at * draw(st.integers(0, 12))
        sides: list[list[Row]] = []
        for _ in range(2):
            rows = draw(st.lists(st.tuples(keys, st.one_of(st.none(), moments(base - 6, base + 12))), max_size=12))
            sides.append([(key, number + place, time) for place, (key, time) in enumerate(rows)])
            number += len(rows)
        step = draw(st.one_of(st.none(), st.integers(0, 25)))
        mark = mark if step is None else step + (mark or 0)
        batches.append((sides[0], sides[1], mark))
    return batches


@pytest.mark.parametrize("kind", KINDS)
@given(history=histories(), bounds=st.tuples(st.integers(0, 15), st.integers(0, 15)), small=st.booleans())
def test_a_join_gives_what_lists_give(
    kind: Kind, history: list[tuple[list[Row], list[Row], int | None]], bounds: tuple[int, int], small: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_buffer, "_LEAST_WIDTH", 1 * MS if small else 1000 * MS)
        if small:
            patch.setattr(side_buffer, "_ROUND", 1)
            patch.setattr(join, "_MOST_PAIRS", 3)
        shape = plan(kind, *bounds)
        task, model = Task(shape), Model(shape)
        for left, right, mark in history:
            assert ordered(task.run(left, right, mark)) == ordered(model.run(left, right, mark))
            assert task.late == model.late
        assert ordered(task.run(watermark=task.watermark, ended=True)) == ordered(
            model.run(watermark=model.watermark, ended=True)
        )


@pytest.mark.parametrize("kind", KINDS)
@given(
    rows=st.tuples(*[st.lists(st.tuples(st.sampled_from("abc"), moments(0, 60)), max_size=40)] * 2),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
def test_however_batches_are_cut_the_same_comes_out(
    kind: Kind, rows: tuple[list[tuple[str, int]], list[tuple[str, int]]], cuts: list[int]
) -> None:
    left, right = numbered(rows[0]), numbered(rows[1])
    whole, parts = Task(plan(kind)), Task(plan(kind))
    once = whole.run(left, right, ended=True)
    piecewise: list[Out] = []
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        piecewise += parts.run(left[start:end], right[start:end])
    piecewise += parts.run(ended=True)
    assert ordered(piecewise) == ordered(once)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_one_hash_are_told_apart(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_columns.KeyColumns, "hashes", lambda self: np.full(self.rows, 7, np.uint64))
    rows = ms(*((key, time) for time in range(0, 40, 4) for key in ("a", "b", "aa", None)))
    task, model = Task(plan(kind)), Model(plan(kind))
    for start in range(0, 40, 8):
        batch = numbered(rows)[start : start + 8], numbered(rows[::-1])[start : start + 8]
        assert ordered(task.run(*batch)) == ordered(model.run(*batch))
    assert ordered(task.run(ended=True)) == ordered(model.run(ended=True))


@pytest.mark.parametrize(
    ("type_", "left", "right", "pairs"),
    [
        (pa.float64(), [0.0, float("nan"), 1.5], [-0.0, float("nan"), 2.5], 2),
        (pa.decimal128(10, 2), [1, 2, None], [1, 3, None], 1),
        (pa.timestamp("us", "UTC"), [1, 2], [2, 1], 2),
        (pa.bool_(), [True, False], [True, True], 2),
        (pa.binary(), [b"", b"\0"], [b"\0", b"\0\0"], 1),
    ],
)
def test_keys_are_compared_as_spark_compares_them(
    type_: pa.DataType, left: list[Any], right: list[Any], pairs: int
) -> None:
    shape = replace(
        plan(), left=pa.schema([("k", type_), LEFT.field(1)]), right=pa.schema([("K", type_), RIGHT.field(1)])
    )
    for together in (True, False):
        task = Task(shape)
        left_rows, right_rows = [(key, 0, 0) for key in left], [(key, 0, 0) for key in right]
        joined = task.run(left_rows, right_rows) if together else [*task.run(left_rows), *task.run((), right_rows)]
        assert len(joined) == pairs


@pytest.mark.parametrize("left", [100_000, 100_400, -300])
def test_partners_lie_within_the_bounds_to_the_microsecond(left: int) -> None:
    for together in (True, False):
        task = Task(plan("Full", before=3, after=5))
        right: list[Row] = [("a", number, left + number) for number in (-3_001, -3_000, 5_000, 5_001)]
        joined = task.run([("a", 0, left)], right) if together else [*task.run([("a", 0, left)]), *task.run((), right)]
        assert [m for _, _, m, _ in joined] == [-3_000, 5_000]


@pytest.mark.parametrize("kind", ["Inner", "Full"])
def test_a_row_waits_just_as_long_as_partners_may_come(kind: Kind) -> None:
    task = Task(plan(kind, before=3, after=5))
    unmatched: list[Out] = ms(("a", 0, None, 100)) if kind == "Full" else []
    assert task.run(ms(("a", 0, 100)), (), 105) == []
    assert task.run((), ms(("b", 0, 105)), 105) == []
    assert task.run((), (), 106) == unmatched
    assert task.run((), (), 108) == []
    assert task.run((), (), 109) == (ms(("b", None, 0, 105)) if kind == "Full" else [])


def test_a_row_waits_for_a_partner_in_the_watermarks_microsecond() -> None:
    """One at 100.0004 is in time for a watermark of 100, and within 5 of a row at 95.0004 but not of one at 95.0003."""
    task = Task(plan("Left", before=0, after=5))
    left: list[Row] = [("a", 0, 95_000), ("a", 1, 94_999), ("a", 2, 95_300), ("a", 3, 95_400)]
    assert task.run(left, (), 100) == [("a", 1, None, 94_999)]
    assert task.run((), [("a", 9, 100_400), ("a", 8, 99_999)], 100) == [("a", 3, 9, 100_400)]
    assert task.late == [0, 1]


def test_rows_of_a_long_past_never_wait() -> None:
    task = Task(plan("Full"))
    rows = ms(*(("a", number, number * 100) for number in range(1000)))
    assert len(task.run(rows, rows, 200_000)) == 1000
    assert not any(key.startswith(b"p") for table in task.tables.content().values() for key in table)


def test_the_pairs_of_a_hot_key_are_made_in_chunks() -> None:
    rows = [("a", number, 0) for number in range(1200)]
    for together in (True, False):
        task = Task(plan())
        joined = task.run(rows, rows) if together else [*task.run(rows), *task.run((), rows)]
        assert len(set(joined)) == 1200 * 1200
    side = SideRows.sorted(kept_rows(timed(rows, LEFT), plan().kept(0)), 1)
    matches, bounds = find_hashes(side.hashes, side.hashes), (micros(0), micros(0))
    chunks = [len(places) for places, _ in pairs(side, side, matches, bounds)]
    assert (sum(chunks), max(chunks) <= CHUNK) == (1200 * 1200, True)


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_beyond_a_commit_follow_with_the_next_batches(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_PAIRS", 1000)
    tables, step = MemoryTables(), JoinStep("j", plan(kind), "j")
    rows = ms(*(("a", n, n // 10) for n in range(100)))
    sides = timed(rows, LEFT), timed(rows[:90], RIGHT)
    joined, batches, before, unfired = set[tuple[int, int]](), 0, None, None
    while not batches or unfired is not None:
        outcome = step.run(*sides, tables, StepClock(0, 50, before=before))
        unfired = outcome.unfired
        made = set(zip(*(column.to_pylist() for column in outcome.rows.rows.columns[1:]), strict=True))
        assert outcome.rows.count == len(made) <= 1000
        assert joined.isdisjoint(made)
        joined |= made
        sides, before, batches = (timed([], LEFT), timed([], RIGHT)), 50, batches + 1
        if left := set(itertools.product(range(100), range(90))) - joined:
            assert outcome.unjoined == 190 - sum(rows.rows for rows in outcome.buffered.values())
            assert unfired is not None
            assert (unfired <= min(max(n // 10, m // 10) for n, m in left), outcome.wake) == (True, 0)
    assert len(joined) == 9000
    assert 9 <= batches <= 20
    assert outcome.unjoined == 0


def test_a_row_meets_even_very_many_partners_in_one_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_PAIRS", 10)
    task = Task(plan())
    assert task.run((), [("a", n, 0) for n in range(50)]) == []
    assert len(set(task.run([("a", n, 0) for n in range(3)]))) == 150


def test_rows_put_aside_are_not_late_when_they_meet_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "_MOST_PAIRS", 1)
    task = Task(plan("Full"))
    joined = task.run(ms(("a", 0, 100), ("b", 1, 100)), ms(("a", 0, 101), ("b", 1, 101)), 500)
    assert ordered(joined) == ordered(ms(("a", 0, 0, 101), ("b", 1, 1, 101)))
    assert task.late == [0, 0]


def test_few_keys_over_a_long_time_are_compared_quickly() -> None:
    rows = ms(*(("a", number, number * 7) for number in range(15_000)))
    for kind in ("Inner", "Full"):
        for together in (True, False):
            task = Task(plan(kind, before=7, after=0))
            joined = task.run(rows, rows) if together else [*task.run(rows), *task.run((), rows)]
            assert len(joined) == 29_999
            assert len(task.run(ended=True)) == 0


def test_rounds_of_unmatched_rows_hold_the_watermark_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_buffer, "_ROUND", 10)
    monkeypatch.setattr(side_buffer, "_LEAST_WIDTH", 10 * MS)
    tables, step = MemoryTables(), JoinStep("j", plan("Left"), "j")
    rows = timed(ms(*(("a", number, number) for number in range(100))), LEFT)
    nothing = timed([], LEFT), timed([], RIGHT)
    assert step.run(rows, nothing[1], tables, StepClock(0, 0)).rows.count == 0
    times: list[int] = []
    for _ in range(12):
        outcome = step.run(*nothing, tables, StepClock(0, 1000, before=1000))
        times += outcome.rows.times.to_pylist()
        if outcome.unfired is None:
            break
        assert (outcome.unfired * MS > max(times), outcome.wake) == (True, 0)
    assert len(times) == 100 == len(set(times))
    assert times == sorted(times)


def test_a_distrusted_watermark_makes_no_row_leave_again_or_early() -> None:
    task, far = Task(plan("Left")), 10**12
    assert task.run(ms(("a", 0, 5)), (), far, horizon=far) == ms(("a", 0, None, 5))
    task.watermark = None
    assert task.run(ms(("a", 1, 6)), ms(("a", 0, 7)), 10, horizon=10_000) == ms(("a", 1, 0, 7))
    assert task.run(ended=True, watermark=10) == []


def test_rows_gone_by_a_distrusted_watermark_take_no_later_rows() -> None:
    """The watermark is past the horizon, but what left by it is not: bounds are longer than that."""
    task = Task(plan("Left", before=1000, after=1000))
    assert task.run(ms(("a", 0, 5)), (), 10_500, horizon=20_000) == ms(("a", 0, None, 5))
    task.watermark = None
    assert task.run(ms(("a", 1, 9_000)), (), 9_000, horizon=10_000) == []
    assert task.run((), ms(("a", 2, 9_100)), 9_050, horizon=10_000) == ms(("a", 1, 2, 9_100))


@pytest.mark.parametrize(("after", "came"), [(5, []), (10, [0]), (40, [0])])
def test_waiting_rows_follow_new_bounds_and_gone_ones_stay_out(after: int, came: list[int]) -> None:
    task = Task(plan("Left", after=10))
    assert task.run(ms(("a", 9, 80), ("a", 0, 100)), (), 105) == ms(("a", 9, None, 80))
    task.plan = plan("Left", after=after)
    assert [n for _, n, m, _ in task.run((), ms(("a", 5, 110)), 110) if m is not None] == came
    assert [n for _, n, _, _ in task.run(ended=True, watermark=110)] == []


def test_how_far_rows_have_left_needs_this_releases_format() -> None:
    task = Task(plan())
    task.tables.table("j.left").put_many([b"g"], [b"[5000, 5000, 12.5]"])
    with pytest.raises(StateUnreadableError, match="format 5000, and this release reads 2"):
        task.run(watermark=6000)


def columns() -> Iterator[tuple[JoinColumn, ...]]:
    yield (JoinColumn("right", "m", "x"), JoinColumn("both", "k", "k"), JoinColumn("left", "k", "mine"))
    yield (JoinColumn("right", "K", "theirs"),)


def test_columns_may_be_renamed_and_a_missing_sides_are_null() -> None:
    first, second = columns()
    for together in (True, False):
        task = Task(replace(plan("Full"), columns=first))
        left, right = [("a", 0, 0)], [("a", 1, 0), ("b", 2, 1)]
        joined = task.run(left, right) if together else [*task.run(left), *task.run((), right)]
        joined += task.run(ended=True)
        assert ordered(joined) == ordered([(1, "a", "a", 0), (2, "b", None, 1)])
    task = Task(replace(plan("Full"), columns=second))
    assert ordered(task.run([("a", 0, 0)], [("b", 1, 0)], ended=True)) == ordered([(None, 0), ("b", 0)])
