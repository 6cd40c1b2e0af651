"""Columns and types of every stream, table and step, derived in one walk in flow order.

One small function per verb. A problem is reported where it occurs; downstream the walk goes on with what is still
known, so that one typo is one problem. The rows of a step follow from its inputs alone: must not look at other steps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from holdfast.planning.aggregation import WINDOW_BOUNDS
from holdfast.planning.csv_streams import unwritable_fields
from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import (
    Flow,
    Passes,
    copies,
    differ,
    differing,
    expressions_of,
    findings_of,
    missing_columns,
    selected,
)
from holdfast.planning.problems import MOST_PROBLEMS, Problem, SqlFinding, listed
from holdfast.planning.schema_streams import writing_findings
from holdfast.planning.sql.expressions import Scope, check_compute, check_filter, check_select
from holdfast.planning.stream_columns import event_time_findings, key_findings, stream_rows, without_metadata
from holdfast.planning.table_keys import out_of_reach, spark_computed_keys
from holdfast.planning.types.spark_types import OPEN, UNKNOWN, Column, RowType
from holdfast.reasons import Reason
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
from holdfast.spec.streams import SCHEMA_FORMATS, EventTime, Stream, Table


def declared_table_rows(graph: Graph, name: str, flow: Flow) -> RowType | None:
    """Return the rows of a table with sources or a schema; None if its writers determine them."""
    table = graph.tables[name]
    if table.sources is not None:
        rows = _stored_rows(table, {source: flow.rows[source] for source in table.sources}, flow)
    elif table.schema_ is not None:
        rows = _stored_rows(table, {name: flow.parsed(table.schema_, stream=name)}, flow)
    else:
        return None
    flow.at_stream(name, *missing_columns(table.key, rows, "key"))
    return rows


def _stored_rows(table: Table, source_rows: Mapping[str, RowType], flow: Flow) -> RowType:
    """Return what a table keeps of rows like these, by where they come from."""
    sources, stored_rows = list(source_rows), list[RowType]()
    for raw_rows in source_rows.values():
        rows = raw_rows
        if table.select is not None:
            flow.source_rows.setdefault(table.name, rows)
            checked = check_select(table.select, Scope.of(rows))
            findings = findings_of(checked)
            if rows.closed and not findings:
                findings = list(spark_computed_keys(table, rows))
            flow.at_stream(table.name, *findings)
            rows = selected(checked)
            flow.stored[table.name] = copies(checked, {"": (0,)})
        stored_rows.append(rows)
    for source, rows in zip(sources[1:], stored_rows[1:], strict=True):
        if difference := differing(stored_rows[0], rows):
            message = f"the rows of {sources[0]} and {source} differ: {difference}"
            flow.at_stream(table.name, SqlFinding(Reason.SCHEMA_MISMATCH, message))
    return stored_rows[0]


Out = tuple[RowType, Passes]

_APART = (
    "explode can't stand in a step with onError: DeadLetter, where each row is computed or put aside; compute what may "
    "fail in a select before it, and leave onError out here"
)


def step_rows(graph: Graph, flow: Flow, step: Step, inputs: tuple[RowType, ...]) -> Out:  # noqa: C901, PLR0911
    """Return the columns that come out of a step, and which of them pass through it unchanged."""
    derivation = _Derivation(graph, flow, step)
    rows = inputs[0]
    match step.operation:
        case Select(columns):
            return _select(derivation, columns, rows)
        case Merge():
            return _merge(derivation, inputs)
        case Apply() | Process() as function:
            return _function(derivation, function, rows)
        case Aggregate() as aggregate:
            return _aggregate(derivation, aggregate, rows)
        case Join() as join:
            return _sides(derivation, join, inputs[0], inputs[1])
        case Lookup() as lookup:
            return _sides(derivation, lookup, rows, _table(derivation, lookup))
        case Filter(condition):
            derivation.note(check_filter(condition, Scope.of(rows)).findings)
        case To(stream):
            _write_stream(derivation, rows, graph.streams[stream])
        case ToTable(table):
            _write_table(derivation, rows, graph.tables[table])
        case Deduplicate(by=by) | Repartition(by=by):
            derivation.note(missing_columns(by, rows, "by"))
        case Broadcast():
            pass
        case never:
            assert_never(never)
    return rows, _same(rows)


@dataclass(frozen=True, slots=True)
class _Derivation:
    """The derivation of one step's columns; it adds the problems that it meets to the flow."""

    graph: Graph
    flow: Flow
    step: Step

    def note(self, findings: Iterable[SqlFinding]) -> None:
        self.flow.at_step(self.step.name, findings)

    def say(self, reason: Reason, message: str) -> None:
        self.note([SqlFinding(reason, message)])


