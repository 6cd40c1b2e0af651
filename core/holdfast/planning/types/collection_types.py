"""Why: what a typing rule may look at in a call: its arguments and their types, and a few literals among them.

Must not hold rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from holdfast.planning.types.spark_types import SparkType

MAX_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: its arguments, and their types as far as they are known."""

    arguments: Sequence[exp.Expr]
    kinds: tuple[SparkType | None, ...]

    def kind(self, at: int) -> SparkType | None:
        """The type of one argument; unknown when it is not there."""
        return self.kinds[at] if at < len(self.kinds) else None

    def inner(self, at: int, word: str, part: int = 0) -> SparkType | None:
        """What is inside an argument that is an ARRAY or a MAP."""
        kind = self.kind(at)
        return kind.inner[part] if kind is not None and kind.word == word else None

    def text(self, at: int) -> str | None:
        """The text of an argument that is a string literal."""
        literal = self._literal(at)
        return str(literal.this) if literal is not None and literal.is_string else None

    def whole_number(self, at: int) -> int | None:
        """The value of an argument that is a small whole number literal."""
        literal = self._literal(at)
        if literal is None or literal.is_string:
            return None
        text = str(literal.this)
        return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None

    def _literal(self, at: int) -> exp.Literal | None:
        node = self.arguments[at] if at < len(self.arguments) else None
        return node if isinstance(node, exp.Literal) else None


TypingRule = Callable[[Call], SparkType | None]
