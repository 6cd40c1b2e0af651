"""The compiled graph: which step runs in which segment, and which rows travel between segments.

Even levels are Python, odd ones Spark SQL; each crossing costs a row a trip between the JVM and Python. A row on which
a `filter` or `select` fails travels as the row the step was given and the column that could not be computed; Spark's
own error text is lost where it is caught. Pure and picklable: the driver makes it (`compiling`), tasks read. Must not
run anything or need a JVM.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from holdfast.planning.sql.plain.expressions import Plain
from holdfast.spec.steps import Step
from holdfast.spec.streams import Table
from holdfast.spec.values import millis
from holdfast.spec.verbs import SINK_VERBS, SQL_VERBS, verbs_that
from holdfast_runtime.segments.union import UnionLayout
from holdfast_runtime.steps.failures import FailedRow, FailedRows, not_computed
from holdfast_runtime.steps.joins.join_plan import JoinPlan
from holdfast_runtime.steps.tables.function_tables import FunctionTablePlan
from holdfast_runtime.steps.tables.kept_table import TableShape
from holdfast_runtime.steps.tables.lookup import LookupPlan
from holdfast_runtime.steps.timed_rows import TimedRows
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan

SelectSchema = Callable[[pa.Schema, tuple[str, ...]], pa.Schema]
"""Returns the columns that result from selecting these expressions from rows of this schema."""
COLUMN, ROW = "column", "row"
_WHY = "a value it can't cast, a number too large, a division by zero or an index that is not there"


def failed_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of failed rows, for a step whose input has this schema."""
    return pa.schema([(COLUMN, pa.string()), (ROW, pa.struct(list(schema)))])


def failed_rows(step: Step, failed: TimedRows) -> FailedRows:
    """Return the rows as the step was given them, and why each failed."""
    row = failed.rows.column(ROW)
    schema = pa.schema([row.type.field(index) for index in range(row.type.num_fields)])
    input_rows = TimedRows(pa.RecordBatch.from_arrays(row.flatten(), schema=schema), failed.times)
    failed_columns = failed.rows.column(COLUMN).to_pylist()
    return FailedRows(
        input_rows,
        [FailedRow(row, not_computed(step, column, _WHY), column) for row, column in enumerate(failed_columns)],
    )


SOURCE = "source"
PICK, SIFT = "pick", "sift"
"""A `select` and a `filter` of plain expressions whose rows are in Python already: they take no trip to the JVM."""
PARTIAL = "partial"
"""The part of an `aggregate` that runs before its rows travel."""
TIMES = "times"
"""The part of a step with `eventTime` that gives its rows their times, behind what it does itself."""
_PYTHON_VERBS = (*verbs_that(lambda verb: verb.runs == "Python"), PARTIAL, TIMES)
FAILED = "failed"
"""Rows on which a Spark SQL step failed, on their way to the last level."""
FAILURES = "failures"
"""The node where they become dead letters."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An input stream or a step."""

    index: int
    """Its index among all nodes; a node comes after those it reads."""
    name: str
    verb: str
    """`source`, or the verb of the step."""
    inputs: tuple[int, ...]
    """The nodes whose rows it reads, in the order of `from`. A `to` step is never among them; its input is instead."""
    level: int
    schema: pa.Schema
    """The schema of its output rows; for a sink, of its input rows."""
    step: Step | None = None
    """None for a stream."""
    aggregate: AggregatePlan | None = None
    """What an `aggregate` computes itself, between the Spark SQL of its arguments and of its results."""
    join: JoinPlan | None = None
    """What a `join` matches and puts out, before the Spark SQL of its `select`."""
    lookup: LookupPlan | None = None
    """What a `lookup` finds and puts out, before the Spark SQL of its `select`."""
    table: TableShape | None = None
    """The columns of the table that a `toTable` writes."""
    function_tables: tuple[FunctionTablePlan, ...] = ()
    """The tables in which the function of a `process` looks rows up."""
    plain: tuple[Plain, ...] = ()
    """The columns of a `pick`, in the order of its schema; the condition of a `sift`."""


def earliest_level(verb: str, sources: list[GraphNode]) -> int:
    """Return the first level on which a verb can run behind these nodes."""
    level = max(node.level for node in sources)
    if verb in SQL_VERBS:
        return level + (level + 1) % 2
    if verb in _PYTHON_VERBS:
        return level + level % 2
    return level


