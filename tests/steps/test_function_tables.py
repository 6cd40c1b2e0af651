"""Tables as functions look rows up in them, beside a dictionary: any keys, changes, deletions, one by one or many."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import RetrySoonError
from holdfast.planning.join_columns import JoinColumn
from holdfast.spec.steps import Process
from holdfast_runtime.functions import Tables, UnknownTableError
from holdfast_runtime.steps.context import StepClock
from holdfast_runtime.steps.keyed.batch_process import BatchProcessStep
from holdfast_runtime.steps.keyed.process import ProcessStep
from holdfast_runtime.steps.row_dicts import TimeUnusableError
from holdfast_runtime.steps.tables import function_tables
from holdfast_runtime.steps.tables.function_tables import FunctionTable, FunctionTablePlan, FunctionTables
from holdfast_runtime.steps.tables.kept_table import GONE, KeptTable, TableShape
from tests.steps.memory import MemoryTable, MemoryTables, timed

WRITTEN = pa.schema([("n", pa.int64()), ("k", pa.string()), ("j", pa.int32()), GONE])


class HeldTable(MemoryTable):
    """A table of a location, which says when it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.manifest = object()


class Location:
    """A location with one table."""

    def __init__(self, schema: pa.Schema = WRITTEN, key: tuple[str, ...] = ("K", "j")) -> None:
        self.held, self.shape = HeldTable(), TableShape(key, schema)
        columns = tuple(JoinColumn("right", name, name) for name in self.shape.columns)
        lookup = FunctionTablePlan.by_keys("t", self.shape, columns)
        self.read = FunctionTable(FunctionTablePlan(lookup, (), lookup.schema), self)

    def table(self, name: str) -> HeldTable:
        assert name == "t"
        return self.held

    def write(self, rows: list[dict[str, Any]]) -> None:
        schema = self.shape.given
        kept_table = KeptTable(self.held, self.shape)
        kept_table.begin()
        kept_table.put(
            self.shape.stored(pa.RecordBatch.from_pylist([{GONE.name: False, **row} for row in rows], schema))
        )
        self.held.manifest = object()


def one_column(kind: pa.DataType, *values: Any) -> FunctionTable:
    """A table whose key has this type, with these keys."""
    location = Location(pa.schema([("k", kind), ("n", pa.int64()), GONE]), ("k",))
    location.write([{"k": value, "n": number} for number, value in enumerate(values)])
    return location.read


parts = st.tuples(st.sampled_from(["", "a", "b", None]), st.one_of(st.none(), st.integers(0, 2)))
writes = st.lists(st.tuples(parts, st.one_of(st.none(), st.integers(0, 9)), st.booleans()), max_size=6)


@given(batches=st.lists(st.tuples(writes, st.lists(parts, max_size=6))), search=st.sampled_from([0, 1, 100]))
def test_what_is_found_is_what_a_dictionary_holds(batches: list[Any], search: int) -> None:
    location, model = Location(), dict[Any, Any]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(function_tables, "_SEARCH", search)
        patch.setattr(function_tables, "_MOST_ROWS", 4)
        for written, keys in batches:
            if written:
                location.write([{"k": k, "j": j, "n": n, GONE.name: deleted} for (k, j), n, deleted in written])
            for key, n, deleted in written:
                model.pop(key, None)
                if not deleted and None not in key:
                    model[key] = {"n": n, "k": key[0], "j": key[1]}
            assert [location.read.get(key) for key in keys] == [model.get(key) for key in keys]
            columns = [pa.array([key[0] for key in keys], pa.string()), pa.array([key[1] for key in keys], pa.int32())]
            nothing = {"n": None, "k": None, "j": None}
            assert location.read.lookup(columns).to_pylist() == [model.get(key, nothing) for key in keys]


def test_a_changed_row_is_not_what_others_get() -> None:
    location = Location(pa.schema([("k", pa.string()), ("l", pa.list_(pa.int64())), GONE]), ("k",))
    location.write([{"k": "a", "l": [1]}])
    for _ in range(3):
        row = location.read.get("a")
        assert row == {"k": "a", "l": [1]}
        row["l"].append(2)
        row["k"] = "b"


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (pa.string(), 1),
        (pa.int64(), True),
        (pa.int64(), 1.0),
        (pa.int64(), "1"),
        (pa.int64(), (1,)),
        (pa.date32(), 1),
        (pa.float64(), "nan"),
    ],
)
def test_a_key_of_another_type_is_refused_in_any_order(kind: pa.DataType, key: Any) -> None:
    table = one_column(kind)
    for _ in range(2):
        with pytest.raises(TypeError, match=r"table t is looked up by k \(.*\), and .* is no such value"):
            table.get(key)
        table.get(None)


