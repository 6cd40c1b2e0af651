"""Values in Avro that Kafka Connect has written: what its converter names, columns take as they take it in JSON.

A schema is its converter's if its record has a name of Kafka Connect. There a text is no bytes, which Avro's promotions
would allow: Debezium can be told to write bytes as texts of several kinds. Must not know the layouts of JSON.
"""

from holdfast.planning.types.avro.program import OPS, Node, Op
from holdfast.planning.types.avro.schema import AvroKind, AvroType
from holdfast.planning.types.connect.meanings import (
    DECIMAL_NAME,
    OWN_SCALE_NAME,
    Conversion,
    Way,
    columns_for,
    way_into,
)
from holdfast.planning.types.connect.schema import ConnectKind, ConnectType
from holdfast.planning.types.spark_types import SparkType

_KINDS = {
    AvroKind.BOOLEAN: ConnectKind.BOOLEAN,
    AvroKind.INT: ConnectKind.INT32,
    AvroKind.LONG: ConnectKind.INT64,
    AvroKind.FLOAT: ConnectKind.FLOAT,
    AvroKind.DOUBLE: ConnectKind.DOUBLE,
    AvroKind.BYTES: ConnectKind.BYTES,
    AvroKind.STRING: ConnectKind.STRING,
}
_PARTS_OF_OWN_SCALE = (("scale", AvroKind.INT), ("value", AvroKind.BYTES))
_UNKNOWN_DIGITS = 64
"""What the converter writes as the precision of a decimal if nothing says it."""


def connect_type(kind: AvroType) -> ConnectType | None:
    """Return what a type without parts is to Kafka Connect; None if its converter does not write such a type."""
    if kind.kind is AvroKind.RECORD and kind.name == OWN_SCALE_NAME:
        parts = tuple((known.name, known.type.kind) for known in kind.fields)
        return ConnectType(ConnectKind.STRUCT, OWN_SCALE_NAME) if parts == _PARTS_OF_OWN_SCALE else None
    if kind.kind not in _KINDS or (kind.meaning == DECIMAL_NAME and kind.logical != "decimal"):
        return None
    precision, scale = kind.digits
    known = precision if precision != _UNKNOWN_DIGITS else None
    return ConnectType(_KINDS[kind.kind], kind.meaning, scale, known)


def connect_node(kind: AvroType, known: ConnectType, target: SparkType) -> Node | None:
    """Return the node of a value for a column of this type, if it can take it."""
    way = way_into(known, target)
    return None if way is None else _node(kind, way, target)


def _node(kind: AvroType, way: Way, target: SparkType) -> Node:
    scale = target.digits[1] if target.word == "DECIMAL" else 0
    match way.conversion:
        case Conversion.ISO_MOMENT:
            return Node(Op.ISO_TIME)
        case Conversion.ISO_DATE:
            return Node(Op.ISO_DATE)
        case Conversion.OWN_SCALE:
            return Node(Op.OWN_SCALE, factor=scale)
        case Conversion.UNSCALED:
            return Node(Op.BYTES, factor=scale - kind.digits[1])
        case _ if target.word != "DECIMAL":
            return Node(OPS[kind.kind], factor=way.factor)
        case _:
            return Node(Op.TEXT_DECIMAL if kind.kind is AvroKind.STRING else OPS[kind.kind], factor=scale)


def connect_cure(known: ConnectType) -> str:
    """Return what to declare for a value of this type."""
    return f"; declare it as {columns_for(known)}"