def _select(derivation: _Derivation, columns: tuple[str, ...], rows: RowType) -> Out:
    checked = check_select(columns, Scope.of(rows))
    derivation.note(findings_of(checked))
    if derivation.step.dead_letter is not None and any(expression.makes_rows for expression in checked):
        derivation.note([SqlFinding(Reason.INVALID_EXPRESSION, _APART)])
    return selected(checked), copies(checked, {"": (0,)})


def _same(rows: RowType, inputs: int = 1) -> Passes:
    return {name: frozenset((i, name) for i in range(inputs)) for name in rows.names}


def _merge(derivation: _Derivation, inputs: tuple[RowType, ...]) -> Out:
    first = derivation.step.inputs[0]
    for name, rows in zip(derivation.step.inputs[1:], inputs[1:], strict=True):
        if difference := differing(inputs[0], rows):
            message = f"merge needs equal columns; those of {first} and {name} differ: {difference}"
            derivation.say(Reason.SCHEMA_MISMATCH, message)
    return inputs[0], _same(inputs[0], len(inputs))


def _function(derivation: _Derivation, verb: Apply | Process, input_rows: RowType) -> Out:
    if isinstance(verb, Process):
        derivation.note(missing_columns(verb.by, input_rows, "by"))
        _check_state(derivation, verb)
        _check_tables(derivation)
    kept_columns = verb.keeps or ()
    derivation.note(missing_columns(kept_columns, input_rows, "keeps"))
    rows = input_rows
    if verb.schema_ is not None:
        rows = derivation.flow.parsed(verb.schema_, step=derivation.step.name)
        derivation.note(missing_columns(kept_columns, rows, "keeps (in schema)"))
        for name in kept_columns:
            before, after = input_rows.find(name), rows.find(name)
            if before is not None and after is not None and differ(before.type, after.type):
                message = f"keeps names {name}, but schema makes it {after.type} and it was {before.type}"
                derivation.say(Reason.SCHEMA_MISMATCH, message)
    return rows, {name: frozenset({(0, name)}) for name in kept_columns}


def _check_state(derivation: _Derivation, verb: Process) -> None:
    if verb.state is None:
        return
    state = derivation.flow.parsed(verb.state, step=derivation.step.name)
    for name in verb.by:
        if (column := state.find(name)) is not None:
            message = f"state has a column {column.name}, which is one of by; leave it out: states come with their key"
            derivation.say(Reason.SCHEMA_MISMATCH, message)


def _check_tables(derivation: _Derivation) -> None:
    flow = derivation.flow
    for name in derivation.step.function_tables:
        if name not in flow.out_of_reach:
            rows = flow.tables.get(name)
            # Where the select has findings of its own, these say what to do.
            source_rows = flow.source_rows.get(name) if rows is not None and rows.closed else None
            flow.out_of_reach[name] = out_of_reach(derivation.graph.tables[name], source_rows)
        if (message := flow.out_of_reach[name]) is not None:
            derivation.say(Reason.TABLE_OUT_OF_REACH, message)


def _aggregate(derivation: _Derivation, verb: Aggregate, rows: RowType) -> Out:
    derivation.note(missing_columns(verb.by, rows, "by"))
    columns = [rows.find(name) or Column(name, UNKNOWN) for name in verb.by]
    if verb.windowed:
        columns += (Column(name, "TIMESTAMP") for name in WINDOW_BOUNDS)
    checked = check_compute(verb.compute, Scope.of(rows), verb.by)
    derivation.note(findings_of(checked))
    computed = selected(checked)
    out: dict[str, Column] = {}
    for column in (*columns, *computed.columns):
        if column.name.casefold() in out:
            message = (
                f"a second column {column.name} would come out; rename it with AS, in a select before if it is in by"
            )
            derivation.say(Reason.DUPLICATE_COLUMN, message)
        out.setdefault(column.name.casefold(), column)
    return RowType(tuple(out.values()), closed=computed.closed), {name: frozenset({(0, name)}) for name in verb.by}