@pytest.mark.parametrize(
    ("kind", "key"),
    [(pa.int64(), 2**70), (pa.int8(), 300), (pa.decimal128(3, 1), Decimal("1.11")), (pa.string(), "\ud800")],
)
@pytest.mark.parametrize("search", [0, 10**6])
def test_a_value_too_large_for_the_column_is_not_there(
    kind: pa.DataType, key: Any, search: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function_tables, "_SEARCH", search)
    assert one_column(kind, None).get(key) is None


@pytest.mark.parametrize("key", ["a", ("a",), ("a", 1, 2), ["a", 1], ("a", "1")])
def test_a_key_of_two_columns_is_a_tuple_of_two(key: Any) -> None:
    with pytest.raises(TypeError, match=r"a tuple of k \(string\), j \(int32\), and"):
        Location().read.get(key)


def test_a_time_beyond_python_troubles_only_who_asks_for_it() -> None:
    location = Location(pa.schema([("k", pa.string()), ("at", pa.timestamp("us")), GONE]), ("k",))
    location.write([{"k": "far", "at": 2**60}, {"k": "near", "at": 0}])
    for _ in range(2):
        row = location.read.get("near")
        assert row is not None
        assert row["at"].year == 1970
        with pytest.raises(TimeUnusableError, match="table t: column at holds a time outside"):
            location.read.get("far")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([pa.array(["a"])], "give a column for each of them, in this order, not 1"),
        ([pa.array(["a"]), pa.array([1])], "for j is of type int64: cast it to an array of int32"),
        ([["a"], [1]], "for k is a list: cast it to an array of string"),
    ],
)
def test_columns_that_are_no_key_are_refused(columns: list[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Location().read.lookup(columns)


def test_columns_in_chunks_are_looked_up() -> None:
    found_rows = one_column(pa.string(), "a", "b").lookup([pa.chunked_array([["b"], ["c", "a"]])])
    assert found_rows.column("n").to_pylist() == [1, None, 0]


def test_a_table_that_the_step_does_not_name_is_told() -> None:
    tables = FunctionTables("charge", {"rates": one_column(pa.string(), "EUR")})
    assert tables.names == ("rates",)
    for ask in (lambda: tables.get("rate", "EUR"), lambda: tables.lookup("rate", pa.array(["EUR"]))):
        with pytest.raises(UnknownTableError, match="step charge has no table rate; did you mean rates"):
            ask()
    with pytest.raises(UnknownTableError, match="the step has no table rates: name it in its tables"):
        Tables().get("rates", "EUR")


GIVEN = pa.schema([("k", pa.string())])


def _moved_on(*_: Any) -> Any:
    message = "the table has moved on"
    raise RetrySoonError(message, code="TableMovedOnError")


def _unnamed(_: Any, __: Any, state: Any) -> Any:
    return state.tables.get("rates", "EUR")


def _step(form: Any, function: Callable[..., Any]) -> ProcessStep | BatchProcessStep:
    if form == "Rows":
        return ProcessStep("charge", Process(function="m:f", by=("k",)), function, GIVEN, GIVEN)
    verb = Process(function="m:f", form="Batch", by=("k",), state="n BIGINT")
    return BatchProcessStep("charge", verb, function, GIVEN, GIVEN)


@pytest.mark.parametrize("form", ["Rows", "Batch"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_table_that_can_not_be_read_blames_no_row(form: str, *, apart: bool) -> None:
    step = _step(form, _moved_on)
    run = step.run_apart if apart else step.run
    with pytest.raises(RetrySoonError, match="the table has moved on"):
        run(timed(GIVEN, [{"k": "a"}, {"k": "b"}]), MemoryTables(), StepClock(0, None))


@pytest.mark.parametrize("form", ["Rows", "Batch"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_table_without_a_name_stops_all_rows(form: str, *, apart: bool) -> None:
    step = _step(form, _unnamed)
    run = step.run_apart if apart else step.run
    with pytest.raises(Exception, match="UnknownTableError: the step has no table rates"):
        run(timed(GIVEN, [{"k": "a"}, {"k": "b"}]), MemoryTables(), StepClock(0, None))
