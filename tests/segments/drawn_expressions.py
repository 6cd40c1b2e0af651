"""Expressions of Spark SQL, drawn: conditions and values over rows with nulls and the ends of each type."""

import random
from decimal import Decimal

import pyarrow as pa

WHOLE = (0, 1, -1, 2, -7, 7, 100, -123, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), None)
TEXTS = ("", "a", "A", "ab", "b", "ä", "z", "\U0001f600", "\uffff", " a", "a ", "1", None)
ADDRESSES = (
    *("https://a.b/c/d/e/item.htm?query=1", "https://a.b/c/d/e/item.htm?query=1&channel_id=7&x=8", "channel_id=é&", ""),
    *(
        "/",
        "//",
        "a/b/",
        "/a",
        "channel_id=",
        "&channel_id=\n&",
        "\U0001f600/ä/b",
        "APPLE",
        "apple",
        "\u212aELVIN",
        "kelvin",
    ),
    *("  a/ b  ", "\t a\u00a0", "   "),
    *("\u0130", "i\u0307", "Straße", "ΑΣ", "ας", "cc", "c", "ab\r\ncd", "a%b_c", None),
)
UNITS = (
    *("year", "quarter", "month", "day", "hour", "minute", "second"),
    *("dayofmonth", "dayofweek", "dayofyear", "weekday", "weekofyear"),
)
UNITS_OF_DATES = tuple(unit for unit in UNITS if unit not in ("hour", "minute", "second"))
TIMES = ("yyyy-MM-dd", "HH:mm", "dd/MM/yyyy HH:mm:ss", "yyyyMMdd", "ss", "yyyy, MM", "HH", "(yyyy) MM")
MOMENTS = (0, -1, 1, 1_700_000_000_000_000, 1_700_000_000_999_999, 951_782_399_999_999, -62_135_596_800_000_000, None)
DOUBLES = (
    *(0.0, -0.0, 0.1, -2.5, 7.0, 5e-324, -5e-324, 1e308, -1e308, 2.0**53, 2.0**53 + 2, 2.0**63, 100.0),
    *(float("nan"), float("inf"), float("-inf"), None),
)
DATES = (0, -1, 1, 19_723, 11_016, -719_162, 2_932_896, None)
FRACTIONS = (
    "0.5",
    "-0.05",
    ".125",
    "1.",
    "0.908",
    "99999999999999999.5",
    "-0.999999999999999999",
    "999999999999999999.",
    "0.0",
    "-0.0",
    "-3.00",
)
NUMBERS = [str(one) for one in WHOLE if one is not None and abs(one) < 2**63]
WORDS = [f"'{one}'" for one in TEXTS if one is not None]
SIZES = {"v": (pa.int64(), 64), "w": (pa.int32(), 32), "s": (pa.int16(), 16), "t": (pa.int8(), 8)}
ROWS = 300


PATTERNS = (
    *("(&|^)channel_id=([^&]*)", "([a-zA-Z]+)([/:]?)", "(a|ab)(c|bcd)?x*", "^(a*)(b*)", "([^/]*)/([^/]*)"),
    *("([ä-ö]+)(b?)", "(c)|(d)", "(|a)(b+)", "(&)([^&-]*)", "([0-9]+)(&|x)"),
)
TYPES = (
    "BIGINT",
    "tinyint",
    "STRING",
    "BOOLEAN",
    "TIMESTAMP",
    "DATE",
    "DECIMAL(20, 3)",
    "DOUBLE",
    "BINARY",
    "ARRAY<INT>",
    "STRUCT<a: INT, `b c`: ARRAY<STRING>>",
    "MAP<STRING, DATE>",
    "TIMESTAMP_NTZ",
    "DECIMAL",
    "INTERVAL DAY TO SECOND",
)
LIKE = ("a%", "%channel%", "_", "%", "", "a_b%", "%\U0001f600%", "ab%cd", "%/_/%")