def _table(derivation: _Derivation, verb: Lookup) -> RowType:
    """The rows of the table that is looked up."""
    table = derivation.graph.tables[verb.table]
    if {name.casefold() for name in verb.by} != {name.casefold() for name in table.key}:
        by, key = ", ".join(verb.by), ", ".join(table.key)
        message = f"by is {by}, but the key of table {verb.table} is {key}; they must be the same columns"
        derivation.say(Reason.LOOKUP_KEY_MISMATCH, message)
    rows = derivation.flow.tables.get(verb.table)
    if rows is not None:
        return rows
    if verb.table not in derivation.graph.table_writers:
        return OPEN  # nothing feeds it, which is reported once, at the table
    # Its writers are downstream of this step, so its rows depend on this look-up itself.
    if verb.select is None or any("right." in text.lower() for text in verb.select):
        message = (
            f"the rows of table {verb.table} come from a look-up in itself, so its columns can't be derived: "
            f"give the table a schema"
        )
        derivation.say(Reason.SCHEMA_MISSING, message)
    return OPEN


def _sides(derivation: _Derivation, verb: Join | Lookup, left: RowType, right: RowType) -> Out:
    derivation.note(missing_columns(verb.by, left, "by (left)"))
    derivation.note(missing_columns(verb.by, right, "by (right)"))
    key_rows = RowType(tuple(_on_column(derivation, name, left, right) for name in verb.by))
    # The right side of a look-up is not an input: its columns come from the table.
    sides = (0, 1) if isinstance(verb, Join) else (0,)
    if verb.select is not None:
        checked = check_select(verb.select, Scope.sides(left, right, key_rows))
        derivation.note(findings_of(checked))
        passes: Passes = copies(checked, {"": sides, "left": (0,), "right": sides[1:]})
        if isinstance(verb, Lookup) and verb.type == "Inner":
            # Only matches come out, so the table's key columns equal those of the row.
            keys = {name.casefold() for name in verb.by}
            for expression in checked:
                if expression.name is not None and expression.source is not None and expression.source[0] == "right":
                    passes[expression.name] = frozenset((0, c) for c in (expression.source[1],) if c.casefold() in keys)
        return selected(checked), passes
    keys = {name.casefold() for name in verb.by}
    lefts = [column for column in left.columns if column.name.casefold() not in keys]
    again = {column.name.casefold() for column in lefts}
    right_columns = [column for column in right.columns if column.name.casefold() not in keys]
    if twice := [column.name for column in right_columns if column.name.casefold() in again]:
        parts = [*verb.by, *(f"left.{c.name}" for c in lefts)]
        parts += [f"right.{c.name}" + (f" AS right_{c.name}" if c.name in twice else "") for c in right_columns]
        message = f"{', '.join(twice)} stands on both sides; choose and rename, e.g. select: [{', '.join(parts)}]"
        derivation.say(Reason.AMBIGUOUS_COLUMN, message)
    rights = [column for column in right_columns if column.name.casefold() not in again]
    passes = {column.name: frozenset((side, column.name) for side in sides) for column in key_rows.columns}
    passes |= {column.name: frozenset({(0, column.name)}) for column in lefts}
    passes |= {column.name: frozenset((side, column.name) for side in sides[1:]) for column in rights}
    return RowType((*key_rows.columns, *lefts, *rights), closed=left.closed and right.closed), passes


def _on_column(derivation: _Derivation, name: str, left: RowType, right: RowType) -> Column:
    left_column, right_column = left.find(name), right.find(name)
    if left_column is None or right_column is None:
        return left_column or Column(name, UNKNOWN)
    if differ(left_column.type, right_column.type):
        message = (
            f"on compares {name}, which is {left_column.type} on the left and {right_column.type} on the right; "
            f"CAST one of them in a select before it, and repartition what comes out"
        )
        derivation.say(Reason.KEY_TYPE_MISMATCH, message)
    return left_column


def _write_stream(derivation: _Derivation, rows: RowType, stream: Stream) -> None:
    derivation.note(key_findings(stream.partition_key or (), rows, f"the key of stream {stream.name}"))
    derivation.note(_metadata_findings(stream, rows, derivation.flow.rows[stream.name]))
    derivation.note(writing_findings(stream, without_metadata(stream, rows)))
    derivation.note(unwritable_fields(stream, without_metadata(stream, rows)) if stream.schema_ is None else ())
    by_schema = stream.schema_ is None and stream.format in SCHEMA_FORMATS
    if not by_schema and (difference := differing(rows, derivation.flow.rows[stream.name])):
        message = f"the rows (first) do not fit the schema of stream {stream.name} (second): {difference}"
        derivation.say(Reason.SCHEMA_MISMATCH, message)
    other, written = derivation.flow.written.setdefault(stream.name, (derivation.step.name, rows))
    if difference := differing(written, rows):
        message = (
            f"{other} (first) and {derivation.step.name} (second) write different rows to {stream.name}: {difference}"
        )
        derivation.say(Reason.SCHEMA_MISMATCH, message)


