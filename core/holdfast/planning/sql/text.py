"""The parser of one Spark SQL expression: from a text of a spec to its tree, or to an error that says where it fails.

Functions keep the name the user wrote: sqlglot's own classes map several Spark functions to one and know some that
Spark does not have. Must not know columns, and must raise nothing but `ExpressionError`, whatever the text.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from holdfast.errors import UserActionError
from holdfast.planning.problems import ExpressionError, SqlFinding, excerpt
from holdfast.reasons import Reason

MAX_LENGTH = 20_000
MAX_DEPTH = 40
MAX_TYPE_DEPTH = 16
MAX_TOKEN = 1_000
"""Most characters of a number or of the text of an INTERVAL: sqlglot searches a unit at each of them."""
OWN_SYNTAX = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")
STATEMENTS = (TokenType.SELECT, TokenType.WITH)
CLOSES = {
    TokenType.L_PAREN: TokenType.R_PAREN,
    TokenType.L_BRACKET: TokenType.R_BRACKET,
    TokenType.L_BRACE: TokenType.R_BRACE,
}
NESTED_TYPES = SparkParser.NESTED_TYPE_TOKENS
BEHIND_A_VALUE = (TokenType.DOT, TokenType.DCOLON)
HANGING = (*CLOSES, TokenType.COMMA)

SPARK = Dialect.get_or_raise("spark")


class _ExpressionParser(SparkParser):
    """Spark's syntax with all functions parsed alike, except those with a special grammar inside the brackets."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {name: SparkParser.FUNCTION_PARSERS[name] for name in OWN_SYNTAX}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    # The arrows into JSON are not Spark's, and sqlglot logs warnings about paths it does not understand.
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {sign: SparkParser.COLUMN_OPERATORS[sign] for sign in BEHIND_A_VALUE}

    def _parse_types(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        # struct( and decimal( in a value are calls. Trying them as types first doubles the time per nesting level.
        if named.get("check_func") and self._next.token_type == TokenType.L_PAREN:
            return None
        return super()._parse_types(*arguments, **named)


try:
    _ExpressionParser(dialect=SPARK)
except TypeError as error:
    _MESSAGE = "sqlglot is installed in its compiled form, which can't be extended; uninstall the package sqlglotc"
    raise UserActionError(_MESSAGE) from error


def parse(text: str, columns: Sequence[str] = ()) -> exp.Expr:
    """Return the tree of the one expression in the text. `columns` are only for a better message."""
    if not text.strip():
        _refuse("the expression is empty")
    if len(text) > MAX_LENGTH:
        _refuse(f"an expression is {len(text)} characters long; at most {MAX_LENGTH} are read")
    tokens = _tokens(text)
    _check_brackets(text, tokens)
    _check_types(text, tokens)
    parser = _ExpressionParser(error_level=ErrorLevel.IMMEDIATE, dialect=SPARK)
    try:
        trees = parser.parse_into(exp.Expr, tokens, text)
    except ParseError as error:
        _refuse(_syntax_message(text, tokens, error, columns))
    except RecursionError:
        _refuse(f"{excerpt(text)} is nested too deeply to be read")
    except (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Some texts crash the parser instead of being refused by it, and a plan must survive every text.
        _refuse(f"{excerpt(text)} is not a Spark SQL expression ({type(error).__name__} while reading it)")
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        _refuse(f"{excerpt(text)} is not one Spark SQL expression")
    return tree


def _refuse(message: str) -> NoReturn:
    raise ExpressionError(SqlFinding(Reason.INVALID_EXPRESSION, message)) from None


def _tokens(text: str) -> list[Token]:
    try:
        tokens = SPARK.tokenize(text)
    except (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        _refuse(f"{excerpt(text)} can't be cut into words; is a quote or comment left open?")
    if not tokens:
        _refuse(f"{excerpt(text)} holds nothing but a comment")
    for before, token in zip((None, *tokens), tokens, strict=False):
        long = token.token_type == TokenType.NUMBER or (before and before.token_type == TokenType.INTERVAL)
        if long and len(token.text) > MAX_TOKEN:
            _refuse(f"{excerpt(text)} has a number of {len(token.text)} letters; at most {MAX_TOKEN} are read")
        if token.token_type == TokenType.SEMICOLON:
            _refuse(f"{excerpt(text)} has a ; at character {token.start + 1}; write one expression without ;")
    if tokens[0].token_type in STATEMENTS and len(tokens) > 1 and tokens[1].token_type != TokenType.L_PAREN:
        _refuse(f"{excerpt(text)} is a statement; write only an expression, like user IS NOT NULL")
    return tokens


def _check_brackets(text: str, tokens: list[Token]) -> None:
    """Refuse what sqlglot overlooks (an extra comma) or explains badly (brackets that don't match)."""
    opened: list[Token] = []
    before: Token | None = None
    for token in tokens:
        closes = token.token_type in CLOSES.values()
        if token.token_type in CLOSES:
            opened.append(token)
        elif closes and (not opened or CLOSES[opened.pop().token_type] != token.token_type):
            _refuse(f"in {excerpt(text)} the {token.text} at character {token.start + 1} closes nothing")
        elif closes and before is not None and before.token_type == TokenType.COMMA:
            _refuse(f"in {excerpt(text)} the comma at character {before.start + 1} is one too many")
        elif token.token_type == TokenType.COMMA and (before is None or before.token_type in HANGING):
            _refuse(f"in {excerpt(text)} the comma at character {token.start + 1} is one too many")
        if len(opened) > MAX_DEPTH:
            _refuse(f"{excerpt(text)} nests brackets deeper than {MAX_DEPTH} levels")
        before = token
    if opened:
        last = opened[-1]
        _refuse(f"in {excerpt(text)} the {last.text} at character {last.start + 1} is never closed")


def _check_types(text: str, tokens: list[Token]) -> None:
    """Refuse deeply nested types, which sqlglot parses once more at each level, and types in round brackets.

    sqlglot takes `ARRAY(INT)` for a type, Spark does not.
    """
    depth = 0
    kinds = [None, *(token.token_type for token in tokens)]
    for index, (outer, sign, named, bracket) in enumerate(zip(kinds, kinds[1:], kinds[2:], kinds[3:], strict=False)):
        within = sign == TokenType.ALIAS or (sign == TokenType.LT and outer in NESTED_TYPES)
        if within and named in NESTED_TYPES and bracket == TokenType.L_PAREN:
            _refuse(
                f"{excerpt(text)} has a type in round brackets at character {tokens[index + 1].start + 1}; Spark "
                f"writes types like ARRAY<INT>, MAP<STRING, INT> and STRUCT<a: INT>"
            )
    for before, token in pairwise(tokens):
        if token.token_type == TokenType.LT and before.token_type in NESTED_TYPES:
            depth += 1
        elif token.token_type == TokenType.GT:
            depth = max(depth - 1, 0)
        if depth > MAX_TYPE_DEPTH:
            _refuse(f"{excerpt(text)} nests types deeper than {MAX_TYPE_DEPTH} levels")


def _syntax_message(text: str, tokens: list[Token], error: ParseError, columns: Sequence[str]) -> str:
    """Where parsing fails, and what to do if the cause is a column named like an SQL keyword."""
    details = error.errors[0] if error.errors else {}
    indices = [
        index
        for index, token in enumerate(tokens)
        if (token.line, token.col) == (details.get("line"), details.get("col"))
    ]
    index = indices[0] if indices else len(tokens) - 1
    end = "its end, at " if index and index == len(tokens) - 1 else ""
    fault = f"{end}{excerpt(tokens[index].text)} (character {tokens[index].start + 1})"
    message = f"{excerpt(text)} is not a Spark SQL expression: it goes wrong at {fault}"
    folded_columns = {name.casefold() for name in columns}
    for token in tokens[max(index - 1, 0) : index + 1]:
        if token.token_type not in (TokenType.VAR, TokenType.IDENTIFIER) and token.text.casefold() in folded_columns:
            return f"{message}; the column {token.text} is named like a word of SQL, so write `{token.text}`"
    return message
