"""The program of an Avro schema as avro_program.h has it.

Must not know whether records are read or written.
"""

import ctypes
from ctypes import c_int64, c_void_p

from holdfast.planning.types.avro.program import AvroProgram, Node
from holdfast_runtime.streams.codecs.compiled_cells import LoopProgram, LoopText

LOOPS_VERSION = 3


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
        ("constant", LoopText),
        ("factor", c_int64),
        ("size", c_int64),
        ("branch", c_int64),
        ("null_branch", c_int64),
    )


class CompiledProgram(LoopProgram):
    """The nodes of a program, and what they point to."""

    def __init__(self, program: AvroProgram) -> None:
        super().__init__()
        self.nodes = (_Node * len(program.nodes))(*(self._node(node) for node in program.nodes))

    def _node(self, node: Node) -> _Node:
        self.keep(node.constant)
        return _Node(
            op=node.op,
            cell=node.cell,
            inner=self.numbers(node.inner),
            inner_count=len(node.inner),
            absent=self.numbers(node.absent),
            absent_count=len(node.absent),
            symbols=self.texts(node.symbols),
            symbol_count=len(node.symbols),
            constant=LoopText(node.constant, len(node.constant)),
            factor=node.factor,
            size=node.size,
            branch=node.branch,
            null_branch=node.null_branch,
        )
