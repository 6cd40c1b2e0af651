"""Calls as typing rules see them, and the result types of functions over arrays, maps, structs and their lambdas.

A rule uses the arguments of a call, their types and a few literals among them. Collections are apart from the other
functions because their rules decompose and build nested types. Only functions in the golden corpus have a rule.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from sqlglot import exp

from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import DATE, INT, INTEGRAL, STRING, SparkType, array, mapping, struct, widest

MAX_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: its arguments, and their types as far as known."""

    arguments: Sequence[exp.Expr]
    kinds: tuple[SparkType | None, ...]

    def kind(self, index: int) -> SparkType | None:
        """The type of one argument; None if unknown or missing."""
        return self.kinds[index] if index < len(self.kinds) else None

    def inner(self, index: int, word: str, part: int = 0) -> SparkType | None:
        """The type inside an argument that is an ARRAY or a MAP."""
        kind = self.kind(index)
        return kind.inner[part] if kind is not None and kind.word == word else None

    def text(self, index: int) -> str | None:
        """The text of an argument that is a string literal."""
        literal = self._literal(index)
        return str(literal.this) if literal is not None and literal.is_string else None

    def whole_number(self, index: int) -> int | None:
        """The value of an argument that is a small whole number literal."""
        literal = self._literal(index)
        if literal is None or literal.is_string:
            return None
        text = str(literal.this)
        return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None

    def _literal(self, index: int) -> exp.Literal | None:
        node = self.arguments[index] if index < len(self.arguments) else None
        return node if isinstance(node, exp.Literal) else None


TypingRule = Callable[[Call], SparkType | None]

NAMED = (exp.Alias, exp.Column, exp.Dot, exp.Identifier)
"""Arguments of `struct` that give their field its name; other fields are named by position."""

PAIR, MERGE, FINISH = 2, 2, 3


def _array_of(kind: SparkType | None) -> SparkType | None:
    return None if kind is None else array(kind)


def _map_of(key: SparkType | None, value: SparkType | None) -> SparkType | None:
    return None if key is None or value is None else mapping(key, value)


def _widest(call: Call) -> SparkType | None:
    return widest(call.kinds) if call.kinds else None


def _same_array(call: Call) -> SparkType | None:
    return _array_of(call.inner(0, "ARRAY"))


def _like_both(call: Call) -> SparkType | None:
    return call.kind(0) if len(call.kinds) == PAIR and call.kind(0) == call.kind(1) else None


def _like_array_of_last(call: Call) -> SparkType | None:
    element = call.inner(0, "ARRAY")
    return call.kind(0) if element is not None and element == call.kinds[-1] else None


def element(call: Call) -> SparkType | None:
    """The type of the value at an index or key of the first argument."""
    return call.inner(0, "ARRAY") or call.inner(0, "MAP", 1)


def _map(call: Call) -> SparkType | None:
    if not call.kinds or len(call.kinds) % PAIR:
        return None
    return _map_of(widest(call.kinds[::2]), widest(call.kinds[1::2]))


def _map_from_entries(call: Call) -> SparkType | None:
    entry = call.inner(0, "ARRAY")
    return mapping(*entry.inner) if entry and entry.word == "STRUCT" and len(entry.inner) == PAIR else None


def _map_entries(call: Call) -> SparkType | None:
    key, value = call.inner(0, "MAP"), call.inner(0, "MAP", 1)
    return array(struct((("key", key), ("value", value)))) if key and value else None


def _fields(pairs: list[tuple[str | None, SparkType | None]]) -> SparkType | None:
    fields = [(name, kind) for name, kind in pairs if name is not None and kind is not None]
    return struct(fields) if len(fields) == len(pairs) > 0 else None


def _named_struct(call: Call) -> SparkType | None:
    names = [call.text(at) for at in range(0, len(call.kinds), 2)]
    return _fields(list(zip_longest(names, call.kinds[1::2])))


def row(call: Call) -> SparkType | None:
    """The type of `struct(...)`, and of several values in brackets."""
    if any(isinstance(node, exp.Star) for node in call.arguments):
        return None
    names = [
        node.alias_or_name if isinstance(node, NAMED) else f"col{number}"
        for number, node in enumerate(call.arguments, start=1)
    ]
    return _fields(list(zip(names, call.kinds, strict=True)))


