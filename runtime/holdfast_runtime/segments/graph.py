"""The compiled graph: which step runs in which segment, and which rows travel between segments.

Even levels are Python, odd ones Spark SQL. Each crossing costs a row a trip between the JVM and Python, so each step
runs on the earliest level that its inputs allow. Only a `merge` that no Spark SQL reads runs one level later, if it has
rows that need none: they then travel sealed. A row on which a `filter` or `select` fails travels as the row the
step was given and the column that could not be computed; Spark's own error text is lost where it is caught. Pure and
picklable: the driver compiles, tasks read. Must not run anything or need a JVM; the types of a `select`, which only
Spark knows, come in as a function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.graph import makes_stream
from holdfast.planning.plan import Plan
from holdfast.planning.run_checks import not_built
from holdfast.planning.types.ddl import parse_schema
from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Step
from holdfast_runtime.columns.key_columns import check_key_types
from holdfast_runtime.segments.union import UnionLayout
from holdfast_runtime.steps.failures import FailedRow
from holdfast_runtime.steps.timed_rows import TimedRows, find_column
from holdfast_runtime.streams.codecs import arrow_schema

COLUMN, ROW = "column", "row"
_WHY = "a value it can't cast, a number too large, a division by zero or an index that is not there"


def failed_schema(given: pa.Schema) -> pa.Schema:
    """Return the schema of failed rows, for a step whose input has this schema."""
    return pa.schema([(COLUMN, pa.string()), (ROW, pa.struct(list(given)))])


def failed_rows(step: Step, failed: TimedRows) -> tuple[TimedRows, list[FailedRow]]:
    """Return the rows as the step was given them, and why each failed."""
    row = failed.rows.column(ROW)
    schema = pa.schema([row.type.field(at) for at in range(row.type.num_fields)])
    given = TimedRows(pa.RecordBatch.from_arrays(row.flatten(), schema=schema), failed.times)
    return given, [
        FailedRow(at, _reason(step, column), column) for at, column in enumerate(failed.rows.column(COLUMN).to_pylist())
    ]


def _reason(step: Step, column: str | None) -> str:
    if column is None:
        return f"Spark SQL can't compute the filter {step.filter} for this row: {_WHY}"
    return f"Spark SQL can't compute column {column} for this row: {_WHY}"


SOURCE = "source"
SQL_VERBS = ("filter", "select")
PYTHON_VERBS = ("apply", "process", "deduplicate")
SINK_VERBS = ("to", "repartition", "broadcast")
FAILED = "failed"
"""Rows on which a Spark SQL step failed, on their way to the last level."""
FAILURES = "failures"
"""The node where they become dead letters."""

SelectSchema = Callable[[pa.Schema, tuple[str, ...]], pa.Schema]
"""Returns the columns that result from selecting these expressions from rows of this schema."""


@dataclass(frozen=True, slots=True)
class GraphNode:
    """An input stream or a step."""

    index: int
    """Its place among all nodes; a node comes after those it reads."""
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


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """All nodes with their levels."""

    nodes: tuple[GraphNode, ...]
    last: int
    """The last level, where sinks are. Always even."""
    dropped: tuple[str, ...] = ()
    """Steps without a node: their rows are never written, and they keep no state."""

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
            here = {node.index for node in self.sealed(level - 1)}
            return tuple(node for node in self.crossing(level) if node.index in here)
        read = {source for node in self.nodes if node.level == level + 1 for source in node.inputs}
        return tuple(node for node in self.crossing(level) if node.index not in read)

    def layout(self, level: int) -> UnionLayout:
        """Return the layout in which these rows travel."""
        sealed = self.sealed(level)
        return UnionLayout.of((node for node in self.crossing(level) if node not in sealed), sealed)


def compile_graph(spec: AppSpec, plan: Plan, select_schema: SelectSchema) -> CompiledGraph:
    """Compile a valid app. `select_schema` is called once per `select`, in order of flow."""
    require_built(spec)
    flow = _Flow({step.name: step for step in spec.steps}, plan, select_schema)
    needed = _needed(flow.steps)
    for name in sorted({source for step in spec.steps for source in step.inputs}):
        if name not in flow.steps or makes_stream(flow.steps[name]):
            flow.add_source(name)
    for planned in plan.steps:
        if planned.name in needed:
            flow.add_step(flow.steps[planned.name])
    return flow.compiled(tuple(planned.name for planned in plan.steps if planned.name not in needed))


def require_built(spec: AppSpec) -> None:
    """Raise `NotBuiltError` if the app uses what this release can plan but not run."""
    for problem in not_built(spec):
        raise UserActionError(problem.message, code="NotBuiltError")


def _needed(steps: Mapping[str, Step]) -> set[str]:
    """Return the steps that write or keep state, and all steps they read from."""
    needed: set[str] = set()
    todo = [name for name, step in steps.items() if step.verb in SINK_VERBS or step.verb == "process"]
    while todo:
        name = todo.pop()
        if name in needed or name not in steps:
            continue
        needed.add(name)
        todo.extend(steps[name].inputs)
    return needed


@dataclass(slots=True)
class _Flow:
    """The nodes so far."""

    steps: Mapping[str, Step]
    plan: Plan
    select_schema: SelectSchema
    nodes: list[GraphNode] = field(default_factory=list)
    read_as: dict[str, int] = field(default_factory=dict)
    """Stream or step -> the node whose rows its readers get."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Intermediate streams, whose columns are those of a step further down."""

    def add_source(self, name: str) -> None:
        made = name in self.steps
        schema = pa.schema([]) if made else arrow_schema(self.plan.stream(name).rows)
        node = GraphNode(len(self.nodes), name, SOURCE, (), 0, schema)
        (self.waiting if made else self.read_as)[name] = node.index
        self.nodes.append(node)

    def add_step(self, step: Step) -> None:
        inputs = tuple(self.read_as[name] for name in step.inputs)
        given = [self.nodes[at] for at in inputs]
        if step.deduplicate is not None:
            by = (find_column(given[0].schema, name) for name in step.deduplicate.by)
            check_key_types([given[0].schema.field(at) for at in by if at is not None], step.name)
        node = GraphNode(
            len(self.nodes), step.name, step.verb, inputs, _level(step.verb, given), self._schema(step, given), step
        )
        self.nodes.append(node)
        self.read_as[step.name] = inputs[0] if step.to is not None else node.index
        if step.dead_letter is not None and step.verb in SQL_VERBS:
            self._add_failures(step, node, given[0])
        if (source := self.waiting.pop(step.name, None)) is not None:
            # The planner's columns may lack types that only Spark knows.
            self.nodes[source] = replace(self.nodes[source], schema=node.schema)
            self.read_as[step.name] = source

    def _add_failures(self, step: Step, node: GraphNode, given: GraphNode) -> None:
        schema = failed_schema(given.schema)
        failed = GraphNode(len(self.nodes), step.name, FAILED, (given.index,), node.level, schema, step)
        letters = GraphNode(failed.index + 1, step.name, FAILURES, (failed.index,), node.level, schema, step)
        self.nodes += failed, letters

    def compiled(self, dropped: tuple[str, ...]) -> CompiledGraph:
        deepest = max((node.level for node in self.nodes), default=0)
        last = deepest + deepest % 2
        ends = (*SINK_VERBS, FAILURES)
        nodes = [replace(node, level=last) if node.verb in ends else node for node in self.nodes]
        return CompiledGraph(_merged_late(nodes), last, dropped)

    def _schema(self, step: Step, given: list[GraphNode]) -> pa.Schema:
        schema: pa.Schema = given[0].schema
        function = step.apply or step.process
        if function is not None and function.schema_ is not None:
            return arrow_schema(parse_schema(function.schema_))
        if step.select is not None:
            schema = self.select_schema(schema, step.select)
            if not schema.names:
                message = f"step {step.name} selects no column at all, and rows without columns can't be carried"
                raise UserActionError(message, code="ColumnsMismatchError")
        for other in given[1:]:
            _check_columns(step, given[0], other)
        return schema


