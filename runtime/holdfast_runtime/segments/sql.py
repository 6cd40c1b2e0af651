"""One Spark SQL segment: all `filter`, `select` and `merge` steps of a level over the union, in one narrow plan.

The row of each node is a struct column, null if the current row does not belong to that node; each step adds its own
column. So every expression is computed once, only for rows that reached its step, and only as Spark analysed the user's
text. Must not put a Filter behind an expression: Spark pushes parts of it below the guards, to rows it would fail on.
"""

from dataclasses import dataclass, field
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as PySpark names it

from holdfast_runtime.segments.catalyst import VALUE, Catalyst, ExplodedColumn
from holdfast_runtime.segments.graph import COLUMN, FAILED, ROW, CompiledGraph, GraphNode
from holdfast_runtime.segments.union import NOTE
from holdfast_runtime.steps.timed_rows import find_column

CARRIED = ("task", "time", "mark", "note")
IS_NOTE = "is_note"
LANE = "lane"
ELEMENT = "element"
TRIED = "tried"


@dataclass(frozen=True, slots=True)
class _Tries:
    """The values a step computes, and on which rows it fails."""

    values: tuple[tuple[str, Column], ...]
    failing: tuple[tuple[str, Column], ...] = ()
    """Name of a column (empty for a condition), and whether it can't be computed."""

    @property
    def good(self) -> Column:
        """Whether all values can be computed."""
        return reduce(and_, (~fails for _, fails in self.failing), F.lit(True))  # noqa: FBT003 - Spark's own

    def failed(self, row: Column) -> Column:
        """Return the row with the first column that can't be computed; null if all can."""
        nothing = F.lit(None).cast("string")
        failure = F.when(F.lit(False), F.named_struct(F.lit(COLUMN), nothing, F.lit(ROW), row))  # noqa: FBT003 - as above
        for name, fails in self.failing:
            column = F.lit(name) if name else nothing
            failure = failure.when(row.isNotNull() & fails, F.named_struct(F.lit(COLUMN), column, F.lit(ROW), row))
        return failure


def sql_segment(frame: DataFrame, compiled: CompiledGraph, level: int) -> DataFrame:
    """Run the rows of layout(level - 1) through the steps of this odd level; return rows of layout(level)."""
    segment = _Segment(frame, compiled, level, Catalyst(frame.sparkSession))
    segment.enter()
    for node in compiled.at(level):
        segment.step(node)
    return segment.leave()


def _of(node: int) -> str:
    return f"n{node}"


