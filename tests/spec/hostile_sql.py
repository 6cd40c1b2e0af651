"""SQL and schemas that somebody wrote to keep a parser busy: chains, nests, lists, casts, quotes, and noise.

Each trick makes a text of about the length it is asked for. Must not know where in a spec the text will stand.
"""

from collections.abc import Callable
from random import Random

Trick = Callable[[int], str]
"""Length -> text."""


def _chain(piece: str, start: str = "a") -> Trick:
    return lambda length: start + piece * ((length - len(start)) // len(piece))


def _nest(opening: str, closing: str, core: str = "a") -> Trick:
    def nested(length: int) -> str:
        levels = max((length - len(core)) // (len(opening) + len(closing)), 1)
        return opening * levels + core + closing * levels

    return nested


def _shallow(opening: str, closing: str, levels: int, around: str = "{}", core: str = "a") -> Trick:
    """The same nest of bearable depth, again and again."""

    def many(length: int) -> str:
        nest = around.format(opening * levels + core + closing * levels)
        return " + ".join([nest] * max(length // (len(nest) + 3), 1))

    return many


CHAINS: dict[str, Trick] = {
    **{
        f"a chain of {sign.strip()}": _chain(f"{sign}a")
        for sign in (
            "+", "-", "*", "/", "%", "||", " AND ", " OR ", " = ", " < ", " <=> ", " & ", " | ", " ^ ", " DIV ",
            " LIKE ", " RLIKE ", " IS DISTINCT FROM ", " -> ", " => ", " := ", ".", ":", "?", " COLLATE ", " XOR ",
        )
    },
    "a chain of indexes": _chain("[0]"),
    "a chain of casts": _chain("::INT"),
    "a chain of IS NULL": _chain(" IS NULL"),
    "a chain of IS NOT NULL": _chain(" IS NOT NULL"),
    "a chain of BETWEEN": _chain(" BETWEEN a AND a"),
    "a chain of NOT BETWEEN": _chain(" NOT BETWEEN a AND a"),
    "a chain of IN": _chain(" IN (1)"),
    "a chain of time zones": _chain(" AT TIME ZONE 'UTC'"),
    "a chain of aliases": _chain(" AS a"),
    "a chain of intervals": _chain(" + INTERVAL 1 DAY"),
    "a chain of interval words": _chain(" INTERVAL", start="INTERVAL 1 DAY"),
    "a chain of OVER": _chain(" OVER ()", start="sum(a)"),
    "a chain of FILTER": _chain(" FILTER (WHERE a)", start="sum(a)"),
    "a chain of ESCAPE": _chain(" LIKE a ESCAPE a"),
    "a chain of NOT": lambda length: "NOT " * (length // 4) + "a",
    "a chain of minus": lambda length: "- " * (length // 2) + "a",
    "a chain of plus": lambda length: "+" * length + "a",
    "a chain of tilde": lambda length: "~" * length + "a",
    "a chain of bang": lambda length: "!" * length + "a",
    "a chain of lambdas": lambda length: "x -> " * (length // 5) + "x",
    "a chain of DATE": lambda length: "DATE " * (length // 5) + "'2020-01-01'",
    "a chain of types": lambda length: "ARRAY " * (length // 6),
    "a chain of UNION": _chain(" UNION SELECT 1", start="SELECT 1"),
    "a chain of SELECT": lambda length: "SELECT " * (length // 7),
    "a chain of WITH": lambda length: "WITH a AS " * (length // 10),
    "a chain of CASE": lambda length: "CASE " * (length // 5),
    "a chain of hints": lambda length: "/*+ a(b) */ " * (length // 12) + "a",
    "a chain of comments": lambda length: "/**/" * (length // 4) + "a",
    "a chain of line comments": lambda length: "--\n" * (length // 3) + "a",
    "a chain of strings": lambda length: "'a' " * (length // 4),
    "a chain of semicolons": lambda length: "a;" * (length // 2),
}  # fmt: skip

NESTS: dict[str, Trick] = {
    "nested brackets": _nest("(", ")"),
    "nested square brackets": _nest("[", "]"),
    "nested braces": _nest("{", "}"),
    "nested calls": _nest("abs(", ")"),
    "nested unknown calls": _nest("f(a,", ")"),
    "nested arrays": _nest("array(", ")"),
    "nested structs": _nest("struct(", ")"),
    "nested maps": _nest("map(a,", ")"),
    "nested CASE": _nest("CASE WHEN a THEN ", " END"),
    "nested CASE conditions": _nest("CASE WHEN ", " THEN a END"),
    "nested CASE operands": _nest("CASE ", " WHEN a THEN a END"),
    "nested IF": _nest("IF(a, a, ", ")"),
    "nested CAST": _nest("CAST(", " AS INT)"),
    "nested TRY_CAST": _nest("TRY_CAST(", " AS INT)"),
    "nested EXTRACT": _nest("EXTRACT(YEAR FROM ", ")"),
    "nested TRIM": _nest("TRIM(BOTH FROM ", ")"),
    "nested SUBSTRING": _nest("SUBSTRING(", " FROM 1 FOR 2)"),
    "nested POSITION": _nest("POSITION(a IN ", ")"),
    "nested OVERLAY": _nest("OVERLAY(a PLACING ", " FROM 1)"),
    "nested lambdas": _nest("transform(a, x -> ", ")", "x"),
    "nested lambdas of two": _nest("aggregate(a, 0, (x, y) -> ", ")", "x"),
    "nested subqueries": _nest("(SELECT ", ")"),
    "nested EXISTS": _nest("EXISTS (SELECT ", ")"),
    "nested IN": _nest("a IN (", ")"),
    "nested IN queries": _nest("a IN (SELECT ", ")"),
    "nested FROM": _nest("(SELECT a FROM ", ")"),
    "nested VALUES": _nest("(VALUES (", "))"),
    "nested BETWEEN": _nest("a BETWEEN (", ") AND a"),
    "nested tuples": _nest("(a, ", ")"),
    "nested NOT brackets": _nest("NOT (", ")"),
    "nested minus brackets": _nest("-(", ")"),
    "nested aliases": _nest("struct(", " AS a)"),
    "nested intervals": _nest("INTERVAL (", ") DAY"),
    "nested named arguments": _nest("f(a => ", ")"),
    "nested OVER": _nest("sum(a) OVER (PARTITION BY ", ")"),
    "nested indexes": _nest("a[", "]"),
    "nested comments": _nest("/*", "*/"),
    "nested jinja": _nest("{{", "}}"),
    "nested jinja blocks": _nest("{%", "%}"),
    "types nested in CAST": lambda length: f"CAST(a AS {_nest('ARRAY<', '>', 'INT')(length - 12)})",
    "structs nested in CAST": lambda length: f"CAST(a AS {_nest('STRUCT<a: ', '>', 'INT')(length - 12)})",
    "bare structs nested in CAST": lambda length: f"CAST(a AS {_nest('STRUCT<', '>', 'INT')(length - 12)})",
    "maps nested in CAST": lambda length: f"CAST(a AS {_nest('MAP<INT,', '>', 'INT')(length - 12)})",
    "round types nested in CAST": lambda length: f"CAST(a AS {_nest('ARRAY(', ')', 'INT')(length - 12)})",
    "types nested behind colons": lambda length: f"a::{_nest('ARRAY<', '>', 'INT')(length - 3)}",
    "bare types": _nest("ARRAY<", ">", "INT"),
    "open types": lambda length: "a < ARRAY<" * (length // 10) + "a",
    "open round types": lambda length: "ARRAY<DECIMAL(" * (length // 14),
    "from_json of a nested schema": lambda length: f"from_json(a, 'a {_nest('ARRAY<', '>', 'INT')(length - 20)}')",
}
for _levels in (8, 20, 38):
    NESTS |= {
        f"{_levels} brackets each": _shallow("(", ")", _levels),
        f"{_levels} calls each": _shallow("abs(", ")", _levels),
        f"{_levels} maps each": _shallow("map(a, ", ")", _levels),
        f"{_levels} CASE each": _shallow("CASE WHEN a THEN ", " END", _levels),
        f"{_levels} CAST each": _shallow("CAST(", " AS INT)", _levels),
        f"{_levels} types in each CAST": _shallow("ARRAY<", ">", _levels, "CAST(a AS {})", "INT"),
        f"{_levels} structs in each CAST": _shallow("STRUCT<a: ", ">", _levels, "CAST(a AS {})", "INT"),
        f"{_levels} lambdas each": _shallow("transform(a, x -> ", ")", _levels, core="x"),
        f"{_levels} bracketed lambdas each": _shallow("f((x, y) -> ", ")", _levels, core="x"),
        f"{_levels} NOT each": _shallow("NOT ", "", _levels, "({})"),
        f"{_levels} INTERVAL each": _shallow("INTERVAL (", ") DAY", _levels),
        f"{_levels} IN each": _shallow("a IN (", ")", _levels, "({})"),
        f"{_levels} subqueries each": _shallow("(SELECT ", ")", _levels),
        f"{_levels} indexes each": _shallow("a[", "]", _levels),
        f"{_levels} types compared": _shallow("ARRAY<", ">", _levels, "(a < {})", "INT"),
    }

LISTS: dict[str, Trick] = {
    "a long IN": lambda length: f"a IN ({', '.join(['1'] * (length // 3 - 3))})",
    "a long call": lambda length: f"coalesce({', '.join(['a'] * (length // 3 - 4))})",
    "a long struct": lambda length: f"struct({', '.join(f'a AS f{n}' for n in range(length // 13))})",
    "a long array": lambda length: f"array({', '.join(f'{n}' for n in range(length // 7))})",
    "a long map": lambda length: f"map({', '.join(f'{n}' for n in range(length // 14 * 2))})",
    "a long CASE": lambda length: f"CASE {'WHEN a THEN a ' * (length // 14 - 1)}END",
    "many casts": _shallow("", "", 0, "CAST(a AS INT)"),
    "many struct casts": _shallow("", "", 0, f"CAST(a AS STRUCT<{', '.join(f'f{n}: INT' for n in range(50))}>)"),
    "many comparisons of types": _chain(" < ARRAY < a"),
    "many unknown columns": lambda length: " + ".join(f"u{n}" for n in range(length // 9)),
    "many unknown functions": lambda length: " + ".join(f"f{n}(a)" for n in range(length // 12)),
    "many misnamed functions": lambda length: " + ".join(f"coalesc{n}(a)" for n in range(length // 18)),
    "many aggregates": lambda length: " + ".join(["sum(a)"] * (length // 9)),
    "many windows": lambda length: " + ".join(["sum(a) OVER (PARTITION BY a ORDER BY a)"] * (length // 42)),
    "many generators": lambda length: " + ".join(["explode(a)"] * (length // 13)),
    "many lambdas": lambda length: " + ".join(["transform(a, x -> x)"] * (length // 23)),
    "a lambda of many": lambda length: f"transform(a, ({', '.join(f'x{n}' for n in range(length // 8))}) -> 1)",
    "many exceptions": lambda length: f"* EXCEPT ({', '.join(f'x{n}' for n in range(length // 8))})",
    "a wide struct taken apart": lambda length: f"struct({', '.join(f'a AS f{n}' for n in range(length // 14))}).zzz",
    "many intervals": lambda length: " + ".join(["INTERVAL 1 DAY"] * (length // 17)),
    "a long schema in from_json": lambda length: (
        f"from_json(a, '{', '.join(f'c{n} INT' for n in range(length // 12))}')"
    ),
}

LONG: dict[str, Trick] = {
    "a long name": lambda length: "x" * length,
    "a long quoted name": lambda length: f"`{'`` ' * ((length - 2) // 3)}`",
    "a long path": _chain(".x"),
    "a long string": lambda length: f"'{'x' * (length - 2)}'",
    "a long string of quotes": lambda length: "'" * (length // 2 * 2),
    "a long string of escapes": lambda length: "'" + "\\'" * ((length - 2) // 2) + "'",
    "a long number": lambda length: "9" * length,
    "a long fraction": lambda length: f"0.{'1' * (length - 2)}",
    "a huge exponent": lambda length: "1e" + "9" * (length - 2),
    "a long hex": lambda length: "x'" + "f" * (length - 3) + "'",
    "a long hex number": lambda length: "0x" + "f" * (length - 2),
    "a huge decimal": lambda length: f"CAST(a AS DECIMAL({'9' * (length - 20)}, 2))",
    "a huge interval": lambda length: f"INTERVAL '{'9' * (length - 20)}' DAY",
    "a huge index": lambda length: f"a[{'9' * (length - 3)}]",
    "an open string": lambda length: "'" + "x" * (length - 1),
    "an open name": lambda length: "`" + "x" * (length - 1),
    "an open comment": lambda length: "/*" + "x" * (length - 2),
    "open comments": lambda length: "/*" * (length // 2),
    "an open dollar quote": lambda length: "$$" + "x" * (length - 2),
    "dollar quotes": lambda length: "$a$ $b$ " * (length // 8),
    "an open raw string": lambda length: "r'" + "x" * (length - 2),
    "prefixes of strings": lambda length: "r'b'x'n'" * (length // 8),
    "backslashes": lambda length: "\\" * length,
    "spaces": lambda length: " " * length,
    "newlines": lambda length: "\n" * (length - 1) + "a",
    "dots": lambda length: "." * length,
    "commas": lambda length: "," * length,
    "question marks": lambda length: "?" * length,
    "colons": lambda length: "a" + ":" * length,
    "at signs": lambda length: "@" * length,
    "less-than signs": lambda length: "a" + "<" * length,
    "greater-than signs": lambda length: "a" + ">" * length,
    "opened brackets": lambda length: "(" * length,
    "closed brackets": lambda length: ")" * length,
    "opened braces": lambda length: "{" * length,
    "opened jinja": lambda length: "{{{%{#" * (length // 6),
    "half a pair": lambda length: "\ud800" * length,
    "zero letters": lambda length: "\x00" * length,
    "wide letters": lambda length: "\U0001f600" * length,
    "letters that turn around": lambda length: "\u202ea" * (length // 2),
    "letters that grow": lambda length: "\ufb03\u0130" * (length // 2),
    "combined letters": lambda length: "a" + "\u0301" * (length - 1),
    "unicode spaces": lambda length: "a\u2003+\u00a0" * (length // 4) + "a",
}

_WORDS = tuple(
    """
    a b k x y left right 1 2.5 'a' `a` NULL TRUE ( ( ( ) ) ) [ ] { } < > <= => -> := :: : . , , + - * / % || AND OR NOT
    IN BETWEEN LIKE IS CASE WHEN THEN ELSE END CAST TRY_CAST AS ARRAY MAP STRUCT INT DECIMAL INTERVAL DAY SELECT FROM
    WHERE WITH UNION VALUES EXISTS OVER PARTITION BY ORDER FILTER EXTRACT TRIM POSITION SUBSTRING OVERLAY FOR DATE
    TIMESTAMP sum count abs transform explode struct map array coalesce ; ? @ # $ ~ ! ^ & | \\ -- /* */ /*+ {{ }} {%
    ESCAPE COLLATE AT TIME ZONE DISTINCT EXCEPT LATERAL VIEW PIVOT TABLESAMPLE QUALIFY WINDOW RANGE ROWS USING
    """.split()  # noqa: SIM905
)


def noise(chance: Random, length: int) -> str:
    """Words of SQL in any order."""
    return " ".join(chance.choices(_WORDS, k=max(length // 5, 1)))[:length]


EXPRESSIONS: dict[str, Trick] = CHAINS | NESTS | LISTS | LONG

SCHEMAS: dict[str, Trick] = {
    "many columns": lambda length: ", ".join(f"c{n} INT" for n in range(length // 12)),
    "columns of one name": lambda length: ", ".join(["c INT"] * (length // 7)),
    "columns of nearly one name": lambda length: ", ".join(
        f"{'C' * (n % 50)}{'c' * (50 - n % 50)} INT" for n in range(length // 57)
    ),
    "a wide struct": lambda length: f"a STRUCT<{', '.join(f'f{n}: INT' for n in range(length // 13))}>",
    "nested types": lambda length: f"a {_nest('ARRAY<', '>', 'INT')(length - 2)}",
    "nested maps": lambda length: f"a {_nest('MAP<INT, ', '>', 'INT')(length - 2)}",
    "nested structs": lambda length: f"a {_nest('STRUCT<a: ', '>', 'INT')(length - 2)}",
    "bearable nests": lambda length: ", ".join(
        f"c{n} {_nest('STRUCT<a: ', '>', 'INT')(45 * 11)}" for n in range(max(length // 510, 1))
    ),
    "opened types": lambda length: "a " + "ARRAY<" * (length // 6),
    "opened comments": lambda length: "/*" * (length // 2),
    "opened quotes": lambda length: "`" + "``" * (length // 2),
    "opened strings": lambda length: "a INT COMMENT '" + "\\'" * (length // 2),
    "comments": lambda length: "/**/" * (length // 4) + "a INT",
    "huge digits": lambda length: f"a DECIMAL({'9' * (length - 14)})",
    "a long default": lambda length: f"a INT DEFAULT {'1 + ' * (length // 4)}1",
    "a long column name": lambda length: f"{'x' * (length - 4)} INT",
}  # fmt: skip