def given() -> pa.RecordBatch:
    draw = random.Random(5)  # noqa: S311
    columns = {
        name: pa.array([_within(draw.choice(WHOLE), bits) for _ in range(ROWS)], kind)
        for name, (kind, bits) in SIZES.items()
    }
    columns |= {name: pa.array([draw.choice(TEXTS) for _ in range(ROWS)]) for name in ("k", "other text")}
    columns |= {name: pa.array([draw.choice((True, False, None)) for _ in range(ROWS)]) for name in ("f", "g")}
    columns |= {name: pa.array([draw.choice(DOUBLES) for _ in range(ROWS)]) for name in ("d", "e")}
    columns["float"] = pa.array([draw.choice((0.5, None)) for _ in range(ROWS)], pa.float32())
    columns["m"] = pa.array([_money(draw) for _ in range(ROWS)], pa.decimal128(10, 2))
    columns["at"] = pa.array([draw.choice(MOMENTS) for _ in range(ROWS)], pa.timestamp("us", "UTC"))
    columns |= {name: pa.array([draw.choice(DATES) for _ in range(ROWS)], pa.date32()) for name in ("day", "due")}
    columns["row"] = pa.array(
        [
            draw.choice((None, {"a": draw.choice((1, None)), "b c": draw.choice(TEXTS), "in": {"d": None}}))
            for _ in range(ROWS)
        ],
        pa.struct([("a", pa.int32()), ("b c", pa.string()), ("in", pa.struct([("d", pa.decimal128(5, 1))]))]),
    )
    columns["url"] = pa.array([draw.choice(ADDRESSES) for _ in range(ROWS)])
    return pa.RecordBatch.from_pydict(columns)


def _money(draw: random.Random) -> Decimal | None:
    return draw.choice((None, Decimal("0.00"), Decimal("99999999.99"), Decimal("-0.01"), Decimal("-99999999.99")))


def _within(value: int | None, bits: int) -> int | None:
    return value if value is None or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else 3


def whole(draw: random.Random, depth: int) -> str:
    kind = draw.randrange(6 if depth else 2)
    if kind == 0:
        return draw.choice([*SIZES, "V", "`w`"])
    if kind == 1:
        return draw.choice(NUMBERS)
    left = whole(draw, depth - 1)
    if kind == 2:
        return f"({left}) {draw.choice('&|^')} ({whole(draw, depth - 1)})"
    return f"~({left})" if kind == 3 else f"({left}) % {draw.choice((1, 2, 7, 123, 2**31, 2**63 - 1))}"


def text(draw: random.Random) -> str:
    return draw.choice(["k", "`other text`", *WORDS])


def number(draw: random.Random, depth: int) -> str:
    """A number, mostly with digits behind the point."""
    if not depth:
        return draw.choice(("m", "m", *FRACTIONS, *SIZES, "7"))
    left, right = number(draw, depth - 1), number(draw, depth - 1)
    made = [f"({left}) {sign} ({right})" for sign in "+-*"]
    made += [f"CAST({left} AS DECIMAL({draw.choice(('38,6', '30,4', '22, 3', '12,2'))}))", whole(draw, depth)]
    made += [f"coalesce(m, {draw.choice(('m', '0.00'))})", f"CAST({left} AS {draw.choice(('BIGINT', 'INT'))})"]
    made += [f"CASE WHEN {condition(draw, 0)} THEN m * {right} END"]
    made += [f"CASE WHEN {condition(draw, 0)} THEN {left} ELSE NULL END", f"if({condition(draw, 0)}, NULL, {left})"]
    return draw.choice(made)


def double(draw: random.Random, depth: int) -> str:
    """A number of type DOUBLE."""
    if not depth:
        return draw.choice(("d", "d", "e", "D", f"CAST({whole(draw, 1)} AS DOUBLE)"))
    left, right = double(draw, depth - 1), beside_double(draw, depth - 1)
    made = [f"({left}) {sign} ({right})" for sign in "+-*"] + [f"({right}) {sign} ({left})" for sign in "+-*"]
    made += [f"coalesce({left}, {right})", f"if({condition(draw, 0)}, {right}, {left})", f"-({left})", f"abs({left})"]
    made += [f"({left}) / {draw.choice((3, -7, 0.1, 2**53 + 1))}", f"{whole(draw, 1)} / {draw.choice((3, -7, 100))}"]
    made += [f"CASE WHEN {condition(draw, 0)} THEN {left} WHEN {condition(draw, 0)} THEN NULL ELSE {right} END"]
    return draw.choice(made)


def beside_double(draw: random.Random, depth: int) -> str:
    """What Spark takes as a DOUBLE beside one."""
    return draw.choice((double(draw, depth), double(draw, 0), whole(draw, 1), draw.choice(FRACTIONS)))