def _merged_late(nodes: list[GraphNode]) -> tuple[GraphNode, ...]:
    """Move a merge behind Spark SQL if it is not read there, and has an input that is there for this merge alone."""
    read = {(source, node.level) for node in nodes if node.verb != "merge" for source in node.inputs}
    moving: set[int] = set()
    for node in nodes:
        if node.verb == "merge" and node.level % 2:
            given = (nodes[at] for at in node.inputs)
            if any(
                one.index in moving or (one.level < node.level and (one.index, node.level) not in read) for one in given
            ):
                moving.add(node.index)
    made = list(nodes)
    for node in reversed(nodes):
        readers = (reader for reader in made if node.index in reader.inputs)
        if node.index in moving and all(reader.level > node.level for reader in readers):
            made[node.index] = replace(node, level=node.level + 1)
    return tuple(made)


def _level(verb: str, given: list[GraphNode]) -> int:
    level = max(node.level for node in given)
    if verb in SQL_VERBS:
        return level + (level + 1) % 2
    if verb in PYTHON_VERBS:
        return level + level % 2
    return level


def _check_columns(step: Step, one: GraphNode, other: GraphNode) -> None:
    """Refuse to merge rows of different names or types; a different order is fine."""
    for first, second in ((one, other), (other, one)):
        for column in first.schema:
            same = find_column(second.schema, column.name)
            if same is None or second.schema.field(same).type != column.type:
                found = "is missing" if same is None else f"is {second.schema.field(same).type}"
                message = (
                    f"step {step.name} merges {one.name} and {other.name}, whose columns differ: {column.name} is "
                    f"{column.type} in {first.name} and {found} in {second.name}; make them equal with a select before"
                )
                raise UserActionError(message, code="ColumnsMismatchError")
