"""Partials: what calls keep of the rows of a key, and that they keep what they choose by once."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.hashed_rows import HashedRows
from holdfast_runtime.steps.windows.partials import Partials

ROWS = pa.schema([("k", pa.int64()), ("x", pa.string()), ("y", pa.float64()), ("t", pa.int64()), ("c", pa.bool_())])
LATEST, COUNT = AggregateCall("max", ("t",)), AggregateCall("count")
CONDITIONS = st.sampled_from([None, "c"])
OVER_NUMBERS = ["sum", "try_sum", "avg", "stddev_samp", "var_pop", "max", "min"]
CALLS = st.one_of(
    st.builds(
        AggregateCall,
        st.sampled_from(["min_by", "max_by"]),
        st.tuples(st.sampled_from("xyt"), st.sampled_from("yt")),
        CONDITIONS,
    ),
    st.builds(AggregateCall, st.sampled_from(OVER_NUMBERS), st.tuples(st.sampled_from("yt")), CONDITIONS),
    st.builds(AggregateCall, st.just("count"), st.tuples(st.sampled_from("xyt")), CONDITIONS, st.booleans()),
    st.builds(
        AggregateCall,
        st.sampled_from(["first", "any_value", "last"]),
        st.tuples(st.sampled_from("xyt")),
        CONDITIONS,
        st.just(value=False),
        st.booleans(),
    ),
)
VALUES = {
    "k": st.integers(0, 2),
    "x": st.sampled_from("abc"),
    "y": st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
    "t": st.none() | st.integers(0, 3),
    "c": st.none() | st.booleans(),
}
BATCHES = st.lists(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=6), min_size=1, max_size=4)


def by_latest(column: str) -> AggregateCall:
    return AggregateCall("max_by", (column, "t"))


def results(calls: Sequence[AggregateCall], batches: Sequence[pa.RecordBatch]) -> list[str]:
    """The results of all keys, each column as text: a NaN is equal to itself."""
    partials = Partials("s", ["k"], ROWS, calls)
    gathered = [partials.gather(rows) for rows in batches]
    merged = partials.merge(
        HashedRows(
            np.concatenate([part.hashes for part in gathered]), pa.concat_batches([part.rows for part in gathered])
        )
    )
    finished = partials.finish(merged.rows)
    order = np.argsort(finished.keys[0].to_numpy())
    return [str(result.values.take(pa.array(order)).to_pylist()) for result in finished.results]


def test_what_several_calls_choose_by_is_kept_once() -> None:
    partials = Partials("s", ["k"], ROWS, [by_latest("x"), LATEST, by_latest("y"), COUNT])
    assert partials.schema.names == ["k", "#0.0", "#0.1", "#2.0", "#3.0"]


def test_a_sum_and_an_average_keep_the_same() -> None:
    calls = [AggregateCall(function, ("t",)) for function in ("avg", "sum", "var_pop", "stddev_samp")]
    partials = Partials("s", ["k"], ROWS, [*calls, AggregateCall("sum", ("t",), "c"), AggregateCall("sum", ("y",))])
    names = [f"#{call}.{part}" for call, parts in [(0, 3), (2, 3), (4, 3), (5, 2)] for part in range(parts)]
    assert partials.schema.names == ["k", *names]


def test_calls_that_choose_otherwise_keep_their_own() -> None:
    earliest, counted = AggregateCall("min", ("t",)), AggregateCall("max", ("t",), "c")
    partials = Partials("s", ["k"], ROWS, [LATEST, earliest, counted, AggregateCall("first", ("t",))])
    assert partials.schema.names == ["k", "#0.0", "#1.0", "#2.0", "#3.0", "#3.1"]


def test_a_column_of_several_calls_says_the_first() -> None:
    partials = Partials("s", ["k"], ROWS, [by_latest("x"), LATEST])
    made = partials.made_by(partials.schema, ["max_by(x, t)", "max(t)"])
    assert [(field.name, *(field.metadata or {}).values()) for field in made] == [
        ("k",),
        ("#0.0", b"max_by(x, t)"),
        ("#0.1", b"max_by(x, t)"),
    ]


@given(st.lists(CALLS, min_size=2, max_size=5), BATCHES)
def test_calls_beside_others_give_what_each_gives_alone(
    calls: list[AggregateCall], rows: list[list[dict[str, object]]]
) -> None:
    batches = [pa.RecordBatch.from_pylist(batch, schema=ROWS) for batch in rows]
    assert results(calls, batches) == [result for call in calls for result in results([call], batches)]


@given(st.lists(CALLS | st.just(COUNT), max_size=4), BATCHES)
def test_partials_of_rows_know_of_how_many(calls: list[AggregateCall], rows: list[list[dict[str, object]]]) -> None:
    partials = Partials("s", ["k"], ROWS, [*calls, COUNT])
    for batch in rows:
        gathered = partials.gather(pa.RecordBatch.from_pylist(batch, schema=ROWS))
        assert partials.rows_of(gathered.rows) == len(batch)
