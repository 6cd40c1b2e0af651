"""Key checks: whether the inputs of each step are partitioned so that rows with equal keys are in one task.

Each problem names the side that is wrong, because that is the side to repartition. Must not propose repairs:
`repair_search` does.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from holdfast.planning.graph import Graph
from holdfast.planning.known_columns import Flow
from holdfast.planning.problems import Problem
from holdfast.planning.spread import Spread, feeds_of, names_in
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

Arm = tuple[str, int]
"""An edge into a step: the step's name and the index of the input."""


@dataclass(frozen=True, slots=True)
class NeedSide:
    """One side of a step's need: rows from an input, from a step that writes the looked-up table, or a side input."""

    says: str
    """How messages call it: `the left side`, `table T` ..."""
    spread: Spread
    arm: Arm | None
    """The edge where a repartition can be inserted; None for a side input."""
    source: str
    """The stream or step that these rows come from."""


@dataclass(frozen=True, slots=True)
class KeyNeed:
    """A step that needs the rows of all its sides with equal values of `columns` in one task."""

    step: Step
    columns: tuple[str, ...]
    sides: tuple[NeedSide, ...]


def needs(graph: Graph, flow: Flow, spreads: dict[str, Spread]) -> Iterator[KeyNeed]:
    """Every key need of the graph, in flow order."""
    for name in graph.order:
        step = graph.steps[name]
        match step.operation:
            case Join(by=by):
                sides = (_side(step, 0, "the left side", spreads), _side(step, 1, "the right side", spreads))
                yield KeyNeed(step, by, sides)
            case Lookup(table=table, by=by):
                if graph.tables[table].distribution == "Partitioned":
                    yield KeyNeed(
                        step, by, (_side(step, 0, "its input", spreads), *_feeds(graph, table, flow, spreads))
                    )
            case ToTable(table):
                yield KeyNeed(step, graph.tables[table].key, (_side(step, 0, "its input", spreads),))
            case Aggregate(by=by) | Deduplicate(by=by) | Process(by=by):
                yield KeyNeed(step, by, (_side(step, 0, "its input", spreads),))
            case Filter() | Select() | Merge() | Apply() | Repartition() | Broadcast() | To():
                continue
            case never:
                assert_never(never)


def _side(step: Step, index: int, says: str, spreads: dict[str, Spread]) -> NeedSide:
    source = step.inputs[index]
    return NeedSide(f"{says} ({source})", spreads.get(source, Spread()), (step.name, index), source)


def _feeds(graph: Graph, table: str, flow: Flow, spreads: dict[str, Spread]) -> Iterator[NeedSide]:
    arms: list[Arm | None] = [(writer, 0) for writer in graph.table_writers.get(table, ())]
    arms += [None] * len(graph.tables[table].sources or ())
    for (source, spread), arm in zip(feeds_of(graph, flow, table, spreads), arms, strict=True):
        yield NeedSide(f"table {table} ({source})", spread, arm, source)


def key_problems(need: KeyNeed) -> Iterator[Problem]:
    """A problem for each way in which the sides do not meet the need."""
    step, columns = need.step.name, _listed(need.columns)
    partitioned = _partitioned(need)
    for side in partitioned:
        if side.spread.columns is None and side.spread.why:
            yield Problem(
                Reason.KEY_MISMATCH,
                f"{step} needs equal {columns} in one task, but {side.says} has lost its partition key: "
                f"{side.spread.why}",
                step=step,
            )
        elif side.spread.columns is not None and not contained(side.spread, need.columns):
            yield Problem(
                Reason.KEY_MISMATCH,
                f"{step} needs equal {columns} in one task, but {side.says} is partitioned by {side.spread.text}",
                step=step,
            )
    yield from _disagreements(need, [side for side in partitioned if not side.spread.why])
    yield from _repetitions(need)


def _partitioned(need: KeyNeed) -> list[NeedSide]:
    """The sides that must be partitioned alike; none if every task has all rows of the side to match with."""
    partitioned = [side for side in need.sides if not side.spread.everywhere]
    if need.step.join is not None and len(partitioned) < len(need.sides):
        return []
    if need.step.lookup is not None and all(side.spread.everywhere for side in need.sides[1:]):
        return []
    return partitioned


