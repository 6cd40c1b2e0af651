"""The spread of rows over tasks on every edge: which columns and partitioner they are partitioned by, if known.

The partition key is followed through the steps, under whatever column names its values now have. Must not report
problems: `key_needs` checks what a step needs of its inputs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow, Passes
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

KeyColumns = tuple[frozenset[str], ...]
"""For each part of a key, the column names that hold it."""

OURS = "murmur2"
"""The partitioner of intermediate streams."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How rows are spread over tasks.

    `columns` has, for each part of the key in order, the column names that now hold it. None: the key is undeclared or
    was lost on the way (`why` says where). `undeclared` names the streams whose key is assumed rather than declared.
    """

    columns: tuple[frozenset[str], ...] | None = None
    partitioner: str = OURS
    undeclared: frozenset[str] = frozenset()
    why: str = ""
    everywhere: bool = False
    """Every task has all of these rows."""
    repeated: bool = False
    """Some rows come out once per task."""
    blind: bool = False
    """Streams with an unknown partitioner were merged: whether they are partitioned alike can't be checked."""

    @property
    def text(self) -> str:
        """The key for people: `ad_id`, or why there is none."""
        if self.everywhere:
            return "(all rows in every task)"
        if self.columns is not None:
            return ", ".join(min(names) for names in self.columns)
        return f"(lost: {self.why})" if self.why else "(undeclared)"


EVERYWHERE = Spread(everywhere=True, repeated=True)


def partitioned_by(columns: Iterable[str], partitioner: str = OURS) -> Spread:
    """Rows partitioned by these columns."""
    return Spread(columns=tuple(frozenset({name}) for name in columns), partitioner=partitioner)


def names_in(names: frozenset[str], columns: Iterable[str]) -> list[str]:
    """The columns that are among these names, ignoring case as Spark does."""
    folded = {name.casefold() for name in names}
    return [name for name in columns if name.casefold() in folded]


def follow_keys(graph: Graph, flow: Flow) -> dict[str, Spread]:
    """Stream or step -> how its rows are spread."""
    spreads: dict[str, Spread] = {}
    for name, stream in graph.streams.items():
        if stream.partition_key is None:
            spreads[name] = Spread(partitioner=stream.partitioner, undeclared=frozenset({name}))
        else:
            spreads[name] = partitioned_by(stream.partition_key, stream.partitioner)
    for name in graph.order:
        step = graph.steps[name]
        inputs = tuple(spreads.get(source, Spread()) for source in step.inputs)
        passes = flow.passes.get(name, {})
        if step.lookup is not None and inputs[0].everywhere:
            # Matches of broadcast rows come out where the table's row is; only the `by` columns are that row's key.
            inputs = (_fed(graph, flow, step.lookup.table, spreads),)
            passes = {copy: _only(sources, step.lookup.by) for copy, sources in passes.items()}
        spreads[name] = _after(step, inputs, passes)
    return spreads


def _only(sources: frozenset[tuple[int, str]], columns: tuple[str, ...]) -> frozenset[tuple[int, str]]:
    return frozenset((side, column) for side, column in sources if names_in(frozenset({column}), columns))


def _fed(graph: Graph, flow: Flow, name: str, spreads: dict[str, Spread]) -> Spread:
    """How the rows of a table are spread."""
    if graph.tables[name].distribution == "Broadcast":
        return EVERYWHERE
    return _merged(f"table {name}", tuple(spread for _, spread in feeds_of(graph, flow, name, spreads)))


def feeds_of(graph: Graph, flow: Flow, name: str, spreads: dict[str, Spread]) -> Iterator[tuple[str, Spread]]:
    """The side inputs or writers' inputs of a table, each with the spread of the rows that the table stores."""
    for writer in graph.table_writers.get(name, ()):
        source = graph.steps[writer].inputs[0]
        # In a cycle the writer comes later; whether its rows fit the table's key is checked at the writer.
        yield source, spreads.get(source, partitioned_by(graph.tables[name].key))
    for source in graph.tables[name].sources or ():
        spread = spreads[source]
        if name in flow.stored:
            spread = copied(spread, flow.stored[name], f"select of table {name} does not keep {{}}")
        yield source, spread


def _after(step: Step, inputs: tuple[Spread, ...], passes: Passes) -> Spread:  # noqa: PLR0911 - one for each verb
    """The spread after a step: each part of the key gets the names of its unchanged copies."""
    match step.operation:
        case Repartition(by=by):
            return replace(partitioned_by(by), repeated=inputs[0].repeated)
        case Broadcast():
            return EVERYWHERE
        case Merge():
            return _merged(step.name, inputs)
        case Join():
            return _joined(step, inputs, passes)
        case Filter() | Deduplicate() | To() | ToTable():
            return inputs[0]
        case Apply() | Process():
            return copied(inputs[0], passes, f"{step.name} may change {{}}; if it does not, name it in keeps")
        case Select() | Aggregate() | Lookup():
            return copied(inputs[0], passes, f"{step.name} does not pass {{}} on unchanged")
        case never:
            assert_never(never)