def date(draw: random.Random) -> str:
    written = ("DATE '2024-01-01'", "DATE '1970-01-01'", "CAST('2000-02-29' AS DATE)")
    column = draw.choice(("day", "due", "at"))
    moved = f"date_{draw.choice(('add', 'sub'))}({column}, {draw.choice((0, 1, -1, 30, 366, -100_000))})"
    began = f"trunc({column}, '{draw.choice(('year', 'YY', 'quarter', 'month', 'Mon', 'MM', 'week'))}')"
    dates = ("day", "due", "to_date(at)", "CAST(at AS DATE)", "date(at)", "coalesce(day, due)", *written)
    return draw.choice((*dates, moved, began, f"last_day({column})"))


def words(draw: random.Random, depth: int) -> str:
    """A text, mostly computed."""
    if not depth:
        return draw.choice(("k", "url", "url", "'c'", "'channel_id'", "''"))
    left, right = words(draw, depth - 1), words(draw, depth - 1)
    made = [
        f"replace({left}, '{draw.choice(('c', '/', 'channel', 'ä'))}', '{draw.choice(('', 'x', 'ää'))}')",
        f"replace({left}, 'a')",
        f"get(split({left}, '{draw.choice(('/', 'a', '//', '&'))}'), {draw.randrange(5)})",
        f"regexp_extract({left}, '{draw.choice(PATTERNS)}', {draw.randrange(3)})",
        f"regexp_extract({left}, '([a-z]+)')",
        f"regexp_replace({left}, '{draw.choice(PATTERNS)}', '{draw.choice(('', 'x', 'ää', '/'))}')",
        f"translate({left}, '{draw.choice(('a', 'abc', '/&', 'aa', 'éa', 'ch'))}', '{draw.choice(('', 'x', 'xyz'))}')",
        f"concat({left}, {right}, 'x')",
        f"{left} || {right}",
        f"coalesce({left}, {right})",
        f"if({condition(draw, 1)}, {left}, {right})",
        f"CASE WHEN {condition(draw, 1)} THEN {left} WHEN {condition(draw, 1)} THEN 'second' ELSE {right} END",
        f"CASE lower({left}) WHEN 'apple' THEN '0' WHEN 'kelvin' THEN {right} END",
        f"CASE WHEN {condition(draw, 0)} THEN NULL WHEN {condition(draw, 0)} THEN {left} ELSE {right} END",
        f"if({condition(draw, 0)}, {left}, NULL)",
        f"coalesce(NULL, {left}, {right})",
        f"date_format(at, '{draw.choice(TIMES)}')",
        f"CAST({whole(draw, 1)} AS STRING)",
        f"{draw.choice(('upper', 'lower', 'trim', 'ltrim', 'rtrim', 'UPPER'))}({left})",
        f"substr({left}, {draw.randrange(-9, 9)})",
        f"substring({left}, {draw.randrange(-9, 9)}, {draw.randrange(9)})",
        f"{draw.choice(('left', 'right'))}({left}, {draw.randrange(9)})",
        f"{draw.choice(('lpad', 'rpad'))}({left}, {draw.randrange(20)}, '{draw.choice((' ', 'x', 'ä'))}')",
        f"nullif({left}, {right})",
        f"{draw.choice(('ifnull', 'nvl'))}({left}, {right})",
    ]
    return draw.choice(made)