def _flatten(call: Call) -> SparkType | None:
    inner = call.inner(0, "ARRAY")
    return inner if inner and inner.word == "ARRAY" else None


def _sequence(call: Call) -> SparkType | None:
    kind = widest(call.kinds[:PAIR]) if call.kinds else None
    return array(kind) if kind in INTEGRAL or kind == DATE else None


def _folded(call: Call) -> SparkType | None:
    if len(call.kinds) > FINISH:
        return call.kind(FINISH)
    start, merged = call.kind(1), call.kind(MERGE)
    return start if start == merged else None


def _zipped_maps(call: Call) -> SparkType | None:
    key = call.inner(0, "MAP")
    return _map_of(key, call.kind(2)) if key == call.inner(1, "MAP") else None


def _from_json(call: Call) -> SparkType | None:
    ddl = call.text(1)
    return None if ddl is None else parse_type(f"STRUCT<{ddl}>") or parse_type(ddl)


RULES: dict[str, TypingRule] = {
    **dict.fromkeys(("array_compact", "array_distinct", "array_sort", "filter", "slice", "sort_array"), _same_array),
    "map_filter": lambda call: call.kind(0),
    **dict.fromkeys(("array_except", "array_intersect", "array_union"), _like_both),
    **dict.fromkeys(("array_append", "array_insert", "array_prepend", "array_remove"), _like_array_of_last),
    **dict.fromkeys(("array_agg", "array_repeat", "collect_list", "collect_set"), lambda call: _array_of(call.kind(0))),
    **dict.fromkeys(("element_at", "try_element_at"), element),
    **dict.fromkeys(("get", "array_max", "array_min"), lambda call: call.inner(0, "ARRAY")),
    **dict.fromkeys(("aggregate", "reduce"), _folded),
    "array": lambda call: _array_of(_widest(call)),
    "flatten": _flatten,
    "from_json": _from_json,
    "map": _map,
    "map_concat": _widest,
    "map_entries": _map_entries,
    "map_from_arrays": lambda call: _map_of(call.inner(0, "ARRAY"), call.inner(1, "ARRAY")),
    "map_from_entries": _map_from_entries,
    "map_keys": lambda call: _array_of(call.inner(0, "MAP")),
    "map_values": lambda call: _array_of(call.inner(0, "MAP", 1)),
    "map_zip_with": _zipped_maps,
    "named_struct": _named_struct,
    "sequence": _sequence,
    "str_to_map": lambda _: mapping(STRING, STRING),
    "struct": row,
    "transform": lambda call: _array_of(call.kind(1)),
    "transform_keys": lambda call: _map_of(call.kind(1), call.inner(0, "MAP", 1)),
    "transform_values": lambda call: _map_of(call.inner(0, "MAP"), call.kind(1)),
    "zip_with": lambda call: _array_of(call.kind(2)),
}

Given = Callable[[Call, int], tuple[SparkType | None, ...]]


def _element_and_index(call: Call, _: int) -> tuple[SparkType | None, ...]:
    return call.inner(0, "ARRAY"), INT


def _key_and_value(call: Call, _: int) -> tuple[SparkType | None, ...]:
    return call.inner(0, "MAP"), call.inner(0, "MAP", 1)


def _sum_and_element(call: Call, index: int) -> tuple[SparkType | None, ...]:
    return (call.kind(1), call.inner(0, "ARRAY")) if index == MERGE else (call.kind(1),)


GIVEN: dict[str, Given] = {
    **dict.fromkeys(("exists", "filter", "forall", "transform"), _element_and_index),
    **dict.fromkeys(("map_filter", "transform_keys", "transform_values"), _key_and_value),
    **dict.fromkeys(("aggregate", "reduce"), _sum_and_element),
    "array_sort": lambda call, _: (call.inner(0, "ARRAY"), call.inner(0, "ARRAY")),
    "zip_with": lambda call, _: (call.inner(0, "ARRAY"), call.inner(1, "ARRAY")),
    "map_zip_with": lambda call, _: (call.inner(0, "MAP"), call.inner(0, "MAP", 1), call.inner(1, "MAP", 1)),
}


def lambda_kinds(name: str, call: Call, index: int) -> tuple[SparkType | None, ...]:
    """The parameter types of the lambda that is argument `index`; `call` has the arguments before it."""
    parameter_kinds = GIVEN.get(name)
    return parameter_kinds(call, index) if parameter_kinds else ()
