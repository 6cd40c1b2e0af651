"""The program of an Avro schema as avro_program.h has it, and the memory that its loops leave.

Must not know whether records are read or written.
"""

import ctypes
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_int64, c_void_p
from typing import Any

import pyarrow as pa

from holdfast.planning.types.avro.node_builder import is_text
from holdfast.planning.types.avro.program import AvroProgram, Cell, Node

LOOPS_VERSION = 2
NOTHING, BOOLEAN, WHOLE, FLOAT, DOUBLE, DECIMAL, TEXT, BINARY, STRUCT, LIST, MAP = range(11)
"""What a cell holds."""
_KINDS = {
    "VOID": NOTHING,
    "BOOLEAN": BOOLEAN,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DECIMAL": DECIMAL,
    "BINARY": BINARY,
    "STRUCT": STRUCT,
    "ARRAY": LIST,
    "MAP": MAP,
}
FREE = {"holdfast_free_memory": (c_void_p,)}
"""What each library has beside its own functions."""


class _Text(ctypes.Structure):
    """A text in avro_program.h."""

    _fields_ = (("start", c_char_p), ("size", c_int64))


class _Node(ctypes.Structure):
    """A node in avro_program.h."""

    _fields_ = (
        ("op", c_int64),
        ("cell", c_int64),
        ("inner", c_void_p),
        ("inner_count", c_int64),
        ("absent", c_void_p),
        ("absent_count", c_int64),
        ("symbols", c_void_p),
        ("symbol_count", c_int64),
        ("constant", _Text),
        ("factor", c_int64),
        ("size", c_int64),
        ("branch", c_int64),
        ("null_branch", c_int64),
    )


class CompiledProgram:
    """The nodes of a program, and what they point to."""

    def __init__(self, program: AvroProgram) -> None:
        self._pointed_to: list[Any] = []
        self.nodes = (_Node * len(program.nodes))(*(self._node(node) for node in program.nodes))

    def numbers(self, numbers: tuple[int, ...]) -> int:
        """Return the address of these numbers, which live as long as this does."""
        array = (c_int32 * len(numbers))(*numbers)
        self._pointed_to.append(array)
        return ctypes.addressof(array)

    def _node(self, node: Node) -> _Node:
        texts = [text.encode() for text in node.symbols]
        symbols = (_Text * len(texts))(*(_Text(text, len(text)) for text in texts))
        self._pointed_to += [texts, symbols, node.constant]
        return _Node(
            op=node.op,
            cell=node.cell,
            inner=self.numbers(node.inner),
            inner_count=len(node.inner),
            absent=self.numbers(node.absent),
            absent_count=len(node.absent),
            symbols=ctypes.addressof(symbols),
            symbol_count=len(texts),
            constant=_Text(node.constant, len(node.constant)),
            factor=node.factor,
            size=node.size,
            branch=node.branch,
            null_branch=node.null_branch,
        )


def kind_of(cell: Cell) -> int:
    """Return the kind of what a cell holds; what no number is read into is a whole number, too."""
    return TEXT if is_text(cell.type) else _KINDS.get(cell.type.word, WHOLE)


class _Memory:
    """Memory that a loop has left, freed when no buffer is made of it any more."""

    def __init__(self, address: int, free: Callable[[int], None]) -> None:
        self._address, self._free = address, free

    def __del__(self) -> None:
        self._free(self._address)


def buffer_of(address: int | None, size: int, free: Callable[[int], None]) -> pa.Buffer | None:
    """Return memory that a loop has left as a buffer that owns it, None of none."""
    return None if address is None else pa.foreign_buffer(address, size, _Memory(address, free))
