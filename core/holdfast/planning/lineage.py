"""Column lineage: from which columns of its inputs each column that an app writes is made, and by which its rows are.

Followed from the inputs through every step, table and stream that the app writes and reads again, so that what comes
out names inputs alone. In the words of OpenLineage: a column is taken from others directly (`IDENTITY`,
`TRANSFORMATION`, `AGGREGATION`); which rows there are follows from others (`FILTER`, `JOIN`, `GROUP_BY`, `WINDOW`).
Where a function of the user computes, everything that it is given counts. Only for specs whose plan is valid; must not
know how lineage is shown or sent.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Final, Literal, assert_never

from holdfast.planning.aggregation import WINDOW_BOUNDS
from holdfast.planning.derived_columns import flow_rows
from holdfast.planning.graph import Graph, build_graph
from holdfast.planning.known_columns import Flow, expressions_of
from holdfast.planning.sql.expressions import (
    CheckedExpression,
    Scope,
    check_compute,
    check_filter,
    check_select,
    check_value,
)
from holdfast.planning.sql.scope import ColumnSource
from holdfast.planning.stream_columns import DEAD_LETTERS
from holdfast.planning.types.spark_types import OPEN, RowType
from holdfast.spec.app import AppSpec
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
from holdfast.spec.streams import EventTime, Table

Direct = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
Indirect = Literal["FILTER", "JOIN", "GROUP_BY", "WINDOW"]
DIRECT: Final[tuple[Direct, ...]] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
"""How a column is taken from another, what says least first: of two on one way the later one holds."""


@dataclass(frozen=True, slots=True, order=True)
class InputColumn:
    """A column that comes from outside the app."""

    kind: Literal["stream", "files"]
    """files: of the files that feed a table."""
    name: str
    """The stream, or the table that the files feed."""
    column: str


@dataclass(frozen=True, slots=True, order=True)
class ColumnUse:
    """A column of an input, and what it is used for."""

    input: InputColumn
    subtype: Direct | Indirect

    @property
    def type(self) -> Literal["DIRECT", "INDIRECT"]:
        """Whether values are made of its values, or it only decides which rows there are."""
        return "DIRECT" if self.subtype in DIRECT else "INDIRECT"


Uses = frozenset[ColumnUse]
NONE: Final[Uses] = frozenset()


@dataclass(frozen=True, slots=True)
class RowLineage:
    """Where some rows come from."""

    columns: Mapping[str, Uses] = field(default_factory=dict)
    """Column -> what it is made of. Nothing: of no column, as `count(*)` is."""
    rows: Uses = NONE
    """What decides which rows there are, and so has a part in every column."""
    times: Uses = NONE
    """What the event time of the rows is made of."""

    def of(self, name: str) -> Uses:
        """What a column is made of; names as Spark resolves them."""
        if name in self.columns:
            return self.columns[name]
        return next((uses for column, uses in self.columns.items() if column.casefold() == name.casefold()), NONE)

    def every(self, names: Iterable[str] | None = None) -> Uses:
        """What these columns are made of, or all of them."""
        return NONE.union(*(self.columns.values() if names is None else map(self.of, names)))

    def taking(self, names: Iterable[str]) -> "RowLineage":
        """The same rows with only these columns."""
        return RowLineage({name: self.of(name) for name in names}, self.rows, self.times)

    def with_rows(self, *uses: Uses) -> "RowLineage":
        """The same columns of rows that these decide too."""
        return RowLineage(self.columns, self.rows.union(*uses), self.times)

    def __or__(self, other: "RowLineage") -> "RowLineage":
        """Rows of both, in the columns of the first; of the second if it has none."""
        columns = {name: self.of(name) | other.of(name) for name in self.columns or other.columns}
        return RowLineage(columns, self.rows | other.rows, self.times | other.times)


@dataclass(slots=True)
class Lineage:
    """The lineage of all that an app writes, and of its steps."""

    streams: dict[str, RowLineage] = field(default_factory=dict)
    """Of streams that steps or dead letters write."""
    tables: dict[str, RowLineage] = field(default_factory=dict)
    steps: dict[str, RowLineage] = field(default_factory=dict)


def column_lineage(spec: AppSpec) -> Lineage:
    """Return the lineage of an app whose plan is valid."""
    graph = build_graph(spec)
    return lineage_in(graph, flow_rows(graph))


def lineage_in(graph: Graph, flow: Flow) -> Lineage:
    """Return the same, where graph and columns are known."""
    walk = _Walk(graph, flow)
    # A table may be looked up before the steps that write it, and a stream read before. What is known only grows.
    while walk.once():
        pass
    for name, table in graph.tables.items():
        # A look-up says this as what it joins by.
        rows = walk.lineage.tables[name]
        walk.lineage.tables[name] = rows.with_rows(as_indirect(rows.every(table.key), "GROUP_BY"))
    return walk.lineage


def as_direct(uses: Uses, how: Direct) -> Uses:
    """Return the same columns, used in this way of what they were used for."""
    return frozenset(
        ColumnUse(use.input, max((use.subtype, how), key=DIRECT.index)) for use in uses if use.subtype in DIRECT
    )


def as_indirect(uses: Uses, how: Indirect) -> Uses:
    """Return the same columns as they decide which rows there are."""
    return frozenset(ColumnUse(use.input, how) for use in uses)


def _own(kind: Literal["stream", "files"], name: str, rows: RowType) -> RowLineage:
    """Rows that come from outside."""
    return RowLineage({c: frozenset({ColumnUse(InputColumn(kind, name, c), "IDENTITY")}) for c in rows.names})


@dataclass(frozen=True, slots=True)
class _Sides:
    """What expressions of a step see."""

    sides: Mapping[str, tuple[RowLineage, ...]]
    """Side, or nothing -> where its rows come from."""
    scope: Scope

    @classmethod
    def of(cls, lineage: RowLineage, rows: RowType) -> "_Sides":
        return cls({"": (lineage,)}, Scope.of(rows))

    def sources(self, columns: Iterable[ColumnSource]) -> Uses:
        return NONE.union(*(lineage.of(name) for side, name in columns for lineage in self.sides[side]))

    def value(self, checked: CheckedExpression) -> Uses:
        """What the value of an expression is made of."""
        if checked.source is not None:
            return self.sources((checked.source,))
        plain = as_direct(self.sources(checked.named), "TRANSFORMATION")
        return plain | as_direct(self.sources(checked.aggregated), "AGGREGATION")

    def selected(self, texts: Iterable[str]) -> tuple[dict[str, Uses], Uses]:
        """The columns of a select, and what decides how many rows it makes of one."""
        items = check_select(texts, self.scope)
        columns = {item.name: self.value(item) for item in items if item.name is not None}
        return columns, as_indirect(NONE.union(*(self.value(item) for item in items if item.makes_rows)), "FILTER")


class _Walk:
    """Walks over the steps in flow order, from what is known so far."""

    def __init__(self, graph: Graph, flow: Flow) -> None:
        self.graph, self.flow, self.lineage = graph, flow, Lineage()

    def once(self) -> bool:
        """Follow all steps; return whether anything new came to light of tables and streams."""
        before = dict(self.lineage.tables), dict(self.lineage.streams)
        for name in sorted(self.graph.tables):
            self.lineage.tables[name] = self._table(self.graph.tables[name])
        for name in self.graph.order:
            self.lineage.steps[name] = self._step(self.graph.steps[name])
        for name in sorted({*self.graph.stream_writers, *self.graph.dead_letters}):
            self.lineage.streams[name] = self._written(name)
        return before != (self.lineage.tables, self.lineage.streams)

    def _read(self, name: str) -> RowLineage:
        """Where the rows come from that a step or table reads."""
        if name in self.graph.steps:
            return self.lineage.steps.get(name, RowLineage())
        if name in self.graph.stream_writers:
            return self.lineage.streams.get(name, RowLineage())
        return self._timed(_own("stream", name, self.flow.rows[name]), name, self.graph.streams[name].event_time)

    def _timed(self, lineage: RowLineage, name: str, event_time: EventTime | None) -> RowLineage:
        """The rows of a stream or step with the event time that it declares."""
        if event_time is None:
            return lineage
        if event_time.column is not None:
            times = lineage.of(event_time.column)
        else:
            inputs = _Sides.of(lineage, self.flow.rows[name])
            times = inputs.value(check_value(event_time.text, inputs.scope, "eventTime.from"))
        return RowLineage(lineage.columns, lineage.rows, times)

    def _written(self, name: str) -> RowLineage:
        """Where the rows come from that the app writes to a stream."""
        writers = [self.lineage.steps.get(step, RowLineage()) for step in self.graph.stream_writers.get(name, ())]
        lineages = [rows.taking(self.flow.rows_in(name).names) for rows in writers]
        if name in self.graph.dead_letters:
            lineages.append(self._letters(name))
        return self._timed(reduce(RowLineage.__or__, lineages), name, self.graph.streams[name].event_time)

    def _letters(self, name: str) -> RowLineage:
        """Where dead letters come from: any column of a row may stand in any column of its letter."""
        streams = [stream for stream in self.graph.streams.values() if stream.dead_letter == name]
        sources = [
            self.lineage.streams.get(stream.name, RowLineage())
            if stream.name in self.graph.stream_writers
            else self._read(stream.name)
            for stream in streams
        ]
        sources += [
            self._read(read) for step in self.graph.steps.values() if step.dead_letter == name for read in step.inputs
        ]
        value = as_direct(NONE.union(*(rows.every() | rows.times for rows in sources)), "TRANSFORMATION")
        rows = NONE.union(as_indirect(value, "FILTER"), *(rows.rows for rows in sources))
        declared = self.flow.rows[name] if self.flow.rows[name].columns else DEAD_LETTERS
        return RowLineage(dict.fromkeys(declared.names, value), rows)

    def _table(self, table: Table) -> RowLineage:
        """Where the rows of a table come from."""
        names = self.flow.tables.get(table.name, OPEN).names
        if table.files is not None:
            declared = OPEN if table.schema_ is None else self.flow.parsed(table.schema_)
            sources = [(_own("files", table.name, declared), declared)]
        elif table.sources is not None:
            sources = [(self._read(name), self.flow.rows[name]) for name in table.sources]
        else:
            writers = self.graph.table_writers.get(table.name, ())
            sources = [(self.lineage.steps.get(name, RowLineage()), OPEN) for name in writers]
        lineages = [self._stored(table, lineage, rows).taking(names) for lineage, rows in sources]
        return reduce(RowLineage.__or__, lineages, RowLineage(dict.fromkeys(names, NONE)))

    def _stored(self, table: Table, lineage: RowLineage, rows: RowType) -> RowLineage:
        if table.select is None:
            return lineage
        columns, more = _Sides.of(lineage, rows).selected(table.select)
        return RowLineage(columns, lineage.rows | more, lineage.times)

    def _step(self, step: Step) -> RowLineage:
        inputs = tuple(self._read(name) for name in step.inputs)
        rows = tuple(self.flow.rows.get(name, OPEN) for name in step.inputs)
        lineage = self._through(step, inputs, rows)
        if step.on_error == "DeadLetter":
            # Rows on which an expression fails are left out.
            named = Scope.of(rows[0])
            lineage = lineage.with_rows(as_indirect(_named(step, _Sides({"": inputs}, named)), "FILTER"))
        return self._timed(lineage, step.name, step.event_time)

    def _through(  # noqa: PLR0911
        self, step: Step, inputs: tuple[RowLineage, ...], rows: tuple[RowType, ...]
    ) -> RowLineage:
        lineage = inputs[0]
        match step.operation:
            case Filter(condition):
                sides = _Sides.of(lineage, rows[0])
                judged = sides.value(check_filter(condition, sides.scope))
                return lineage.with_rows(as_indirect(judged, "FILTER"))
            case Select(columns):
                made, more = _Sides.of(lineage, rows[0]).selected(columns)
                return RowLineage(made, lineage.rows | more, lineage.times)
            case Merge():
                return reduce(RowLineage.__or__, inputs)
            case Apply() | Process() as function:
                return self._function(step, function, lineage)
            case Aggregate() as aggregate:
                return _aggregated(aggregate, lineage, rows[0])
            case Join() as join:
                return _matched(join, (inputs[0], inputs[1]), (rows[0], rows[1]))
            case Lookup() as lookup:
                table = self._looked_up(lookup.table)
                return _matched(lookup, (lineage, table), (rows[0], self.flow.tables.get(lookup.table, OPEN)))
            case Deduplicate(by=by, within=within):
                times = as_indirect(lineage.times, "WINDOW") if within else NONE
                return lineage.with_rows(as_indirect(lineage.every(by), "FILTER"), times)
            case Repartition() | Broadcast() | To() | ToTable():
                return lineage
            case never:
                assert_never(never)

    def _looked_up(self, name: str) -> RowLineage:
        """Where the rows of a table come from, found by its key."""
        lineage = self.lineage.tables[name]
        return lineage.with_rows(as_indirect(lineage.every(self.graph.tables[name].key), "JOIN"))

    def _function(self, step: Step, verb: Apply | Process, lineage: RowLineage) -> RowLineage:
        tables = [self._looked_up(name) for name in step.function_tables]
        inputs = lineage.every().union(*(table.every() for table in tables))
        decides = as_indirect(inputs, "FILTER").union(*(table.rows for table in tables))
        if isinstance(verb, Process):
            # It may be told the time, and be called when a time has come.
            inputs |= lineage.times
            decides |= as_indirect(lineage.times, "WINDOW") | as_indirect(lineage.every(verb.by), "GROUP_BY")
        passed = {name.casefold() for name in verb.keeps or ()}
        made = as_direct(inputs, "TRANSFORMATION")
        columns = {n: lineage.of(n) if n.casefold() in passed else made for n in self.flow.rows[step.name].names}
        return RowLineage(columns, lineage.rows | decides, lineage.times)


def _aggregated(verb: Aggregate, lineage: RowLineage, rows: RowType) -> RowLineage:
    columns = {getattr(rows.find(name), "name", name): lineage.of(name) for name in verb.by}
    decides = as_indirect(lineage.every(verb.by), "GROUP_BY")
    if verb.windowed:
        how: Direct = "TRANSFORMATION" if verb.session is None else "AGGREGATION"
        columns |= dict.fromkeys(WINDOW_BOUNDS, as_direct(lineage.times, how))
        decides |= as_indirect(lineage.times, "WINDOW")
    inputs = _Sides.of(lineage, rows)
    computed = check_compute(verb.compute, inputs.scope, verb.by)
    columns |= {item.name: inputs.value(item) for item in computed if item.name is not None}
    return RowLineage(columns, lineage.rows | decides, lineage.times)


def _matched(verb: Join | Lookup, sides: tuple[RowLineage, RowLineage], rows: tuple[RowType, RowType]) -> RowLineage:
    left, right = sides
    keys = RowType(tuple(column for name in verb.by if (column := rows[0].find(name)) is not None))
    is_join = isinstance(verb, Join)
    inputs = _Sides(
        {"": sides if is_join else (left,), "left": (left,), "right": (right,)}, Scope.sides(rows[0], rows[1], keys)
    )
    columns, more = inputs.selected(verb.select or ("*",))
    decides = left.rows | right.rows | more | as_indirect(left.every(verb.by), "JOIN")
    times = left.times
    if is_join:
        times |= right.times
        decides |= as_indirect(right.every(verb.by), "JOIN") | as_indirect(times, "WINDOW")
    return RowLineage(columns, decides, times)


def _named(step: Step, inputs: _Sides) -> Uses:
    """All columns that expressions of a step name."""
    texts = expressions_of(step)
    match step.operation:
        case Select():
            items = check_select(texts, inputs.scope)
        case Aggregate(by=by):
            items = check_compute(texts, inputs.scope, by)
        case _:
            return NONE
    return NONE.union(*(inputs.value(item) for item in items if item.source is None))
