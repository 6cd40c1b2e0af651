"""The walk over the tree of an expression that resolves names, derives the types of nodes and finds what is wrong.

Without recursion, so that long chains of AND can't exhaust the stack. Must not decide what a step may contain: it
collects aggregates and generators, and `expressions` checks them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from sqlglot import exp

from holdfast.planning.problems import SqlFinding, excerpt
from holdfast.planning.sql import functions
from holdfast.planning.sql.scope import ColumnSource, ResolvedName, Scope, no_field
from holdfast.planning.types.collection_types import Call, lambda_kinds
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.function_types import result
from holdfast.planning.types.operator_types import RULES, UNTYPED, cast_type, field_of
from holdfast.planning.types.spark_types import TIMES, UNKNOWN, SparkType
from holdfast.reasons import Reason
from holdfast.suggest import near_miss

ENCRYPT_ARGUMENTS = 5
MOST_FINDINGS = 10
"""Most findings of one expression; the rest is checked once these are fixed."""
MOST_TYPE = 16_384
"""Most characters of a computed type, as many as a schema may have; a longer type is unknown. Each step that uses a
column twice in one value doubles its type."""
UNIT_ARGUMENTS = 3
CLAUSES: dict[type[exp.Expr], str] = {exp.Where: "FILTER", exp.Order: "ORDER BY"}
STARRED = frozenset(
    {
        "array", "coalesce", "concat", "concat_ws", "count", "greatest", "hash", "least", "map", "md5", "named_struct",
        "struct", "to_json", "xxhash64",
    }
)  # fmt: skip
"""Functions that take `*` as an argument."""


@dataclass(slots=True)
class ExpressionWalk:
    """One walk over an expression, and what it has found."""

    scope: Scope
    findings: list[SqlFinding] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    windows: list[str] = field(default_factory=list)
    generators: list[exp.Expr] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    loose: list[tuple[str, ...]] = field(default_factory=list)
    """The names outside of every aggregate."""
    named: set[ColumnSource] = field(default_factory=set)
    """The columns that it takes values of, outside of every aggregate."""
    aggregated: set[ColumnSource] = field(default_factory=set)
    """Those inside of one."""

    _kinds: dict[int, SparkType | None] = field(default_factory=dict)
    _sources: dict[int, ColumnSource] = field(default_factory=dict)
    _fields: dict[int, ColumnSource] = field(default_factory=dict)
    _variables: list[dict[str, SparkType | None]] = field(default_factory=list)
    _inside: list[str] = field(default_factory=list)

    def kind(self, node: object) -> SparkType | None:
        """The type of a visited node; None if unknown."""
        return self._kinds.get(id(node))

    def type_of(self, node: exp.Expr) -> str:
        """The type of a node in Spark's spelling, or `UNKNOWN`."""
        kind = self.kind(node)
        return UNKNOWN if kind is None else str(kind)

    def source(self, node: exp.Expr) -> ColumnSource | None:
        """The source of a node that is only a column; otherwise None."""
        return self._sources.get(id(node))

    def struct_field(self, node: exp.Expr) -> ColumnSource | None:
        """The side and path of a node that is only a field of structs; otherwise None."""
        return self._fields.get(id(node))

    def walk(self, root: exp.Expr) -> None:
        """Visit the whole tree: a node is entered before its children and left after them."""
        todo: list[tuple[exp.Expr, bool]] = [(root, False)]
        while todo and len(self.findings) < MOST_FINDINGS:
            node, entered = todo.pop()
            if entered:
                self._leave(node)
            else:
                children = self._enter(node)
                if children is not None:
                    todo.append((node, True))
                    todo.extend((child, False) for child in reversed(children))

    def find(self, reason: Reason, message: str) -> None:
        """Add a finding."""
        finding = SqlFinding(reason, message)
        if finding not in self.findings:
            self.findings.append(finding)

    def _enter(self, node: exp.Expr) -> list[exp.Expr] | None:
        """The children to visit, or None if the node is done."""
        handle = self._ENTERING.get(type(node))
        if handle is not None:
            return handle(self, node)
        if isinstance(node, exp.Query):
            self._query(node)
        elif type(node) in RULES or isinstance(node, UNTYPED):
            return list(node.iter_expressions())
        else:
            words = type(node).key.replace("_", " ")
            self.find(Reason.INVALID_EXPRESSION, f"Spark SQL has no expression like this ({words} in it)")
        return None

    def _leave(self, node: exp.Expr) -> None:
        kind: SparkType | None = None
        match node:
            case exp.Anonymous():
                name = node.name.lower()
                kind = result(name, self._arguments(node))
                if functions.kinds().get(name) == functions.AGGREGATE:
                    self._inside.pop()
            case exp.Where() | exp.Order():
                self._inside.pop()
            case exp.Lambda():
                self._variables.pop()
                kind = self.kind(node.this)
            case exp.Distinct() if len(node.expressions) == 1:
                kind = self.kind(node.expressions[0])
            case exp.Dot():
                holder, name = self.kind(node.this), node.expression.name
                kind = field_of(holder, name)
                if holder is not None and kind is None:
                    self.findings.append(no_field(node.this.sql("spark"), holder, name))
            case _:
                rule = RULES.get(type(node))
                kind = rule(node, self.kind) if rule else None
                if isinstance(node, exp.Paren) and (source := self._sources.get(id(node.this))):
                    self._sources[id(node)] = source
        self._kinds[id(node)] = None if kind is not None and kind.length > MOST_TYPE else kind

    def _arguments(self, node: exp.Expr) -> Call:
        return Call(node.expressions, tuple(self.kind(argument) for argument in node.expressions))

    def _leaf(self, node: exp.Expr) -> None:
        self._leave(node)

    def _names(self, node: exp.Expr) -> None:
        self._name(node, path_of(node))

    def _dot(self, node: exp.Expr) -> list[exp.Expr] | None:
        if path := path_of(node):
            self._name(node, path)
        elif isinstance(node.expression, exp.Identifier):
            return [node.this]
        else:
            name = excerpt(".".join(part.name for part in node.flatten()))
            message = f"there is no function {name}; only Spark's own functions are there"
            self.find(Reason.INVALID_EXPRESSION, message)
        return None

    def _window(self, node: exp.Expr) -> None:
        self.windows.append(f"{_called(node.this)} OVER")

    def _query(self, _: exp.Expr) -> None:
        message = "a query inside an expression is not possible; read the other rows with a join or lookup step"
        self.find(Reason.SUBQUERY_NOT_ALLOWED, message)

    def _in(self, node: exp.Expr) -> list[exp.Expr] | None:
        if not node.expressions and not node.args.get("query"):
            self.find(Reason.INVALID_EXPRESSION, "IN needs its values in brackets, as in IN (1, 2)")
            return None
        return list(node.iter_expressions())

    def _alias(self, node: exp.Expr) -> list[exp.Expr]:
        """An alias inside an expression, which only a field of a struct may have."""
        parent = node.parent
        if not isinstance(parent, exp.Tuple) and not (
            isinstance(parent, exp.Anonymous) and parent.name.lower() == "struct"
        ):
            message = f"{excerpt(node.alias)} names a part of an expression; put AS at the end, for the whole of it"
            self.find(Reason.INVALID_EXPRESSION, message)
        return [node.this]

    def _clause(self, node: exp.Expr) -> list[exp.Expr]:
        # The clauses by which an aggregate filters or sorts belong to it, although they are outside its brackets.
        self._inside.append(CLAUSES[type(node)])
        return list(node.iter_expressions())

    def _name(self, node: exp.Expr, path: tuple[str, ...]) -> None:
        for variables in reversed(self._variables):
            if path[0].casefold() in variables:
                self._kinds[id(node)] = self._variable(path, variables[path[0].casefold()])
                return
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            message = f"{excerpt('.'.join(path))}.* stands for several columns; name the one that is meant"
            self.find(Reason.INVALID_EXPRESSION, message)
            return
        resolved = self.scope.find(path)
        if len(path) == 1 and self._is_call_without_brackets(path[0], resolved):
            self._unrepeatable(path[0].lower())
            return
        if isinstance(resolved, SqlFinding):
            if resolved not in self.findings:
                self.findings.append(resolved)
            return
        self._kinds[id(node)] = parse_type(resolved.type)
        if resolved.source is not None:
            self._sources[id(node)] = resolved.source
        if resolved.field is not None:
            self._fields[id(node)] = resolved.field
        column = resolved.source or self.scope.column_of(path)
        self._take(() if column is None else (column,))
        if not self._inside:
            self.loose.append(path)

    def _take(self, columns: Iterable[ColumnSource]) -> None:
        (self.aggregated if self._inside else self.named).update(columns)

    def _is_call_without_brackets(self, name: str, resolved: ResolvedName | SqlFinding) -> bool:
        """Whether the name is a function like current_date: columns go first, and an undeclared one may be `user`."""
        if name.lower() not in functions.WITHOUT_BRACKETS:
            return False
        if isinstance(resolved, SqlFinding):
            return True
        declared = name.casefold() in self.scope.folded
        return resolved.type == UNKNOWN and not declared and name.lower() != "user"

    def _variable(self, path: tuple[str, ...], kind: SparkType | None) -> SparkType | None:
        prefix = path[0]
        for name in path[1:]:
            inner = field_of(kind, name)
            if kind is not None and inner is None:
                self.findings.append(no_field(prefix, kind, name))
            kind, prefix = inner, f"{prefix}.{name}"
        return kind

    def _call(self, node: exp.Expr) -> list[exp.Expr] | None:
        name = node.name.lower()
        kind = functions.kinds().get(name)
        if kind is None or kind == functions.TABLE:
            near = near_miss(name, functions.kinds())
            self.find(Reason.INVALID_EXPRESSION, f"there is no function {excerpt(name)} in Spark SQL{near}")
            return list(node.expressions)
        if name in functions.ELSEWHERE:
            self.find(Reason.INVALID_EXPRESSION, f"{name} has no place in an expression: {functions.ELSEWHERE[name]}")
            return None
        self._check_repeatable(name, node)
        if kind == functions.AGGREGATE:
            self.aggregates.append(name)
            if self._inside:
                self.nested.append(f"{name} inside {self._inside[-1]}")
            self._inside.append(name)
        elif kind == functions.WINDOW:
            self.windows.append(name)
        elif kind == functions.GENERATOR:
            self.generators.append(node)
        if name in functions.UNIT_FIRST and len(node.expressions) == UNIT_ARGUMENTS:
            return list(node.expressions[1:])
        return list(node.expressions)

    def _check_repeatable(self, name: str, node: exp.Expr) -> None:
        arguments = node.expressions
        if name in functions.UNREPEATABLE or (name == functions.CLOCK_WITHOUT_ARGUMENTS and not arguments):
            self._unrepeatable(name)
        elif name == "aes_encrypt" and len(arguments) < ENCRYPT_ARGUMENTS:
            mode = (self._arguments(node).text(2) or "").upper()
            if mode != "ECB":
                self.find(Reason.NOT_DETERMINISTIC, f"{name} {functions.RANDOM_START}")

    def _unrepeatable(self, name: str) -> None:
        why = functions.UNREPEATABLE.get(name, functions.CLOCK)
        self.find(Reason.NOT_DETERMINISTIC, f"{name} {why}")

    def _lambda(self, node: exp.Expr) -> list[exp.Expr]:
        names = [variable.name.casefold() for variable in node.expressions]
        kinds: tuple[SparkType | None, ...] = ()
        parent = node.parent
        if isinstance(parent, exp.Anonymous) and node.arg_key == "expressions":
            kinds = lambda_kinds(parent.name.lower(), self._arguments(parent), node.index or 0)
        self._variables.append({name: kinds[index] if index < len(kinds) else None for index, name in enumerate(names)})
        return [node.this]

    def _cast(self, node: exp.Expr) -> list[exp.Expr]:
        value, to = node.this, cast_type(node)
        if to in TIMES and isinstance(value, exp.Literal) and str(value.this).strip().lower() in functions.CLOCK_WORDS:
            self.find(Reason.NOT_DETERMINISTIC, f"{to} '{str(value.this).strip()}' {functions.CLOCK_LITERAL}")
        return [value]

    def _interval(self, node: exp.Expr) -> None:
        amount = node.this.this if isinstance(node.this, exp.Neg | exp.Paren) else node.this
        if amount is not None and not isinstance(amount, exp.Literal):
            written = excerpt(amount.sql("spark"))
            message = f"INTERVAL takes a number as it is, not {written}; write INTERVAL 1 DAY * {written}"
            self.find(Reason.INVALID_EXPRESSION, message)
        self._leave(node)

    def _star(self, node: exp.Expr) -> None:
        parent = node.parent
        if not isinstance(parent, exp.Anonymous) or parent.name.lower() not in STARRED:
            self.find(Reason.INVALID_EXPRESSION, "* stands for several columns; name the one that is meant")
        elif parent.name.lower() != "count":
            self._take(source for source, _ in self.scope.star())

    _ENTERING: ClassVar[dict[type[exp.Expr], Callable[["ExpressionWalk", exp.Expr], list[exp.Expr] | None]]] = {
        **dict.fromkeys((exp.Boolean, exp.Literal, exp.Null, exp.Var), _leaf),
        **dict.fromkeys((exp.Column, exp.Identifier), _names),
        **dict.fromkeys((exp.Exists, exp.Subquery), _query),
        **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
        **dict.fromkeys(CLAUSES, _clause),
        exp.Dot: _dot,
        exp.Window: _window,
        exp.Anonymous: _call,
        exp.Lambda: _lambda,
        exp.Interval: _interval,
        exp.Star: _star,
        exp.In: _in,
        exp.Distinct: lambda _, node: list(node.expressions),
        exp.Kwarg: lambda _, node: [node.expression],
        exp.Alias: _alias,
    }


def path_of(node: exp.Expr) -> tuple[str, ...]:
    """Return the names of `a.b.c`; empty if the node is anything else."""
    parts: list[str] = []
    while isinstance(node, exp.Dot):
        if not isinstance(node.expression, exp.Identifier):
            return ()
        parts.append(node.expression.name)
        node = node.this
    if isinstance(node, exp.Identifier):
        parts.append(node.name)
    elif isinstance(node, exp.Column):
        parts.extend(part.name for part in reversed(node.parts) if isinstance(part, exp.Identifier))
    else:
        return ()
    return tuple(reversed(parts))


def _called(node: exp.Expr) -> str:
    calls: Iterator[exp.Anonymous] = node.find_all(exp.Anonymous)
    return next((call.name.lower() for call in calls), "a function")