def merged_late(nodes: list[GraphNode]) -> tuple[GraphNode, ...]:
    """Move a merge behind Spark SQL if it is not read there, and has an input that is there for this merge alone."""
    read = {(source, node.level) for node in nodes if node.verb != "merge" for source in node.inputs}
    moving: set[int] = set()
    for node in nodes:
        if node.verb == "merge" and node.level % 2:
            sources = (nodes[source] for source in node.inputs)
            if any(
                source_node.index in moving
                or (source_node.level < node.level and (source_node.index, node.level) not in read)
                for source_node in sources
            ):
                moving.add(node.index)
    moved_nodes = list(nodes)
    for node in reversed(nodes):
        readers = (reader for reader in moved_nodes if node.index in reader.inputs)
        if node.index in moving and all(reader.level > node.level for reader in readers):
            moved_nodes[node.index] = replace(node, level=node.level + 1)
    return tuple(moved_nodes)


@dataclass(frozen=True, slots=True)
class FedTable:
    """A table as attempts take it up: with side inputs, with files, or written by steps."""

    name: str
    sources: tuple[str, ...]
    """Its side inputs; none if files feed it or steps write it."""
    shape: TableShape
    broadcast: bool
    """One copy per location, which slots keep beside the tasks' stores; otherwise each task writes its own rows."""
    bootstrap: bool
    anew: bool
    """Whether each attempt starts it anew."""
    max_age: int | None
    """Milliseconds after which an attempt starts it anew; None: never."""
    files: bool = False
    """Whether it is a data set of files, which the driver loads: locations fetch it when a batch names it."""

    @classmethod
    def of(cls, table: Table, shape: TableShape) -> "FedTable":
        """Return a declared table with these columns."""
        return cls(
            name=table.name,
            sources=table.sources or (),
            shape=shape,
            broadcast=table.distribution == "Broadcast",
            bootstrap=table.bootstrap,
            anew=not table.persistent,
            max_age=None if table.max_age is None else millis(table.max_age),
            files=table.files is not None,
        )


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """All nodes with their levels."""

    nodes: tuple[GraphNode, ...]
    last: int
    """The last level, where sinks are. Always even."""
    dropped: tuple[str, ...] = ()
    """Steps without a node: their rows are never written, and they keep no state."""
    tables: tuple[FedTable, ...] = ()

    @property
    def side_inputs(self) -> frozenset[str]:
        """The streams that feed tables."""
        return frozenset(source for table in self.tables for source in table.sources)

    @property
    def sources(self) -> tuple[GraphNode, ...]:
        """The input streams."""
        return tuple(node for node in self.nodes if node.verb == SOURCE)

    @property
    def sinks(self) -> tuple[GraphNode, ...]:
        """The steps that write, in order of flow."""
        return tuple(node for node in self.nodes if node.verb in SINK_VERBS)

    @property
    def failures(self) -> tuple[GraphNode, ...]:
        """The nodes where failed rows of Spark SQL steps arrive, in order of flow."""
        return tuple(node for node in self.nodes if node.verb == FAILURES)

    @property
    def has_sql(self) -> bool:
        """Whether there is any Spark SQL segment."""
        return self.last > 0

    def reach(self) -> tuple[frozenset[str], ...]:
        """Return for each node the streams whose rows reach it."""
        streams_of: list[frozenset[str]] = []
        for node in self.nodes:
            streams = frozenset({node.name}) if node.step is None else frozenset[str]()
            streams_of.append(streams.union(*(streams_of[source] for source in node.inputs)))
        return tuple(streams_of)

    def clocks(self) -> tuple[frozenset[str], ...]:
        """Return for each node what its rows have their event times from: streams, and steps with an `eventTime`."""
        clocks_of: list[frozenset[str]] = []
        for node in self.nodes:
            upstream = frozenset[str]().union(*(clocks_of[source] for source in node.inputs))
            clocks_of.append(frozenset({node.name}) if node.step is None or node.verb == TIMES else upstream)
        return tuple(clocks_of)

    def at(self, level: int) -> tuple[GraphNode, ...]:
        """Return the steps of this level, in order of flow."""
        return tuple(node for node in self.nodes if node.level == level and node.verb != SOURCE)

    def crossing(self, level: int) -> tuple[GraphNode, ...]:
        """Return the nodes whose rows travel from this level to the next: made up to here, read after it."""
        read = {source for node in self.nodes if node.level > level for source in node.inputs}
        return tuple(node for node in self.nodes if node.level <= level and node.index in read)

    def sealed(self, level: int) -> tuple[GraphNode, ...]:
        """Return those among them whose rows Spark SQL does not look at: at the next level, or at this one."""
        if level % 2:
            sealed = {node.index for node in self.sealed(level - 1)}
            return tuple(node for node in self.crossing(level) if node.index in sealed)
        read = {source for node in self.nodes if node.level == level + 1 for source in node.inputs}
        return tuple(node for node in self.crossing(level) if node.index not in read)

    def layout(self, level: int) -> UnionLayout:
        """Return the layout in which these rows travel."""
        sealed = self.sealed(level)
        return UnionLayout.of((node for node in self.crossing(level) if node not in sealed), sealed)