def computed(draw: random.Random) -> str:
    """A value of any kind."""
    phrase, unit = words(draw, 2), draw.choice(UNITS)
    made = [
        number(draw, 2),
        draw.choice((*NUMBERS, *WORDS, *FRACTIONS, "TRUE", "-7.25")),
        f"CAST(NULL AS {draw.choice(TYPES)})",
        f"CASE WHEN {condition(draw, 1)} THEN NULL WHEN f THEN struct(w, k).w END",
        draw.choice(("row.a", "ROW.A % 7", "row.`b c`", "row.in.d", "row.a + w % 5", "row IS NULL", "row.in IS NULL")),
        f"struct({', '.join(draw.sample(('w', 'V AS `x y`', 'k', 'm', 'at', 'row.a', 'f', 'd'), k=3))})",
        double(draw, 2),
        f"{double(draw, 1)} {draw.choice(('=', '<>', '<', '<=', '>', '>='))} {beside_double(draw, 1)}",
        f"{beside_double(draw, 1)} {draw.choice(('=', '<>', '<', '<=', '>', '>='))} {double(draw, 1)}",
        f"{double(draw, 1)} {draw.choice(('', 'NOT '))}BETWEEN {beside_double(draw, 1)} AND {beside_double(draw, 0)}",
        f"CASE {double(draw, 1)} WHEN 0 THEN 'none' WHEN 7.0 THEN 'seven' WHEN {double(draw, 0)} THEN {phrase} END",
        f"isnan({double(draw, 1)}) OR abs({number(draw, 1)}) > 1",
        f"-({number(draw, 1)})",
        phrase,
        f"{number(draw, 1)} {draw.choice(('=', '<', '>=', '<>'))} {number(draw, 1)}",
        f"{number(draw, 1)} BETWEEN {number(draw, 0)} AND {number(draw, 0)}",
        f"length({phrase}) - length({words(draw, 1)})",
        f"length({phrase}) * {unit}(at)",
        f"CASE WHEN {unit}(at) BETWEEN 8 AND 18 THEN 'day' WHEN {unit}(at) <= 6 THEN 'night' ELSE {phrase} END",
        f"{phrase} {draw.choice(('=', '<', '>'))} {words(draw, 1)}",
        f"{phrase} {draw.choice(('', 'NOT '))}LIKE '{draw.choice(LIKE)}'",
        f"lower({phrase}) IN ('apple', 'kelvin', 'i')",
        f"lower({phrase}) {draw.choice(('=', '<', '>='))} upper({words(draw, 1)})",
        f"{draw.choice(('contains', 'startswith', 'endswith', 'instr'))}({phrase}, {draw.choice(WORDS)})",
        f"{draw.choice(('greatest', 'least'))}({whole(draw, 1)}, {whole(draw, 1)}, {draw.choice(('row.a', 'v'))})",
        f"nullif({number(draw, 1)}, {number(draw, 0)})",
        f"{draw.choice(UNITS_OF_DATES)}({date(draw)})",
        f"abs({whole(draw, 1)}) + length({phrase})",
        f"lower({phrase}) {draw.choice(('=', '<>'))} 'kelvin'",
        f"{number(draw, 1)} NOT BETWEEN {number(draw, 0)} AND {number(draw, 0)}",
        f"lower({phrase}) NOT IN ('apple', 'kelvin')",
        f"{date(draw)} {draw.choice(('=', '<>', '<', '<=', '>', '>='))} {date(draw)}",
        f"{date(draw)} {draw.choice(('', 'NOT '))}BETWEEN {date(draw)} AND {date(draw)}",
        f"CASE WHEN {condition(draw, 1)} THEN {date(draw)} WHEN {date(draw)} > {date(draw)} THEN due END",
        f"at {draw.choice(('=', '<', '>='))} TIMESTAMP '{draw.choice(('1969-12-31 23:59:59', '2023-11-14 22:13:20'))}'",
        f"coalesce(at, at) {draw.choice(('=', '<='))} at",
        f"unix_{draw.choice(('seconds', 'millis', 'micros'))}(at)",
        f"{draw.choice(('datediff', 'date_diff'))}({date(draw)}, {draw.choice((date(draw), 'at'))})",
        f"unix_seconds(at) - unix_seconds(at) % {draw.choice((1, 10, 86400))}",
        f"CAST({unit}(at) * 3 + 1 AS {draw.choice(('BIGINT', 'INT', 'DECIMAL(12,1)', 'STRING'))})",
    ]
    return draw.choice(made)


def sums(draw: random.Random, depth: int) -> str:
    """A whole number that may be too large for its type."""
    if not depth:
        return draw.choice((*SIZES, *SIZES, draw.choice(NUMBERS), "length(url)", "unix_micros(at)"))
    left, right = sums(draw, depth - 1), sums(draw, draw.randrange(depth))
    made = [f"({left}) {sign} ({right})" for sign in ("+", "-", "*", "div", "%", "&", "|", "^")]
    made += [
        f"-({left})",
        f"~({left})",
        f"abs({left})",
        f"pmod({left}, {draw.choice((1, 8, 2**40))})",
        f"({left}) div 7",
    ]
    made.append(f"CAST({left} AS {draw.choice(('TINYINT', 'SMALLINT', 'INT', 'BIGINT'))})")
    return draw.choice(made)