def copied(spread: Spread, passes: Passes, lost: str) -> Spread:
    """The spread under the names of the unchanged copies of its columns; `lost` explains a column without a copy."""
    if spread.columns is None:
        return spread
    columns = []
    for names in spread.columns:
        copies = frozenset(
            name for out, sources in passes.items() for _, column in sources for name in _copies(out, column, names)
        )
        if not copies:
            return replace(spread, columns=None, why=lost.format(min(names)))
        columns.append(copies)
    return replace(spread, columns=tuple(columns))


def _copies(out: str, column: str, names: frozenset[str]) -> list[str]:
    """What holds one of these names in `out`, which is a copy of `column`: it, or a field that is still inside."""
    folded = column.casefold()
    inside = [out + name[len(column) :] for name in names if name.casefold().startswith(f"{folded}.")]
    return [out, *inside] if names_in(names, [column]) else inside


def _merged(name: str, inputs: tuple[Spread, ...]) -> Spread:
    """The spread of merged rows: known only if all inputs agree; an undeclared key is assumed to equal the declared."""
    partitioned = [spread for spread in inputs if not spread.everywhere]
    if not partitioned:
        return EVERYWHERE
    merged = Spread(
        partitioner=partitioned[0].partitioner,
        undeclared=frozenset[str]().union(*(spread.undeclared for spread in partitioned)),
        why=next((spread.why for spread in partitioned if spread.why), ""),
        repeated=any(spread.repeated for spread in inputs),
        blind=any(s.blind for s in partitioned)
        or (len(partitioned) > 1 and {s.partitioner for s in partitioned} == {"none"}),
    )
    if merged.why:
        return merged
    declared = [spread for spread in partitioned if spread.columns is not None]
    first = next(iter(declared), partitioned[0])
    columns = first.columns
    for other in partitioned:
        common = columns if other.columns is None else _common(columns, other.columns)
        if other.partitioner != first.partitioner or (other.columns is not None and common is None):
            why = f"{name} merges rows partitioned by {_described(first)} with rows partitioned by {_described(other)}"
            return replace(merged, why=why)
        columns = common
    return replace(merged, columns=columns)


def _common(first: KeyColumns | None, second: KeyColumns) -> KeyColumns | None:
    """The names two keys share, part by part; None if they are different keys."""
    if first is None or len(first) != len(second):
        return None
    shared = tuple(a & b for a, b in zip(first, second, strict=True))
    return shared if all(shared) else None


def _described(spread: Spread) -> str:
    return f"{spread.text} ({spread.partitioner})"


def _joined(step: Step, inputs: tuple[Spread, ...], passes: Passes) -> Spread:
    left, right = inputs
    if left.everywhere and right.everywhere:
        return EVERYWHERE
    if left.everywhere or right.everywhere:
        side = 1 if left.everywhere else 0
        only = {name: frozenset(s for s in sources if s[0] == side) for name, sources in passes.items()}
        passes = {name: sources for name, sources in only.items() if sources}
        return copied(inputs[side], passes, f"{step.name} does not pass {{}} on unchanged")
    why = left.why or right.why
    joined = Spread(
        partitioner=left.partitioner,
        undeclared=left.undeclared | right.undeclared,
        why=why,
        repeated=left.repeated and right.repeated,
        blind=left.blind or right.blind,
    )
    declared = left.columns or right.columns
    if why or declared is None:
        return joined
    columns = _surviving(step, (left.columns or declared, right.columns or declared), passes)
    lost = next((min(names) for names, copies in zip(declared, columns, strict=False) if not copies), None)
    if lost is not None:
        return replace(joined, why=f"{step.name} does not pass {lost} on unchanged")
    return replace(joined, columns=columns)


def _surviving(step: Step, sides: tuple[KeyColumns, KeyColumns], passes: Passes) -> KeyColumns:
    """For each part of the key, the columns that hold it in every row that comes out.

    With an outer join, a column of one side is null in rows that found no match on that side, so it can't be the key.
    """
    kind = step.join.type if step.join is not None else "Inner"
    needed = {"Inner": set[int](), "Left": {0}, "Right": {1}, "Full": {0, 1}}[kind]

    def holds(sources: frozenset[tuple[int, str]], part: int) -> bool:
        copied_from = {
            side for side, column in sources if part < len(sides[side]) and names_in(sides[side][part], [column])
        }
        return bool(copied_from) and needed <= copied_from

    return tuple(
        frozenset(name for name, sources in passes.items() if holds(sources, part)) for part in range(len(sides[0]))
    )
