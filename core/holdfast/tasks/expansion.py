"""Why: a user may say which old partition held the keys of a new one, as arithmetic over three numbers.

Evaluated here by hand over Python's own syntax tree, so that nothing but whole-number arithmetic can ever run.
"""

import ast
from collections.abc import Callable
from operator import add, floordiv, mod, mul, sub

from holdfast.errors import UserActionError

_NAMES = ("partition", "previous", "current")
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Div: floordiv,
    ast.Mod: mod,
}


class ParentMappingError(UserActionError):
    """An `expansion.parent` that can't be read or gives no partition."""


class ParentMapping:
    """`expansion.parent`, ready to be asked."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
            _check(self._tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            message = f"expansion.parent {text!r} is not arithmetic over {', '.join(_NAMES)}: {error}"
            raise ParentMappingError(message) from error

    def __call__(self, partition: int, previous: int, current: int) -> int:
        """The old partition that held the keys of `partition`."""
        values = {"partition": partition, "previous": previous, "current": current}
        where = f"for partition {partition} (previous {previous}, current {current})"
        try:
            parent = _evaluate(self._tree, values)
        except ZeroDivisionError as error:
            message = f"expansion.parent {self.text!r} divides by zero {where}"
            raise ParentMappingError(message) from error
        if not 0 <= parent < previous:
            message = f"expansion.parent {self.text!r} gives {parent} {where}; it must be 0 to {previous - 1}"
            raise ParentMappingError(message)
        return parent


def _check(node: ast.expr) -> None:
    """Raise `ValueError` for anything `_evaluate` does not know."""
    match node:
        case ast.Constant(value=int()) | ast.Name(id="partition" | "previous" | "current"):
            return
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            _check(inner)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            _check(left)
            _check(right)
        case _:
            message = f"{ast.unparse(node)} is not allowed in it"
            raise ValueError(message)


def _evaluate(node: ast.expr, values: dict[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=inner):
            return -_evaluate(inner, values)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_evaluate(left, values), _evaluate(right, values))
    message = f"unchecked {ast.dump(node)}"
    raise AssertionError(message)