@dataclass(slots=True)
class _Segment:
    """The frame as built so far."""

    frame: DataFrame
    compiled: CompiledGraph
    level: int
    catalyst: Catalyst
    lines: dict[int, frozenset[object]] = field(default_factory=dict)
    """Node with a column -> where its rows come from. Nodes that share a line may both be present in one row."""
    done: set[int] = field(default_factory=set)

    def enter(self) -> None:
        """Add a column for each incoming node."""
        layout = self.compiled.layout(self.level - 1)
        rows = [
            F.when(F.col("node") == node, F.col(f"s{shape}")).alias(_of(node))
            for node, shape in layout.shape_of.items()
        ]
        self.frame = self.frame.select(*CARRIED, (F.col("node") == NOTE).alias(IS_NOTE), *rows)
        self.lines = {node: frozenset([node]) for node in layout.shape_of}

    def step(self, node: GraphNode) -> None:
        """Add the column of one more step. `_put` also adds the failed rows, which are a node of their own."""
        if node.step is None or node.verb == FAILED:
            return
        if node.verb == "merge":
            self._merge(node)
        elif node.step.filter is not None:
            self._filter(node, node.step.filter)
        elif node.step.select is not None:
            self._select(node, node.step.select)
        self.done.add(node.index)

    def leave(self) -> DataFrame:
        """Return the union of the rows that leave the segment."""
        layout = self.compiled.layout(self.level)
        leaving = list(layout.shape_of)
        if self._meet(leaving):
            self._fan_out([(node, node) for node in leaving])
        node = F.when(F.col(IS_NOTE), NOTE)
        for index in leaving:
            node = node.when(F.col(_of(index)).isNotNull(), index)
        shapes = [
            F.coalesce(*(F.col(_of(index)) for index in leaving if layout.shape_of[index] == shape)).alias(f"s{shape}")
            for shape in range(len(layout.shapes))
        ]
        # Spark takes this as non-deterministic, so it does not push the Filter above below it.
        barrier = F.when(F.spark_partition_id() >= 0, node).alias("node")
        union = self.frame.select("task", barrier, "time", "mark", "note", *shapes)
        return union.filter(F.col("node").isNotNull())

    def _filter(self, node: GraphNode, text: str) -> None:
        source = self.compiled.nodes[node.inputs[0]]
        analysed = self.catalyst.condition(source.schema, text)
        row = F.col(_of(source.index))
        exposed = self.frame.select("*", *self.catalyst.fields(self.frame, _of(source.index), analysed.inputs))
        exposed, tries = self._tried(exposed, node, row, analysed.columns)
        ((_, condition),) = tries.values
        self._put(exposed, node, F.when(row.isNotNull(), F.when(condition, row)), self.lines[source.index], tries)

    def _select(self, node: GraphNode, texts: tuple[str, ...]) -> None:
        source = self.compiled.nodes[node.inputs[0]]
        selected = self.catalyst.select(source.schema, texts)
        source_index = source.index
        if selected.generated is not None:
            source_index = self._alone(node, source.index)
        row = F.col(_of(source_index))
        exposed = self.frame.select("*", *self.catalyst.fields(self.frame, _of(source_index), selected.inputs))
        if selected.generated is not None:
            exposed = self._exploded(exposed, row, selected.generated)
        exposed, tries = self._tried(exposed, node, row, selected.columns)
        value = F.named_struct(*(part for name, column in tries.values for part in (F.lit(name), column)))
        self._put(exposed, node, F.when(row.isNotNull() & tries.good, value), self.lines[source_index], tries)

    def _tried(
        self, frame: DataFrame, node: GraphNode, row: Column, columns: tuple[tuple[str, Column], ...]
    ) -> "tuple[DataFrame, _Tries]":
        """Catch failures of the values a step computes; without dead letters, leave them to stop the app."""
        if node.step is None or node.step.dead_letter is None:
            return frame, _Tries(columns)
        tried = [(name, column, self.catalyst.tried(column)) for name, column in columns]
        caught = {
            index: F.when(row.isNotNull(), attempt).alias(f"{TRIED}{index}")
            for index, (*_, attempt) in enumerate(tried)
            if attempt is not None
        }
        failing = [
            (name, F.col(f"{TRIED}{index}").isNull()) for index, (name, *_) in enumerate(tried) if index in caught
        ]
        values = [
            (name, F.col(f"{TRIED}{index}").getField(VALUE) if index in caught else column)
            for index, (name, column, _) in enumerate(tried)
        ]
        return frame.select("*", *caught.values()), _Tries(tuple(values), tuple(failing))

    def _alone(self, node: GraphNode, source: int) -> int:
        """Return the node whose rows the step will multiply, separated from nodes that share a line with it."""
        later_nodes = self._needed_after(node)
        if not any(self.lines[source] & self.lines[later_node] for later_node in later_nodes):
            return source
        self._fan_out([(node.index, source), *((later_node, later_node) for later_node in later_nodes)])
        return node.index

    def _exploded(self, frame: DataFrame, row: Column, generated: ExplodedColumn) -> DataFrame:
        """Make one row per element; rows of other nodes stay as they are."""
        if generated.outer:
            elements = F.explode_outer(F.when(row.isNotNull(), generated.array))
        else:
            single = F.array(self.catalyst.null_of(generated.element_type))
            elements = F.explode(F.when(row.isNotNull(), generated.array).otherwise(single))
        frame = frame.select("*", elements.alias(ELEMENT))
        return frame.select("*", self.catalyst.known_as(frame, ELEMENT, generated.id))

    def _merge(self, node: GraphNode) -> None:
        lines = [self.lines[source] for source in node.inputs]
        if len(frozenset[object]().union(*lines)) < sum(map(len, lines)):
            self._fan_out(
                [(node.index, source) for source in node.inputs]
                + [(index, index) for index in self._needed_after(node)],
            )
            return
        rows = [self._aligned(source, node) for source in node.inputs]
        self._put(self.frame, node, F.coalesce(*rows), frozenset[object]().union(*lines))

    def _aligned(self, source: int, node: GraphNode) -> Column:
        """Return a row with the columns in the order of the merge that reads it."""
        row, schema = F.col(_of(source)), self.compiled.nodes[source].schema
        if schema.equals(node.schema):
            return row
        fields = (schema.field(find_column(schema, name)).name for name in node.schema.names)
        parts = (
            part
            for name, field_name in zip(node.schema.names, fields, strict=True)
            for part in (F.lit(name), row[field_name])
        )
        return F.when(row.isNotNull(), F.named_struct(*parts))

    def _put(
        self, frame: DataFrame, node: GraphNode, value: Column, lines: frozenset[object], tries: "_Tries | None" = None
    ) -> None:
        """Add a column, and one for failed rows if wanted, and drop columns that are no longer needed."""
        new_columns = {node.index: value}
        failures = [
            failed_node
            for failed_node in self.compiled.nodes
            if failed_node.verb == FAILED and failed_node.name == node.name and failed_node.inputs == node.inputs
        ]
        if tries is not None and failures:
            new_columns[failures[0].index] = tries.failed(F.col(_of(failures[0].inputs[0])))
        remaining = [index for index in self._needed_after(node) if index in self.lines]
        columns = [column.alias(_of(index)) for index, column in new_columns.items()]
        self.frame = frame.select(*CARRIED, IS_NOTE, *(_of(index) for index in remaining), *columns)
        self.lines = {index: self.lines[index] for index in remaining} | dict.fromkeys(new_columns, lines)

    def _needed_after(self, node: GraphNode) -> list[int]:
        """Return the present nodes that a later step, or another segment, reads."""
        behind = [
            later_node
            for later_node in self.compiled.at(self.level)
            if later_node.index > node.index and later_node.verb != FAILED
        ]
        read = {source for later_node in behind for source in later_node.inputs}
        leaving = {crossing_node.index for crossing_node in self.compiled.crossing(self.level)}
        return [index for index in self.lines if index in read | leaving and index != node.index]

    def _meet(self, nodes: list[int]) -> bool:
        """Whether two of these nodes may be present in one row."""
        nodes = list(dict.fromkeys(nodes))
        return len(frozenset[object]().union(*(self.lines[node] for node in nodes))) < sum(
            len(self.lines[node]) for node in nodes
        )

    def _fan_out(self, lanes: list[tuple[int, int]]) -> None:
        """Split a row with several nodes' rows into one row for each lane (target node, source node)."""
        present = [F.when(F.col(IS_NOTE), -1)]
        present += [F.when(F.col(_of(source)).isNotNull(), lane) for lane, (_, source) in enumerate(lanes)]
        names = [_of(index) for index in self.lines]
        spread = self.frame.select(*CARRIED, *names, F.explode(F.array(*present)).alias(LANE))
        columns = []
        for node in dict.fromkeys(node for node, _ in lanes):
            target = self.compiled.nodes[node]
            choices = [
                F.when(
                    F.col(LANE) == lane, self._aligned(source, target) if target.verb == "merge" else F.col(_of(source))
                )
                for lane, (to, source) in enumerate(lanes)
                if to == node
            ]
            columns.append(F.coalesce(*choices).alias(_of(node)))
        self.frame = spread.select(*CARRIED, (F.col(LANE) == -1).alias(IS_NOTE), *columns)
        self.lines = {node: frozenset([object()]) for node, _ in lanes}