def _disagreements(need: KeyNeed, sides: list[NeedSide]) -> Iterator[Problem]:
    """A problem for each side that fits the step but is partitioned differently from the first fitting side."""
    step, fitting = (
        need.step.name,
        [side for side in sides if side.spread.columns is None or contained(side.spread, need.columns)],
    )
    for other in fitting[1:]:
        first = fitting[0]
        declared = first.spread.columns is not None and other.spread.columns is not None
        if declared and not aligned(first.spread, other.spread, need.columns):
            yield Problem(
                Reason.KEY_MISMATCH,
                f"{step} needs both sides partitioned alike, but {first.says} is partitioned by {first.spread.text} "
                f"and {other.says} by {other.spread.text}",
                step=step,
            )
        elif first.spread.partitioner != other.spread.partitioner:
            yield Problem(
                Reason.PARTITIONER_MISMATCH,
                f"{step} needs both sides partitioned alike, but {first.says} is partitioned with "
                f"{first.spread.partitioner} and {other.says} with {other.spread.partitioner}",
                step=step,
            )


def _repetitions(need: KeyNeed) -> Iterator[Problem]:
    """A problem where each task would produce its own results from broadcast rows, once per task."""
    if all(side.spread.everywhere for side in need.sides):
        return  # every task computes the same results
    step = need.step
    if step.join is not None:
        kept_sides = {"Inner": (), "Left": (0,), "Right": (1,), "Full": (0, 1)}[step.join.type]
    elif step.lookup is not None:
        partitioned = any(not side.spread.everywhere for side in need.sides[1:])
        if partitioned and need.sides[0].spread.everywhere and any(side.spread.repeated for side in need.sides[1:]):
            yield Problem(
                Reason.BROADCAST_REPEATED,
                f"every task looks all rows of {need.sides[0].says} up in {step.lookup.table}, which has broadcast "
                f"rows beside others, so matches with those come out once per task; make the table of one kind",
                step=step.name,
            )
        kept_sides = (0,) if step.lookup.type == "Left" and partitioned else ()
    else:
        for side in need.sides:
            if side.spread.repeated and not step.to_table:
                yield Problem(
                    Reason.BROADCAST_REPEATED,
                    f"broadcast rows reach {step.name} merged with others, so every task would count them into its own "
                    f"results; merge before broadcast, or leave them apart",
                    step=step.name,
                )
        return
    for side in (need.sides[i] for i in kept_sides):
        if side.spread.repeated:
            yield Problem(
                Reason.BROADCAST_REPEATED,
                f"{step.name} keeps rows of {side.says} that have no partner, but every task has them and would let "
                f"them out once per task; choose a type that does not keep them",
                step=step.name,
            )


def key_warnings(need: KeyNeed) -> Iterator[Problem]:
    """A warning for each assumption the need relies on that can't be checked."""
    unknown: set[str] = set()
    for side in need.sides:
        if not side.spread.why and not side.spread.everywhere:
            unknown |= side.spread.undeclared
    if unknown:
        streams = ", ".join(sorted(unknown))
        message = (
            f"{need.step.name} needs equal {_listed(need.columns)} in one task, but no key is declared for {streams}; "
            f"declare the columns its producer partitions by"
        )
        yield Problem(Reason.KEY_UNDECLARED, message, step=need.step.name)
    partitioners = {side.spread.partitioner for side in need.sides if side.spread.columns}
    blind = sorted({side.source for side in need.sides if side.spread.columns and side.spread.partitioner == "none"})
    merged = any(side.spread.blind for side in need.sides)
    if blind and (merged or (len(need.sides) > 1 and partitioners == {"none"})):
        message = (
            f"{need.step.name} relies on {', '.join(blind)} being partitioned alike, but with partitioner none that "
            f"can't be checked; declare murmur2 or crc32 if it is one of these"
        )
        yield Problem(Reason.PARTITIONER_UNKNOWN, message, step=need.step.name)


def contained(spread: Spread, columns: tuple[str, ...]) -> bool:
    """Whether every part of the partition key is among these columns."""
    return spread.columns is not None and all(names_in(names, columns) for names in spread.columns)


def aligned(first: Spread, second: Spread, columns: tuple[str, ...]) -> bool:
    """Whether two partition keys are the same columns in the same order."""
    if first.columns is None or second.columns is None or len(first.columns) != len(second.columns):
        return False
    pairs = zip(first.columns, second.columns, strict=True)
    return all({*names_in(a, columns)} & {*names_in(b, columns)} for a, b in pairs)


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(columns)