def moment(draw: random.Random, depth: int) -> str:
    """A moment that may lie beyond all."""
    if not depth:
        return draw.choice(("at", "at", "coalesce(at, TIMESTAMP '2024-01-31 08:00:00')"))
    inner, span = (
        moment(draw, depth - 1),
        f"{draw.choice((1, 90, -5))} {draw.choice(('SECOND', 'MINUTES', 'HOUR', 'DAYS'))}",
    )
    unit = draw.choice(("second", "MINUTE", "HOUR", "Day", "WEEK", "month", "QUARTER", "year"))
    made = (f"date_trunc('{unit}', {inner})", f"{inner} + INTERVAL {span}", f"{inner} - INTERVAL '{span}'")
    return draw.choice((*made, f"INTERVAL {span} + {inner}"))


def failing(draw: random.Random) -> str:
    """A value of any kind that some rows may fail on."""
    left, right = sums(draw, 2), sums(draw, 1)
    sign, column = draw.choice(("=", "<>", "<", ">=")), draw.choice(("f", "k = 'a'", "v IS NULL"))
    made = [
        left,
        left,
        f"({left}) / ({right})",
        f"{double(draw, 1)} / ({beside_double(draw, 1)})",
        f"({left}) {sign} ({right})",
        f"({left}) {sign} ({right}) AND {column}",
        f"NOT (({left}) {sign} ({right}) OR {column})",
        f"({left}) BETWEEN {draw.choice(NUMBERS)} AND v",
        f"({left}) {draw.choice(('', 'NOT '))}IN (1, 2, 3)",
        f"({left}) IS NULL",
        f"CAST({left} AS STRING) || k",
        f"({left}) * 0.5 {sign} m",
        f"({left}) + d",
        moment(draw, 2),
        f"{moment(draw, 1)} {sign} {moment(draw, 1)}",
        f"unix_seconds({moment(draw, 1)}) + ({right})",
        f"date_format({moment(draw, 1)}, 'yyyy-MM-dd HH:mm:ss')",
    ]
    return draw.choice(made)


def guarded(draw: random.Random) -> str:
    """A value of which some rows fail on a part, though not those for which another part is chosen."""
    number, divisor = draw.choice(("v", "w", "10", f"({sums(draw, 1)})")), draw.choice(("w", "v", "(s - 3)"))
    sign, depth = draw.choice(("/", "div", "%")), draw.choice((0, 1))
    divided = f"{number} {sign} {divisor}"
    other = draw.choice(("d", "NULL") if sign == "/" else ("0", "NULL", "t", f"({sums(draw, 1)})"))
    return draw.choice(
        (
            f"CASE WHEN {divisor} <> 0 THEN {divided} ELSE {other} END",
            f"CASE WHEN {divisor} = 0 THEN {other} WHEN {condition(draw, depth)} THEN {divided} END",
            f"CASE w WHEN 0 THEN {other} WHEN {draw.choice(NUMBERS)} THEN {divided} ELSE {divided} END",
            f"if({condition(draw, depth)}, {divided}, {other})",
            f"if({divisor} <> 0, if({condition(draw, depth)}, {divided}, {other}), {other}) IS NULL",
            f"1 + CASE WHEN {condition(draw, depth)} THEN {divided} ELSE {divided} END",
            f"{number} {sign} nullif({divisor}, 0)",
        )
    )


def condition(draw: random.Random, depth: int) -> str:
    def below() -> str:
        return f"({condition(draw, depth - 1)})"

    sign = draw.choice(("=", "<>", "!=", "<", "<=", ">", ">=", "=="))
    numbers, words = ", ".join(draw.sample(NUMBERS, 3)), ", ".join(draw.sample(WORDS, 3))
    column, negated = draw.choice(["k", "v", "d", "f"]), draw.choice(("", "NOT "))
    made = [
        f"{whole(draw, 2)} {sign} {whole(draw, 2)}",
        f"{text(draw)} {sign} {text(draw)}",
        draw.choice(("f", "g")),
        f"f {draw.choice(('=', '<>'))} g",
        f"{column} IS {negated}NULL",
        f"{whole(draw, 1)} {negated}IN ({numbers})",
        f"k {negated}IN ({words})",
        f"{text(draw)} {negated}{draw.choice(('RLIKE', 'REGEXP'))} '{draw.choice(PATTERNS)}'",
        f"{draw.choice(('rlike', 'regexp', 'regexp_like'))}({text(draw)}, '{draw.choice(PATTERNS)}')",
        f"{whole(draw, 1)} {negated}BETWEEN {whole(draw, 1)} AND {whole(draw, 1)}",
    ]
    if depth:
        made += [f"{below()} AND {below()}", f"{below()} OR {below()}", f"NOT {below()}"] * 2
    return draw.choice(made)
