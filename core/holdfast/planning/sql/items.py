"""Items of a select that are taken apart and written again: every name quoted, so that it means the same anywhere.

Must not resolve names.
"""

from collections.abc import Sequence

from sqlglot import exp

from holdfast.planning.sql.functions import UNIT_FIRST
from holdfast.planning.sql.text import SPARK, parse

UNIT_ARGUMENTS = 3


def quoted(name: str) -> str:
    """Return a name as an expression must spell it, whatever it is."""
    return f"`{name.replace('`', '``')}`"


def named_item(text: str, names: Sequence[str] = ()) -> tuple[str, exp.Expr]:
    """Return the name of an item, and its expression; `names`: columns that may look like words of the language."""
    tree = parse(text, names)
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", not is_unit(name.parent))
    return tree.alias_or_name, tree.unalias().unnest()


def is_unit(column: exp.Expr | None) -> bool:
    """Return whether this is the unit in `date_add(DAY, 1, day)`, which only looks like a column."""
    if column is None or column.index != 0 or not isinstance(call := column.parent, exp.Anonymous):
        return False
    return call.name.lower() in UNIT_FIRST and len(call.expressions) == UNIT_ARGUMENTS


def written(value: exp.Expr) -> str:
    """Return the text of an expression."""
    return SPARK.generate(value, normalize_functions=False)
