"""Steps as a user writes them: the operators of the graph, each with a name, inputs and exactly one verb.

Must not judge whether names resolve or a verb fits its inputs: that is for `rule_checks`.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, assert_never

from pydantic import Field

from holdfast.spec.fields import ChangeCost, SpecModel
from holdfast.spec.streams import EventTime
from holdfast.spec.values import (
    ColumnName,
    Ddl,
    Duration,
    Expression,
    FunctionPath,
    Name,
    PositiveDuration,
    ShortDdl,
    millis,
)
from holdfast.spec.verbs import VERBS, Verb

Columns = Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=16)]
Expressions = Annotated[tuple[Expression, ...], Field(min_length=1, max_length=200)]


class Filter(NamedTuple):
    """The rows for which a condition of Spark SQL is true."""

    condition: str


class Select(NamedTuple):
    """Columns that Spark SQL computes."""

    columns: tuple[str, ...]


class To(NamedTuple):
    """Rows to a stream, and on."""

    stream: str


class ToTable(NamedTuple):
    """Rows to a table, and on."""

    table: str


class Merge(SpecModel):
    """All rows of several inputs with equal columns."""


class Broadcast(SpecModel):
    """Every row to every task, through an intermediate stream."""


class Apply(SpecModel):
    """A Python function over Arrow batches, without state."""

    function: Annotated[FunctionPath, ChangeCost.RESTART]
    """The function, as `package.module:function`: takes and returns a `pyarrow.RecordBatch`; with `concurrency`,
    `async` over a row."""
    concurrency: Annotated[int | None, ChangeCost.RESTART, Field(ge=1, le=10_000)] = None
    """Call the function for each row, so many at a time in each task."""
    timeout: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """How long such a call may take. Default: 30s."""
    retries: Annotated[int | None, ChangeCost.RESTART, Field(ge=1, le=100)] = None
    """How often a call that failed is repeated. Default: never."""
    schema_: Annotated[Ddl | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """The columns it returns, as Spark DDL. Default: those it was given."""
    keeps: Annotated[Columns | None, ChangeCost.RESTART] = None
    """Columns it returns unchanged. Name the partition key here, or the planner must take it as lost."""


class Process(SpecModel):
    """A Python function with state for each key."""

    function: Annotated[FunctionPath, ChangeCost.RESTART]
    """The function, as `package.module:function`."""
    form: Annotated[Literal["Rows", "Batch"], ChangeCost.NEW_RUN] = "Rows"
    """Rows: called for each key, with dicts. Batch: for all keys at once, with `pyarrow.RecordBatch`. Default: Rows."""
    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """The key of the state. It must contain the columns the rows are partitioned by."""
    state: Annotated[ShortDdl | None, ChangeCost.NEW_RUN] = None
    """The columns of the state with form Batch, as Spark DDL."""
    schema_: Annotated[Ddl | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """The columns it returns, as Spark DDL. Default: those it was given."""
    keeps: Annotated[Columns | None, ChangeCost.RESTART] = None
    """Columns it returns unchanged. Name the partition key here, or the planner must take it as lost."""
    ttl: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """State of a key untouched this long is dropped. Default: never."""
    tables: Annotated[tuple[Name, ...] | None, ChangeCost.RESTART, Field(min_length=1, max_length=16)] = None
    """Tables with `distribution: Broadcast` in which the function looks rows up. Default: none."""


class Deduplicate(SpecModel):
    """The first row of each key; later ones are dropped."""

    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """The columns that make two rows the same."""
    within: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """How long a key is remembered, in event time. Default: for ever."""


class Aggregate(SpecModel):
    """Values computed over all rows of a key, or of a key in a window."""

    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """The columns to group by."""
    window: Annotated[PositiveDuration | None, ChangeCost.NEW_RUN] = None
    """Length of an event-time window."""
    slide: Annotated[PositiveDuration | None, ChangeCost.NEW_RUN] = None
    """Start a window this often; at most `window`. Default: windows do not overlap."""
    session: Annotated[PositiveDuration | None, ChangeCost.NEW_RUN] = None
    """A session ends when no row came for this long. Instead of `window`."""
    emit: Annotated[Literal["Final", "Update"] | None, ChangeCost.NEW_RUN] = None
    """Final: a result comes out once, when the watermark has passed the end of its window or session. Update: each
    batch puts out the results that it changed, and later ones replace earlier ones of the same `by` and window.
    Default: Final with `window` or `session`, Update without."""
    compute: Annotated[Expressions, ChangeCost.NEW_RUN]
    """Spark SQL aggregates with names, e.g. `count(*) AS n`."""

    @property
    def windowed(self) -> bool:
        """Whether it groups by event time too."""
        return self.window is not None or self.session is not None

    @property
    def updates(self) -> bool:
        """Whether a result comes out again each time it changes."""
        return not self.windowed if self.emit is None else self.emit == "Update"


class Join(SpecModel):
    """Rows of two inputs with equal `by` columns whose event times are close."""

    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """Columns that must be equal; they stand on both sides under the same names."""
    within: Annotated[Duration | None, ChangeCost.RESTART] = None
    """How far apart the event times of two matching rows may be. Needed, unless `before` or `after` is there."""
    before: Annotated[Duration | None, ChangeCost.RESTART] = None
    """How much earlier than the left row a right row may be, in place of `within`. Default: 0s."""
    after: Annotated[Duration | None, ChangeCost.RESTART] = None
    """How much later than the left row a right row may be, in place of `within`. Default: 0s."""
    type: Annotated[Literal["Inner", "Left", "Right", "Full"], ChangeCost.NEW_RUN] = "Inner"
    """Whether rows without a partner come out: of neither side, the left, the right, or both. Default: Inner."""
    select: Annotated[Expressions | None, ChangeCost.NEW_RUN] = None
    """Which columns come out, with `left.` and `right.`. Default: `by` once, then all of both sides."""

    @property
    def bounds(self) -> tuple[int, int]:
        """How many milliseconds before, and how many behind the left row a right row may lie."""
        before, after = (self.within or one or "0s" for one in (self.before, self.after))
        return millis(before), millis(after)

    @property
    def span(self) -> str:
        """The same for people: `within 10m`, `from 10m before to 1h after`."""
        if self.within is not None:
            return f"within {self.within}"
        return f"from {self.before or '0s'} before to {self.after or '0s'} after"


class Lookup(SpecModel):
    """Each row with the row of a table that has its key."""

    table: Annotated[Name, ChangeCost.RESTART]
    """The table."""
    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """The key columns of the table; the rows have them under the same names."""
    type: Annotated[Literal["Inner", "Left"], ChangeCost.RESTART] = "Left"
    """Left: rows without a match come out with nulls. Inner: they are dropped. Default: Left."""
    select: Annotated[Expressions | None, ChangeCost.RESTART] = None
    """Which columns come out, with `left.` and `right.`. Default: `by` once, then all of both sides."""


class Repartition(SpecModel):
    """Rows to the tasks of other keys, through an intermediate stream."""

    by: Annotated[Columns, ChangeCost.NEW_RUN]
    """The columns the rows will be partitioned by."""


_Keyed = Process | Deduplicate | Aggregate | Join
Operation = Filter | Select | Merge | Apply | _Keyed | Lookup | Repartition | Broadcast | To | ToTable
"""What a step does. Whoever does something for each of them ends in `assert_never`, so that mypy lists the places that
a new verb needs."""
_WRITTEN_AS_TEXT: Mapping[Verb, Callable[[Any], Operation]] = {
    "filter": Filter,
    "select": Select,
    "to": To,
    "toTable": ToTable,
}


class Step(SpecModel):
    """One operator: what it reads, and exactly one verb."""

    name: Annotated[Name, ChangeCost.RESTART]
    """What other steps call it. State, and the intermediate stream it may make, belong to this name."""
    was: Annotated[Name | None, ChangeCost.NEW_RUN] = None
    """The name its state is kept under in this run, if it is another one: what the step was called before it was
    renamed. It stays as long as the run does. Default: its name."""
    inputs: Annotated[tuple[Name, ...], ChangeCost.RESTART, Field(alias="from", min_length=1, max_length=16)]
    """Streams or steps whose rows it reads. `join` reads two, left and right; `merge` any number; all others one."""
    filter: Annotated[Expression | None, ChangeCost.RESTART] = None
    """Keep rows for which this Spark SQL condition is true."""
    select: Annotated[Expressions | None, ChangeCost.RESTART] = None
    """Compute columns: Spark SQL expressions, named with AS."""
    merge: Annotated[Merge | None, ChangeCost.RESTART] = None
    """Put the rows of several inputs together."""
    apply: Annotated[Apply | None, ChangeCost.RESTART] = None
    """Call a Python function over Arrow batches, without state."""
    process: Annotated[Process | None, ChangeCost.NEW_RUN] = None
    """Call a Python function with state for each key."""
    deduplicate: Annotated[Deduplicate | None, ChangeCost.NEW_RUN] = None
    """Drop rows seen before."""
    aggregate: Annotated[Aggregate | None, ChangeCost.NEW_RUN] = None
    """Compute values over rows of a key."""
    join: Annotated[Join | None, ChangeCost.NEW_RUN] = None
    """Match rows of two streams."""
    lookup: Annotated[Lookup | None, ChangeCost.RESTART] = None
    """Match rows with a table."""
    repartition: Annotated[Repartition | None, ChangeCost.NEW_RUN] = None
    """Move rows to the tasks of other keys. Ends a chain: readers start from a new intermediate stream."""
    broadcast: Annotated[Broadcast | None, ChangeCost.NEW_RUN] = None
    """Send rows to every task. Ends a chain: readers start from a new intermediate stream."""
    to: Annotated[Name | None, ChangeCost.RESTART] = None
    """Write rows to a stream, and pass them on."""
    to_table: Annotated[Name | None, ChangeCost.NEW_RUN] = None
    """Write rows to a table, and pass them on."""
    event_time: Annotated[EventTime | None, ChangeCost.NEW_RUN] = None
    """When the rows of a select, apply or process happened, from here on. Default: when those it read did."""
    on_error: Annotated[Literal["Fail", "DeadLetter"], ChangeCost.RESTART] = "Fail"
    """What to do with a row on which the expression or function of a filter, select, apply, process or aggregate fails,
    or with a result of an aggregate that its type can't hold: stop the app, or leave it out and write it to
    `deadLetter`. Default: Fail."""
    late: Annotated[Literal["Drop", "DeadLetter"], ChangeCost.RESTART] = "Drop"
    """What to do with a row of an aggregate, deduplicate or join that comes after the watermark has passed it: drop and
    count it, or count it and write it to `deadLetter`. Default: Drop."""
    dead_letter: Annotated[Name | None, ChangeCost.RESTART] = None
    """The stream that takes rows on which the step fails, or that are late, with reason, step and column, and the row
    as JSON."""

    @property
    def verb(self) -> Verb:
        """The one verb of this step, as written in files."""
        return next(verb for verb in VERBS if getattr(self, attribute_of(verb)) is not None)

    @property
    def operation(self) -> Operation:
        """What it does, with all that is written below its verb."""
        verb = self.verb
        settings: Any = getattr(self, attribute_of(verb))
        return _WRITTEN_AS_TEXT[verb](settings) if verb in _WRITTEN_AS_TEXT else settings

    @property
    def function_tables(self) -> tuple[str, ...]:
        """The tables in which its function looks rows up."""
        return tuple(dict.fromkeys((self.process and self.process.tables) or ()))

    @property
    def kept_as(self) -> str | None:
        """What it keeps, in words that are equal as long as state can follow: `process by user`. None: nothing."""
        match self.operation:
            case Process(form="Batch", by=by):
                return f"{self.verb} of batches by {', '.join(by)}"
            case Process(by=by) | Deduplicate(by=by) | Aggregate(by=by) | Join(by=by) | Repartition(by=by):
                return f"{self.verb} by {', '.join(by)}"
            case Broadcast() | ToTable():
                return self.verb
            case Filter() | Select() | Merge() | Apply() | Lookup() | To():
                return None
            case never:
                assert_never(never)


def attribute_of(verb: Verb) -> str:
    """The attribute of `Step` that has what is written below a verb."""
    return "to_table" if verb == "toTable" else verb
