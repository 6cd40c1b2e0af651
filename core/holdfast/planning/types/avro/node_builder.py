"""The part that reading and writing have in common: types of a schema are followed beside the cells of a row.

Each node stands before those inside it. Must not know which values fit which column: `reading` and `writing` do.
"""

from abc import ABC, abstractmethod
from dataclasses import replace

from holdfast.planning.problems import ExpressionError, SqlFinding
from holdfast.planning.types.avro.program import AvroProgram, Node, Op, cells_of
from holdfast.planning.types.avro.schema import AvroKind, AvroSchema, AvroType
from holdfast.planning.types.misfits import Misfit
from holdfast.planning.types.spark_types import RowType, is_text
from holdfast.reasons import Reason

MOST_NODES = 50_000


class NodeBuilder(ABC):
    """Adds the nodes of a program."""

    def __init__(self, schema: AvroSchema, rows: RowType) -> None:
        self.schema, self.cells = schema, cells_of(rows)
        self.nodes: list[Node] = []
        self.misfits: list[Misfit] = []

    @property
    def program(self) -> AvroProgram:
        """The program of the nodes that were added."""
        return AvroProgram(tuple(self.nodes), self.cells)

    def node(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a type whose values belong to a cell; return its number."""
        kind, target = self.schema.resolved(kind), self.cells[cell].type
        if kind.kind is AvroKind.UNION:
            return self.union(kind, cell, path)
        if kind.kind is AvroKind.RECORD and target.word == "STRUCT":
            return self.record(kind, cell, path)
        if kind.kind is AvroKind.ARRAY and target.word == "ARRAY":
            return self._around(Node(Op.ARRAY, cell, path=path), kind, self.cells[cell].inner[0])
        if kind.kind is AvroKind.MAP and target.word == "MAP" and is_text(target.inner[0]):
            return self._around(Node(Op.MAP, cell, path=path), kind, self.cells[cell].inner[1])
        return self.add(self.value(kind, cell, path))

    @abstractmethod
    def union(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a union."""

    @abstractmethod
    def record(self, kind: AvroType, cell: int, path: str) -> int:
        """Add a record."""

    @abstractmethod
    def value(self, kind: AvroType, cell: int, path: str) -> Node:
        """Return the node of a type without parts, or of one that does not fit its cell."""

    def add(self, node: Node) -> int:
        """Add a node; return its number. Branches that contain branches double with each level, so there is a limit."""
        if len(self.nodes) == MOST_NODES:
            message = f"the Avro schema and the columns have more than {MOST_NODES} ways to meet; declare fewer columns"
            raise ExpressionError(SqlFinding(Reason.SCHEMA_INVALID, message))
        self.nodes.append(node)
        return len(self.nodes) - 1

    def place(self) -> int:
        """Return the number of a node that is made when those inside it are."""
        return self.add(Node(Op.NULL))

    def _around(self, node: Node, kind: AvroType, inner_cell: int) -> int:
        at = self.place()
        self.nodes[at] = replace(node, inner=(self.node(kind.inner[0], inner_cell, f"{node.path}[]"),))
        return at
