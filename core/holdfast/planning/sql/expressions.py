"""Checks of the Spark SQL of `filter`, `select` and `compute` against the rows that reach a step.

Returns the name, type and source of each column that comes out, so that a typo is a problem of the plan, with its
repair, and not a stack trace from a driver. Must not know steps or the graph, and raises nothing: whatever the text,
it returns findings.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from holdfast.planning.problems import ExpressionError, SqlFinding, excerpt, listed
from holdfast.planning.sql.aggregate_arguments import argument_findings
from holdfast.planning.sql.aggregate_calls import aggregate_calls, read_call
from holdfast.planning.sql.functions import WITHOUT_BRACKETS
from holdfast.planning.sql.reading import ExpressionWalk, path_of
from holdfast.planning.sql.scope import ColumnSource, Scope
from holdfast.planning.sql.text import parse
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import UNKNOWN, Column
from holdfast.reasons import Reason
from holdfast.suggest import near_miss

__all__ = ["CheckedExpression", "Scope", "SqlFinding", "check_compute", "check_filter", "check_select"]

PLAIN_ITEM = re.compile(
    r"\s*(?:(left|right)\.)?([A-Za-z_]\w*)(?:\s+AS\s+([A-Za-z_]\w*))?\s*\Z", re.IGNORECASE | re.ASCII
)
LITERAL_WORDS = frozenset({"null", "true", "false", "case", "interval", "not", "exists"})
MOST_FINDINGS = 100
"""Most findings of one list; the expressions after these are checked once these are fixed."""
EXPLODING = ("explode", "explode_outer")
OTHER_GENERATORS = {
    "posexplode": "use explode(sequence(0, size(a) - 1)) AS i and take a[i] in the next step",
    "inline": "use explode(a) AS x and take x.field in the next step",
    "stack": "use explode(array(...)) AS x",
    "json_tuple": "use get_json_object(text, '$.name') AS name for each of them",
}


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """The result of one expression: one column of a `select` or `compute`, or the condition of a `filter`.

    `type` is `UNKNOWN` if it can't be derived. `source` is set if the expression only passes a column through. A `*`
    over rows that are not closed ends with a `CheckedExpression` without name and findings, which stands for all
    columns that are not known.
    """

    name: str | None
    type: str
    source: ColumnSource | None
    findings: tuple[SqlFinding, ...]
    makes_rows: bool = False
    """Whether it is an `explode`."""
    field: ColumnSource | None = None
    """The side and path of a field of structs, if the expression only passes that through."""
    named: frozenset[ColumnSource] = frozenset()
    """The columns of which it takes values, outside of aggregates."""
    aggregated: frozenset[ColumnSource] = frozenset()
    """Those of which it takes values inside of aggregates."""

    @property
    def is_rest(self) -> bool:
        """Whether it stands for the columns that are not known."""
        return self.name is None and not self.findings


def check_filter(text: str, scope: Scope) -> CheckedExpression:
    """Check the condition of a `filter`."""
    checked = check_value(text, scope, "a filter")
    if checked.findings or checked.type in ("BOOLEAN", UNKNOWN):
        return checked
    message = f"{excerpt(text)} gives {excerpt(checked.type)}; a filter needs true or false, as a comparison gives"
    return replace(checked, findings=(SqlFinding(Reason.FILTER_NOT_BOOLEAN, message),))


def check_value(text: str, scope: Scope, what: str) -> CheckedExpression:
    """Check an expression that gives one value for each row and has no name; `what` it is, for messages."""
    try:
        tree = parse(text, scope.names)
    except ExpressionError as error:
        return _failed(error)
    reading = ExpressionWalk(scope)
    if isinstance(tree, exp.Alias | exp.Aliases):
        reading.find(Reason.INVALID_EXPRESSION, f"{what} has no name; write {excerpt(text)} without AS")
        tree = tree.this
    reading.walk(tree)
    _refuse_aggregates(reading, f"{what} judges each row alone")
    if reading.generators:
        name = reading.generators[0].name.lower()
        reading.find(Reason.INVALID_EXPRESSION, f"{name} makes rows and can't stand in {what}; use it in a select step")
    return CheckedExpression(
        None, reading.type_of(tree), reading.source(tree), tuple(reading.findings), named=frozenset(reading.named)
    )


def check_select(texts: Iterable[str], scope: Scope) -> tuple[CheckedExpression, ...]:
    """Check the items of a `select`; a `*` becomes one `CheckedExpression` for each of its columns."""
    checked: list[CheckedExpression] = []
    generated: list[str] = []
    wrong = 0
    for text in texts:
        if (wrong := wrong + bool(checked and checked[-1].findings)) > MOST_FINDINGS:
            checked.append(CheckedExpression(None, UNKNOWN, None, ()))
            break
        plain = _plain_item(text, scope)
        if plain is not None:
            checked.append(plain)
            continue
        try:
            tree = parse(text, scope.names)
        except ExpressionError as error:
            checked.append(_failed(error))
            continue
        if _is_star(tree):
            checked.extend(_star(tree, scope))
        else:
            checked.append(_item(text, tree, scope, generated))
    return _with_duplicates(checked)


def check_compute(texts: Iterable[str], scope: Scope, by: tuple[str, ...]) -> tuple[CheckedExpression, ...]:
    """Check the items that an aggregate computes over rows with equal `by` columns."""
    return _with_duplicates([_computed(text, scope, by) for text in texts])


def _failed(error: ExpressionError) -> CheckedExpression:
    return CheckedExpression(None, UNKNOWN, None, error.findings)


def is_plain_item(text: str) -> bool:
    """Whether this is only a column, perhaps with an alias: such an item needs no parser."""
    match = PLAIN_ITEM.match(text)
    return match is not None and match[2].lower() not in LITERAL_WORDS | WITHOUT_BRACKETS


def _plain_item(text: str, scope: Scope) -> CheckedExpression | None:
    """Check an item that is only a column, without a parser: most items are, and graphs are large."""
    match = PLAIN_ITEM.match(text)
    if match is None or match[2].lower() in LITERAL_WORDS:
        return None
    side, name, alias = match.groups()
    resolved = scope.find((name,) if side is None else (side, name))
    if name.lower() in WITHOUT_BRACKETS and (isinstance(resolved, SqlFinding) or resolved.type == UNKNOWN):
        return None
    if isinstance(resolved, SqlFinding):
        return CheckedExpression(alias or name, UNKNOWN, None, (resolved,))
    return CheckedExpression(alias or name, resolved.type, resolved.source, (), named=_columns(resolved.source))


def _columns(source: ColumnSource | None) -> frozenset[ColumnSource]:
    return frozenset() if source is None else frozenset({source})


def _named(tree: exp.Expr) -> tuple[exp.Expr, str | None]:
    """The expression without its alias, and the name of its column."""
    if isinstance(tree, exp.Alias):
        return tree.this, tree.alias
    path = path_of(tree)
    return tree, path[-1] if path else None


def _item(text: str, tree: exp.Expr, scope: Scope, generated: list[str]) -> CheckedExpression:
    reading = ExpressionWalk(scope)
    if isinstance(tree, exp.Aliases):
        names = ", ".join(name.name for name in tree.expressions)
        reading.find(
            Reason.INVALID_EXPRESSION, f"{excerpt(text)} gives one column several names ({names}); give it one"
        )
        tree = tree.this
        value, name = tree, None
    else:
        value, name = _named(tree)
    reading.walk(value)
    _refuse_aggregates(reading, "a select looks at each row alone")
    kind = reading.type_of(value)
    if reading.generators:
        kind = _generated(value, reading, generated)
    if name is None and not reading.findings:
        reading.find(Reason.UNNAMED_COLUMN, f"{excerpt(text)} has no name; write {excerpt(text)} AS some_name")
    return CheckedExpression(
        name,
        kind,
        reading.source(value),
        tuple(reading.findings),
        bool(reading.generators),
        reading.struct_field(value),
        frozenset(reading.named),
    )


def _generated(value: exp.Expr, reading: ExpressionWalk, generated: list[str]) -> str:
    """The type of the column that `explode` produces."""
    names = [node.name.lower() for node in reading.generators]
    generated.extend(names)
    for name in names:
        if name not in EXPLODING:
            cure = OTHER_GENERATORS.get(name.removesuffix("_outer"), "use explode(array) AS x")
            reading.find(Reason.INVALID_EXPRESSION, f"{name} can't be used in a select; {cure}")
    if len(generated) > 1:
        message = f"{generated[0]} and {generated[1]} in one select; only one may make rows, so use two select steps"
        reading.find(Reason.INVALID_EXPRESSION, message)
    if value is not reading.generators[0]:
        message = f"{names[0]} must stand alone, as in {names[0]}(a) AS x; compute with x in the next step"
        reading.find(Reason.INVALID_EXPRESSION, message)
    if reading.findings or len(value.expressions) != 1:
        return UNKNOWN
    kind = reading.kind(value.expressions[0])
    if kind is not None and kind.word != "ARRAY":
        argument = value.expressions[0].sql("spark")
        cure = f"map_entries({excerpt(argument)})" if kind.word == "MAP" else "an array"
        message = f"{names[0]} makes rows of an array, but {excerpt(argument)} is {excerpt(str(kind))}; give it {cure}"
        reading.find(Reason.INVALID_EXPRESSION, message)
        return UNKNOWN
    return UNKNOWN if kind is None else str(kind.inner[0])


def _refuse_aggregates(reading: ExpressionWalk, why: str) -> None:
    for name in (*reading.aggregates, *reading.windows):
        message = f"{name} works over many rows, and {why}; use an aggregate step"
        reading.find(Reason.AGGREGATE_NOT_ALLOWED, message)


def _is_star(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Star) or (isinstance(tree, exp.Column) and isinstance(tree.this, exp.Star))


def _star(tree: exp.Expr, scope: Scope) -> list[CheckedExpression]:
    star = tree if isinstance(tree, exp.Star) else tree.this
    if star.args.get("replace") or star.args.get("rename") or star.args.get("ilike"):
        message = (
            "* takes only EXCEPT in Spark SQL; leave the column out with * EXCEPT (a) and write it as its own item"
        )
        return [CheckedExpression(None, UNKNOWN, None, (SqlFinding(Reason.INVALID_EXPRESSION, message),))]
    path = path_of(tree)
    side = scope.side(path[0]) if len(path) == 1 else None
    if path and side is None:
        columns, rest, problem = _fields(path, scope)
    else:
        columns, problem = scope.star(side[0] if side else ""), None
        rest = not (side[1].closed if side else scope.closed)
    left_out, findings = _left_out(
        star.args.get("except_") or (), [column.name for _, column in columns], closed=not rest
    )
    if problem is not None:
        findings.append(problem)
    holder = _columns(scope.column_of(path)) if path and side is None else frozenset()
    checked = [
        CheckedExpression(column.name, column.type, source, (), named=_columns(source) or holder)
        for source, column in columns
        if column.name.casefold() not in left_out
    ]
    if findings:
        checked.append(CheckedExpression(None, UNKNOWN, None, tuple(findings)))
    elif rest:
        checked.append(CheckedExpression(None, UNKNOWN, None, ()))
    return checked


def _fields(
    path: tuple[str, ...], scope: Scope
) -> tuple[tuple[tuple[ColumnSource | None, Column], ...], bool, SqlFinding | None]:
    """The columns of `struct.*`, whether there may be more, and a finding if it is invalid."""
    resolved = scope.find(path)
    if isinstance(resolved, SqlFinding):
        return (), False, resolved
    kind = parse_type(resolved.type)
    if kind is None:
        return (), True, None
    if kind.word != "STRUCT":
        written = excerpt(".".join(path))
        message = f"{written} is {excerpt(str(kind))} and has no fields, so there is no {written}.*"
        return (), False, SqlFinding(Reason.UNKNOWN_COLUMN, message)
    pairs = zip(kind.names, kind.inner, strict=True)
    return tuple((None, Column(name, str(inner))) for name, inner in pairs), False, None


def _left_out(
    excepted: Sequence[exp.Expr] | exp.Expr, names: Sequence[str], *, closed: bool
) -> tuple[set[str], list[SqlFinding]]:
    """The names that EXCEPT removes, and findings on them."""
    findings: list[SqlFinding] = []
    folded_names = {name.casefold() for name in names}
    left_out: set[str] = set()
    for item in excepted if isinstance(excepted, Sequence) else (excepted,):
        path = path_of(item)
        if len(path) != 1:
            message = f"EXCEPT takes names of columns, not {excerpt(item.sql('spark'))}"
            findings.append(SqlFinding(Reason.INVALID_EXPRESSION, message))
        elif path[0].casefold() not in folded_names and closed:
            message = f"EXCEPT names {excerpt(path[0])}, which is no column here{near_miss(path[0], names)}"
            findings.append(SqlFinding(Reason.UNKNOWN_COLUMN, f"{message} (columns: {listed(names)})"))
        left_out.add(path[-1].casefold() if path else "")
    return left_out, findings


def _computed(text: str, scope: Scope, by: tuple[str, ...]) -> CheckedExpression:
    try:
        tree = parse(text, scope.names)
    except ExpressionError as error:
        return _failed(error)
    reading = ExpressionWalk(scope)
    value, name = (tree.this, tree.alias) if isinstance(tree, exp.Alias) else (tree, None)
    reading.walk(value)
    if not reading.findings and not reading.nested:
        for call in aggregate_calls(value):
            _check_call(call, reading)
    for nested in reading.nested:
        message = f"{nested} can't be computed in one go; compute the inner one in an aggregate step of its own"
        reading.find(Reason.INVALID_EXPRESSION, message)
    for window in reading.windows:
        message = f"{window} works over a window of rows, which a stream does not have; use the aggregate's own window"
        reading.find(Reason.AGGREGATE_NOT_ALLOWED, message)
    for generator in reading.generators:
        message = f"{generator.name.lower()} makes rows and can't be computed here; use it in a select step before"
        reading.find(Reason.INVALID_EXPRESSION, message)
    grouped = {column.casefold() for column in by}
    for path in reading.loose:
        if path[0].casefold() not in grouped:
            written, column = excerpt(".".join(path)), excerpt(path[0])
            message = (
                f"{written} is neither aggregated nor in by ({listed(by) or 'which is empty'}); add {column} to by, "
                f"or write max({written}) or any_value({written})"
            )
            reading.find(Reason.AGGREGATE_MISSING, message)
    if name is None and not reading.findings:
        reading.find(Reason.UNNAMED_COLUMN, f"{excerpt(text)} has no name; write {excerpt(text)} AS some_name")
    return CheckedExpression(
        name,
        reading.type_of(value),
        reading.source(value),
        tuple(reading.findings),
        named=frozenset(reading.named),
        aggregated=frozenset(reading.aggregated),
    )


def _check_call(call: exp.Anonymous, reading: ExpressionWalk) -> None:
    try:
        findings: Iterable[SqlFinding] = argument_findings(read_call(call), call.name.lower(), reading.kind)
    except ExpressionError as error:
        findings = error.findings
    for finding in findings:
        reading.find(finding.reason, finding.message)


def _with_duplicates(checked: list[CheckedExpression]) -> tuple[CheckedExpression, ...]:
    """The same expressions, with a finding on every column whose name occurred before."""
    used_names: set[str] = set()
    for index, column in enumerate(checked):
        if column.name is None:
            continue
        folded = column.name.casefold()
        if folded in used_names:
            name = excerpt(column.name)
            message = f"two columns are named {name}; give one another name with AS, or leave it out with EXCEPT"
            finding = SqlFinding(Reason.DUPLICATE_COLUMN, message)
            checked[index] = replace(column, findings=(*column.findings, finding))
        used_names.add(folded)
    return tuple(checked)