def _metadata_findings(stream: Stream, rows: RowType, declared: RowType) -> Iterable[SqlFinding]:
    """A finding for each column that the rows lack, or have with another type, of those that metadata is made of."""
    beside_key = [name for name in stream.metadata_columns if name not in (stream.partition_key or ())]
    yield from missing_columns(beside_key, rows, f"the metadata of stream {stream.name}")
    for name in stream.metadata_columns:
        before, after = rows.find(name), declared.find(name)
        if before is not None and after is not None and differ(before.type, after.type):
            message = f"the metadata of stream {stream.name} needs {name} as {after.type}, and it is {before.type}"
            yield SqlFinding(Reason.SCHEMA_MISMATCH, message)


def _write_table(derivation: _Derivation, rows: RowType, table: Table) -> None:
    derivation.note(missing_columns(table.key, rows, f"the key of table {table.name}"))
    table_rows = derivation.flow.tables.setdefault(table.name, rows)
    if difference := differing(rows, table_rows):
        message = f"the rows (first) do not fit table {table.name} (second): {difference}"
        derivation.say(Reason.SCHEMA_MISMATCH, message)


def flow_rows(graph: Graph) -> Flow:
    """Derive the columns and types of all streams, tables and steps."""
    flow = Flow()
    for name in sorted(graph.streams):
        computed_time = _time_expression(graph.streams[name].event_time)
        affords = _affords(flow, computed_time, stream=name)
        flow.rows[name] = _afforded(flow, stream_rows(graph, name, flow), stream=name) if affords else OPEN
    for name in sorted(graph.tables):
        if (declared := _table_rows(graph, name, flow)) is not None:
            flow.tables[name] = _afforded(flow, declared, stream=name)
    for name in graph.order:
        step = graph.steps[name]
        inputs = tuple(flow.rows.get(source, OPEN) for source in step.inputs)
        if len(flow.problems) > MOST_PROBLEMS or not _affords(
            flow, (*expressions_of(step), *_time_expression(step.event_time)), step=name
        ):
            flow.rows[name], flow.passes[name] = OPEN, {}
            continue
        rows, flow.passes[name] = step_rows(graph, flow, step, inputs)
        flow.rows[name] = _afforded(flow, rows, step=name)
        flow.at_step(name, event_time_findings(step.event_time, rows))
        _warn_of_unknown_types(flow, name, inputs)
    return flow


def _time_expression(event_time: EventTime | None) -> tuple[str, ...]:
    return () if event_time is None or event_time.from_ is None else (event_time.from_,)


def _table_rows(graph: Graph, name: str, flow: Flow) -> RowType | None:
    table = graph.tables[name]
    # The select is evaluated once per source.
    if not _affords(flow, (table.select or ()) * len(table.sources or ()), stream=name):
        return OPEN
    return declared_table_rows(graph, name, flow)


def _affords(flow: Flow, texts: tuple[str, ...], *, step: str | None = None, stream: str | None = None) -> bool:
    """Whether the budget allows these expressions; if not, add a problem."""
    return not _too_much(flow, flow.budget.refused_sql(texts), step=step, stream=stream)


def _afforded(flow: Flow, rows: RowType, *, step: str | None = None, stream: str | None = None) -> RowType:
    """The rows if the budget allows their columns; if not, add a problem and return open rows."""
    return OPEN if _too_much(flow, flow.budget.refused_columns(rows), step=step, stream=stream) else rows


def _too_much(flow: Flow, why: str | None, *, step: str | None, stream: str | None) -> bool:
    if why is None:
        return False
    # Reported once: everything after it would exceed the budget too.
    if not any(problem.reason is Reason.TOO_LARGE for problem in flow.problems):
        flow.problems.append(Problem(Reason.TOO_LARGE, why, step=step, stream=stream))
    return True


def _warn_of_unknown_types(flow: Flow, step: str, inputs: tuple[RowType, ...]) -> None:
    """Warn of each column of unknown type once, at its first step; not in rows that already have findings."""
    rows = flow.rows[step]
    before = {column.name for input_rows in inputs for column in input_rows.columns if column.type == UNKNOWN}
    fresh = [column.name for column in rows.columns if column.type == UNKNOWN and column.name not in before]
    if fresh and rows.closed:
        message = f"the type of {listed(fresh)} can't be told before it runs; use CAST to fix it"
        flow.warnings.append(Problem(Reason.TYPE_UNKNOWN, message, step=step))
