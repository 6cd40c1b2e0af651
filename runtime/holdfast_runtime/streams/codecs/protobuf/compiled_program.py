"""The program of a Protobuf message as protobuf_program.h has it.

Must not know whether records are read or written.
"""

import ctypes
from ctypes import c_int64, c_void_p

from holdfast.planning.types.protobuf.program import MessageNode, ProtobufProgram
from holdfast_runtime.streams.codecs.compiled_cells import LoopProgram
from holdfast_runtime.streams.codecs.protobuf.wire import WIRES

LOOPS_VERSION = 1
_MOST_FIELDS, _MOST_CHOICES = 256, 64
"""Of one message that is read or written by loops."""


class _Node(ctypes.Structure):
    """A node in protobuf_program.h."""

    _fields_ = (
        ("op", c_int64),
        ("cell", c_int64),
        ("number", c_int64),
        ("wire", c_int64),
        ("shape", c_int64),
        ("packed", c_int64),
        ("choice", c_int64),
        ("inner", c_void_p),
        ("inner_count", c_int64),
        ("absent", c_void_p),
        ("absent_count", c_int64),
        ("symbols", c_void_p),
        ("numbers", c_void_p),
        ("symbol_count", c_int64),
    )


class CompiledMessage(LoopProgram):
    """The nodes of a program, and what they point to."""

    def __init__(self, program: ProtobufProgram) -> None:
        super().__init__()
        self.nodes = (_Node * len(program.nodes))(*(self._node(node) for node in program.nodes))

    def _node(self, node: MessageNode) -> _Node:
        return _Node(
            op=node.op,
            cell=node.cell,
            number=node.number,
            wire=WIRES[node.op],
            shape=node.shape,
            packed=node.packed,
            choice=node.choice,
            inner=self.numbers(node.inner),
            inner_count=len(node.inner),
            absent=self.numbers(node.absent),
            absent_count=len(node.absent),
            symbols=self.texts(node.symbols),
            numbers=self.numbers(node.numbers),
            symbol_count=len(node.symbols),
        )


def is_small(program: ProtobufProgram) -> bool:
    """Whether loops can follow a program: what they remember of a message has its bounds."""
    return all(len(node.inner) <= _MOST_FIELDS and node.choice <= _MOST_CHOICES for node in program.nodes)
