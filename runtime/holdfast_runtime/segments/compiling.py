"""The compiling of an app to its graph: each step on the earliest level that its inputs allow.

Only a `merge` that no Spark SQL reads runs one level later, if it has rows that need none: they then travel sealed. A
Partitioned table has a writer behind each of its side inputs; look-ups come behind all writers. Must not run anything
or need a JVM; the types of a `select`, which only Spark knows, come in as a function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import split_compute
from holdfast.planning.graph import makes_stream
from holdfast.planning.join_columns import TableColumns, picked_columns, split_join, split_table
from holdfast.planning.plan import Plan
from holdfast.planning.sql.items import quoted
from holdfast.planning.sql.plain.expressions import PlainColumn
from holdfast.planning.sql.plain.reading import plain_filter, plain_select
from holdfast.planning.types.ddl import parse_schema
from holdfast.spec.app import AppSpec
from holdfast.spec.kept_state import table_name
from holdfast.spec.partial_aggregates import partial_aggregates
from holdfast.spec.steps import (
    Aggregate,
    Apply,
    Broadcast,
    Deduplicate,
    Filter,
    Join,
    Lookup,
    Merge,
    Process,
    Repartition,
    Select,
    Step,
    To,
    ToTable,
)
from holdfast.spec.streams import Table
from holdfast.spec.verbs import SINK_VERBS, SQL_VERBS, VERBS
from holdfast_runtime.columns.key_columns import check_key_types
from holdfast_runtime.segments.broadcast_tables import BroadcastTable
from holdfast_runtime.segments.graph import (
    FAILED,
    FAILURES,
    PARTIAL,
    PICK,
    SIFT,
    SOURCE,
    TIMES,
    CompiledGraph,
    FedTable,
    GraphNode,
    SelectSchema,
    earliest_level,
    failed_schema,
    merged_late,
)
from holdfast_runtime.segments.spark_expressions import SparkExpression, WrittenTexts, beyond_plain
from holdfast_runtime.steps.joins.join import JoinStep
from holdfast_runtime.steps.joins.join_plan import JoinPlan
from holdfast_runtime.steps.plain.plain_sql import keeps_kinds, plain_kinds
from holdfast_runtime.steps.tables.function_tables import FunctionTablePlan
from holdfast_runtime.steps.tables.kept_table import GONE, SET, TableShape
from holdfast_runtime.steps.tables.lookup import LookupPlan
from holdfast_runtime.steps.timed_rows import find_column
from holdfast_runtime.steps.windows.aggregate import AggregateStep
from holdfast_runtime.steps.windows.aggregate_plan import AggregatePlan
from holdfast_runtime.steps.windows.partial_aggregate import PartialAggregateStep
from holdfast_runtime.streams.codecs import arrow_schema


def compile_graph(
    spec: AppSpec,
    plan: Plan,
    select_schema: SelectSchema,
    in_spark: Callable[[SparkExpression], object] = lambda _: None,
) -> CompiledGraph:
    """Compile a valid app. `select_schema` is called once per `select`, in order of flow.

    `in_spark` is called with each expression that only Spark SQL computes, before its column is asked for.
    """
    steps = {step.name: step for step in spec.steps}
    flow = _Flow(steps, plan, select_schema, in_spark, partial=partial_aggregates(spec))
    flow.tables = {table.name: table for table in spec.tables}
    changed = {stream.name for stream in spec.streams if stream.changes is not None}
    needed = _needed(flow.steps)
    for name in sorted({source for step in spec.steps for source in step.inputs}):
        if name not in flow.steps or makes_stream(flow.steps[name]):
            flow.add_source(name, changes=name in changed)
    for table in spec.tables:
        if table.sources is not None:
            flow.add_fed_table(table, table.sources)
        elif table.files is not None:
            flow.add_file_table(table)
    for planned in plan.steps:
        if planned.name in needed:
            flow.add_step(flow.steps[planned.name])
    for table in spec.tables:
        if table.sources is None and table.files is None:
            flow.fed[table.name] = FedTable.of(table, flow.table_shape(table.name))
    return flow.compiled(tuple(planned.name for planned in plan.steps if planned.name not in needed))


def _needed(steps: Mapping[str, Step]) -> set[str]:
    """Return the steps that run though nobody reads them, and all steps they read from."""
    needed: set[str] = set()
    todo = [name for name, step in steps.items() if VERBS[step.verb].runs_unread]
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
    in_spark: Callable[[SparkExpression], object]
    nodes: list[GraphNode] = field(default_factory=list)
    read_as: dict[str, int] = field(default_factory=dict)
    """Stream or step -> the node whose rows its readers get."""
    waiting: dict[str, int] = field(default_factory=dict)
    """Intermediate streams, whose columns are those of a step further down."""
    partial: Mapping[str, str] = field(default_factory=dict)
    """Step that sends rows on -> the aggregate that they are aggregated for."""
    sent: dict[str, AggregatePlan] = field(default_factory=dict)
    """Aggregate to which partials are sent -> what it computes."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    fed: dict[str, FedTable] = field(default_factory=dict)
    broadcast: dict[str, BroadcastTable] = field(default_factory=dict)
    called_with: dict[str, FunctionTablePlan] = field(default_factory=dict)
    """Table -> what functions see of it."""

    def add_fed_table(self, table: Table, sources: tuple[str, ...]) -> None:
        """Add a table with side inputs, and how its tasks write it."""
        shapes = [self._add_side_input(table, source) for source in sources]
        self.fed[table.name] = FedTable.of(table, shapes[0])

    def add_file_table(self, table: Table) -> None:
        """Add a table that files feed."""
        input_schema, items = arrow_schema(parse_schema(str(table.schema_))), table.select
        parts = None if items is None else split_table(items, input_schema.names)
        self.fed[table.name] = FedTable.of(table, self._add_broadcast(table, input_schema, parts))

    def _add_side_input(self, table: Table, source: str) -> TableShape:
        columns = arrow_schema(self.plan.stream(source).rows)
        input_schema, items = pa.schema([*columns, GONE, *([SET] if table.versioned else [])]), table.select
        parts = None if items is None else split_table(items, columns.names)
        if table.distribution == "Broadcast":
            return self._add_broadcast(table, input_schema, parts)
        shape = TableShape(table.key, input_schema, None if parts is None else parts.kept)
        if source not in self.read_as:
            node = GraphNode(len(self.nodes), source, SOURCE, (), 0, input_schema)
            self.nodes.append(node)
            self.read_as[source] = node.index
        source_index = self.read_as[source]
        step = Step.model_construct(name=f"{source} to {table.name}", inputs=(source,), to_table=table.name)
        if items is not None and parts is not None and parts.computed:
            source_index = self._add(
                _select(step, (*items, *map(quoted, input_schema.names[len(columns.names) :]))),
                (source_index,),
                written=WrittenTexts(f"table {table.name}", "select"),
            ).index
            shape = TableShape(table.key, self.nodes[source_index].schema)
        self._check_key(step, source_index, table.key)
        level = earliest_level("toTable", [self.nodes[source_index]])
        self.nodes.append(
            GraphNode(len(self.nodes), step.name, "toTable", (source_index,), level, input_schema, step, table=shape)
        )
        return shape

    def _add_broadcast(self, table: Table, input_schema: pa.Schema, select: TableColumns | None) -> TableShape:
        self.broadcast[table.name] = BroadcastTable.of(table, input_schema, select, self.select_schema)
        return self.broadcast[table.name].shape

    def add_source(self, name: str, *, changes: bool) -> None:
        from_step = name in self.steps
        schema = pa.schema([]) if from_step else arrow_schema(self.plan.stream(name).rows)
        if changes:
            schema = schema.append(GONE)
        node = GraphNode(len(self.nodes), name, SOURCE, (), 0, schema)
        (self.waiting if from_step else self.read_as)[name] = node.index
        self.nodes.append(node)

    def add_step(self, step: Step) -> None:
        inputs = tuple(self.read_as[name] for name in step.inputs)
        if step.name in self.partial:
            inputs = (self._add_partial(self.steps[self.partial[step.name]], inputs[0]).index,)
        match step.operation:
            case Aggregate() as verb:
                self._check_key(step, inputs[0], verb.by)
                node = self._add_aggregate(step, verb, inputs[0])
            case Join() as verb:
                node = self._add_join(step, verb, inputs)
            case Lookup() as verb:
                node = self._add_lookup(step, verb, inputs[0])
            case Deduplicate(by=by) | Process(form="Batch", by=by):
                self._check_key(step, inputs[0], by)
                node = self._add(step, inputs)
            case ToTable(table):
                node = self._add_writer(step, self.tables[table], inputs[0])
            case Filter() | Select() | Merge() | Apply() | Process() | Repartition() | Broadcast() | To():
                node = self._add(step, inputs)
            case never:
                assert_never(never)
        if step.event_time is not None:
            node = GraphNode(
                len(self.nodes), step.name, TIMES, (node.index,), earliest_level(TIMES, [node]), node.schema, step
            )
            self.nodes.append(node)
        self.read_as[step.name] = inputs[0] if step.to is not None else node.index
        if (source := self.waiting.pop(step.name, None)) is not None:
            # The planner's columns may lack types that only Spark knows.
            self.nodes[source] = replace(self.nodes[source], schema=node.schema)
            self.read_as[step.name] = source

    def _check_key(self, step: Step, source: int, columns: tuple[str, ...]) -> None:
        schema = self.nodes[source].schema
        indices = (find_column(schema, name) for name in columns)
        check_key_types([schema.field(index) for index in indices if index is not None], step.name)

    def _add(
        self,
        step: Step,
        inputs: tuple[int, ...],
        plan: AggregatePlan | None = None,
        join: JoinPlan | None = None,
        written: WrittenTexts | None = None,
    ) -> GraphNode:
        sources = [self.nodes[source] for source in inputs]
        if step.verb in SQL_VERBS:
            if not sources[0].level % 2 and (node := self._plain(step, sources[0])) is not None:
                self.nodes.append(node)
                return node
            texts = written or WrittenTexts(f"step {step.name}", step.verb)
            for expression in texts.behind(beyond_plain(step, sources[0])):
                self.in_spark(expression)
        if plan is not None:
            schema = AggregateStep(step.name, plan, step.name).schema
        else:
            schema = self._schema(step, sources) if join is None else JoinStep(step.name, join, step.name).schema
        level = earliest_level(step.verb, sources)
        tables = tuple(map(self._function_table, step.function_tables))
        node = GraphNode(
            len(self.nodes), step.name, step.verb, inputs, level, schema, step, plan, join, function_tables=tables
        )
        self.nodes.append(node)
        if step.on_error == "DeadLetter" and step.verb in SQL_VERBS:
            self._add_failures(step, node, sources[0])
        return node

    def _function_table(self, name: str) -> FunctionTablePlan:
        if name not in self.called_with:
            self.called_with[name] = self.broadcast[name].for_functions(self.select_schema)
        return self.called_with[name]

    def _plain(self, step: Step, source: GraphNode) -> GraphNode | None:
        """Return the node of a step that needs no Spark SQL for rows that are in Python; None if it does."""
        index, kinds, sources = len(self.nodes), plain_kinds(source.schema), (source.index,)
        if step.filter is not None:
            condition = plain_filter(step.filter, kinds)
            if condition is None:
                return None
            return GraphNode(index, step.name, SIFT, sources, source.level, source.schema, step, plain=(condition,))
        items = step.select or ()
        picked = picked_columns(items, source.schema.names)
        if picked is not None:
            columns = tuple(map(PlainColumn, picked.values()))
            schema = pa.schema([source.schema.field(column).with_name(name) for name, column in picked.items()])
            return GraphNode(index, step.name, PICK, sources, source.level, schema, step, plain=columns)
        expressions = plain_select(items, kinds)
        if expressions is None or not keeps_kinds(expressions, schema := self._schema(step, [source])):
            return None
        return GraphNode(index, step.name, PICK, sources, source.level, schema, step, plain=expressions)

    def _add_aggregate(self, step: Step, verb: Aggregate, source: int) -> GraphNode:
        """Add the step itself, and where it needs them, selects before and behind it."""
        plan = self.sent.get(step.name)
        if plan is None:
            source, plan = self._arguments(step, verb, source)
        node = self._add(step, (source,), plan)
        return self._add_select(node, step, plan.parts.after, WrittenTexts.of_compute(step, verb, plan.columns))

    def _add_join(self, step: Step, verb: Join, inputs: tuple[int, ...]) -> GraphNode:
        """Add the step itself, and a select behind it where its own has more than columns."""
        left, right = (self.nodes[source].schema for source in inputs)
        for source in inputs:
            self._check_key(step, source, verb.by)
        parts = split_join(verb, tuple(left.names), tuple(right.names))
        node = self._add(step, inputs, join=JoinPlan.of(verb, parts.columns, left, right))
        return self._add_select(node, step, parts.after, WrittenTexts.of_select(step, verb))

    def _add_lookup(self, step: Step, verb: Lookup, source: int) -> GraphNode:
        """Add the step itself, behind the writers of its table, and a select behind it where it needs one."""
        rows, table = self.nodes[source].schema, self.table_shape(verb.table)
        self._check_key(step, source, verb.by)
        broadcast = self.broadcast.get(verb.table)
        parts = split_join(verb, tuple(rows.names), table.columns if broadcast is None else broadcast.columns)
        columns, select = (parts.columns, ()) if broadcast is None else broadcast.looked_up(parts.columns)
        kept_as = table_name(verb.table) if broadcast is None else verb.table
        plan = LookupPlan(verb.by, verb.type == "Inner", columns, rows, table, kept_as, broadcast is not None)
        writers = [node.level for node in self._writers(verb.table)]
        level = max(earliest_level(step.verb, [self.nodes[source]]), *writers, 0)
        node = GraphNode(len(self.nodes), step.name, step.verb, (source,), level, plan.schema, step, lookup=plan)
        self.nodes.append(node)
        if broadcast is not None:
            node = self._add_select(
                node, step, select, WrittenTexts(f"table {verb.table}", "select", broadcast.written(parts.columns))
            )
        return self._add_select(node, step, parts.after, WrittenTexts.of_select(step, verb))

    def _add_select(self, node: GraphNode, step: Step, items: tuple[str, ...], written: WrittenTexts) -> GraphNode:
        """Add a part of a step behind a node, if there is anything to compute."""
        return self._add(_select(step, items), (node.index,), written=written) if items else node

    def _add_writer(self, step: Step, table: Table, source: int) -> GraphNode:
        """Add a step that writes a table: the first of them gives it its columns, unless these are declared."""
        self._check_key(step, source, table.key)
        rows = self.nodes[source]
        known = table.schema_ is not None or self._writers(table.name)
        shape = self.table_shape(table.name) if known else TableShape(table.key, rows.schema)
        level = earliest_level(step.verb, [rows])
        node = GraphNode(len(self.nodes), step.name, step.verb, (source,), level, rows.schema, step, table=shape)
        self.nodes.append(node)
        return node

    def _writers(self, table: str) -> list[GraphNode]:
        """Return the steps so far that write a table: those of a circle come behind their look-up."""
        return [node for node in self.nodes if node.step is not None and node.step.to_table == table]

    def table_shape(self, name: str) -> TableShape:
        """Return the columns of a table: those of its side inputs, as declared, or of its writers."""
        if name in self.fed:
            return self.fed[name].shape
        declared = self.tables[name]
        if declared.schema_ is not None:
            return TableShape(declared.key, arrow_schema(parse_schema(declared.schema_)))
        return TableShape(declared.key, self._writers(name)[0].schema)

    def _add_partial(self, step: Step, source: int) -> GraphNode:
        """Add the part of an `aggregate` that runs before its rows travel."""
        assert step.aggregate is not None  # noqa: S101 - `partial_aggregates` names only such steps
        source, plan = self._arguments(step, step.aggregate, source)
        self.sent[step.name] = plan = replace(plan, sent=True)
        level = earliest_level(PARTIAL, [self.nodes[source]])
        schema = PartialAggregateStep(step.name, plan).schema
        node = GraphNode(len(self.nodes), step.name, PARTIAL, (source,), level, schema, step, plan)
        self.nodes.append(node)
        return node

    def _arguments(self, step: Step, verb: Aggregate, source: int) -> tuple[int, AggregatePlan]:
        """Return the node with the arguments of the calls of an `aggregate`, and what it computes over that."""
        columns = tuple(self.nodes[source].schema.names)
        parts = split_compute(verb, columns, carry=step.late == "DeadLetter")
        if parts.before:
            texts = WrittenTexts.of_compute(step, verb, columns)
            source = self._add(_select(step, parts.before), (source,), written=texts).index
        return source, AggregatePlan(verb, parts, self.nodes[source].schema, columns)

    def _add_failures(self, step: Step, node: GraphNode, source: GraphNode) -> None:
        schema = failed_schema(source.schema)
        failed = GraphNode(len(self.nodes), step.name, FAILED, (source.index,), node.level, schema, step)
        letters = GraphNode(failed.index + 1, step.name, FAILURES, (failed.index,), node.level, schema, step)
        self.nodes += failed, letters

    def compiled(self, dropped: tuple[str, ...]) -> CompiledGraph:
        deepest = max((node.level for node in self.nodes), default=0)
        last = deepest + deepest % 2
        ends = (*SINK_VERBS, FAILURES)
        nodes = [replace(node, level=last) if node.verb in ends else node for node in self.nodes]
        return CompiledGraph(merged_late(nodes), last, dropped, tuple(self.fed.values()))

    def _schema(self, step: Step, sources: list[GraphNode]) -> pa.Schema:
        schema: pa.Schema = sources[0].schema
        function = step.apply or step.process
        if function is not None and function.schema_ is not None:
            return arrow_schema(parse_schema(function.schema_))
        if step.select is not None:
            schema = self.select_schema(schema, step.select)
            if not schema.names:
                message = f"step {step.name} selects no column at all, and rows without columns can't be carried"
                raise UserActionError(message, code="ColumnsMismatchError")
        for other in sources[1:]:
            _check_columns(step, sources[0], other)
        return schema


def _select(step: Step, items: tuple[str, ...]) -> Step:
    """Return a part of a step as a select: checked already, with the step, and maybe longer than a user's may be."""
    letters = step.dead_letter if step.on_error == "DeadLetter" else None
    return Step.model_construct(
        name=step.name, inputs=step.inputs, select=items, on_error=step.on_error, dead_letter=letters
    )


def _check_columns(step: Step, left: GraphNode, right: GraphNode) -> None:
    """Refuse to merge rows of different names or types; a different order is fine."""
    for first, second in ((left, right), (right, left)):
        for column in first.schema:
            same = find_column(second.schema, column.name)
            if same is None or second.schema.field(same).type != column.type:
                difference = "is missing" if same is None else f"is {second.schema.field(same).type}"
                message = (
                    f"step {step.name} merges {left.name} and {right.name}, whose columns differ: {column.name} is "
                    f"{column.type} in {first.name} and {difference} in {second.name}; make them equal with a select "
                    "before"
                )
                raise UserActionError(message, code="ColumnsMismatchError")
