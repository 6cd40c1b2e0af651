"""The result types of Spark's functions, as Spark 4.3 gives them with ANSI mode on.

Only functions in the golden corpus (`tests/planning/sql/spark_types.json`, made by Spark itself) may have a rule here;
every other function has an unknown type. Must not check arguments: a call that Spark refuses may get any type.
"""

from collections.abc import Sequence

from holdfast.planning.types import collection_types
from holdfast.planning.types.collection_types import Call, TypingRule
from holdfast.planning.types.ddl import parse_type
from holdfast.planning.types.spark_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FRACTIONAL,
    INT,
    INTEGRAL,
    MAX_PRECISION,
    STRING,
    SparkType,
    array,
    decimal,
    is_number,
    widest,
)

_FIXED = {
    "ARRAY<STRING>": "json_object_keys regexp_extract_all split",
    "BIGINT": """approx_count_distinct array_position bigint count count_if crc32 factorial regr_count
        to_unix_timestamp unix_micros unix_millis unix_seconds unix_timestamp width_bucket xxhash64""",
    "BINARY": "binary encode to_binary unbase64 unhex",
    "BOOLEAN": """any array_contains arrays_overlap bool_and bool_or boolean contains endswith equal_null every exists
        forall ilike isnan isnotnull isnull like luhn_check map_contains_key regexp regexp_like rlike some
        startswith""",
    "DATE": "add_months date date_from_unix_date date_sub last_day make_date next_day to_date trunc try_to_date",
    "DECIMAL(10,0)": "decimal",
    "DOUBLE": """acos acosh asin asinh atan atan2 atanh cbrt corr cos cosh cot covar_pop covar_samp csc degrees double
        e exp expm1 hypot kurtosis ln log log10 log1p log2 months_between pi pow power radians regr_intercept
        regr_r2 regr_slope regr_sxx regr_sxy regr_syy rint sec sign signum sin sinh skewness sqrt std
        stddev stddev_pop stddev_samp tan tanh var_pop var_samp variance""",
    "FLOAT": "float",
    "INT": """array_size ascii bit_count bit_length cardinality char_length character_length day dayofmonth dayofweek
        dayofyear find_in_set hash hour instr int json_array_length len length levenshtein locate minute month
        octet_length position quarter regexp_count regexp_instr second size unix_date weekday weekofyear year""",
    "INTERVAL": "make_interval",
    "INTERVAL DAY TO SECOND": "make_dt_interval",
    "INTERVAL YEAR TO MONTH": "make_ym_interval",
    "SMALLINT": "smallint",
    "STRING": """array_join base64 bin btrim char chr concat_ws conv date_format dayname format_number format_string
        from_unixtime get_json_object hex initcap lcase lower ltrim mask md5 monthname parse_url printf quote
        regexp_extract regexp_replace regexp_substr repeat replace right rtrim schema_of_json sha sha1 sha2 soundex
        space split_part string substring_index to_char to_json to_varchar translate trim typeof ucase upper
        url_decode url_encode""",
    "TIMESTAMP": """date_trunc from_utc_timestamp make_timestamp timestamp timestamp_micros timestamp_millis
        timestamp_seconds to_timestamp to_timestamp_ltz to_utc_timestamp try_to_timestamp""",
    "TIMESTAMP_NTZ": "convert_timezone make_timestamp_ntz to_timestamp_ntz",
    "TINYINT": "bit_get getbit tinyint",
}

_LIKE_FIRST = "any_value first first_value last last_value max min mode nullif nullifzero"
_LIKE_FIRST_NUMBER = "abs bit_and bit_or bit_xor negative positive"
_LIKE_FIRST_TEXT = "listagg lpad overlay rpad string_agg"
_WIDEST = "coalesce greatest ifnull least nvl"
PAIR, CHOICE = 2, 3


def _like_first(call: Call) -> SparkType | None:
    return call.kind(0)


def _at_extreme(call: Call) -> SparkType | None:
    """max_by(x, y) returns the x of the largest y; with a number as third argument, an array of that many."""
    return call.kind(0) if len(call.kinds) == PAIR else None


def _like_first_number(call: Call) -> SparkType | None:
    return call.kind(0) if is_number(call.kind(0)) else None


def _like_first_text(call: Call) -> SparkType | None:
    return STRING if call.kind(0) == STRING else None


def _reversed(call: Call) -> SparkType | None:
    kind = call.kind(0)
    return kind if kind is not None and (kind == STRING or kind.word == "ARRAY") else None


def _widest(call: Call) -> SparkType | None:
    return widest(call.kinds) if call.kinds else None


def _chosen(call: Call) -> SparkType | None:
    return widest(call.kinds[1:]) if len(call.kinds) == CHOICE else None


def concatenated(kinds: Sequence[SparkType | None]) -> SparkType | None:
    """The type of `concat` and `||`: bytes or arrays of one type keep it; with any string it is a string."""
    words = {kind.word if kind else "" for kind in kinds}
    if len(words) == 1 and words <= {"ARRAY", "BINARY"}:
        return widest(kinds)
    plain = {STRING, BOOLEAN, DATE, *INTEGRAL, *FRACTIONAL}
    return STRING if kinds and plain.issuperset(kinds) else None


def _summed(call: Call) -> SparkType | None:
    kind = call.kind(0)
    if kind in INTEGRAL:
        return BIGINT
    if kind is not None and kind.word == "DECIMAL":
        return SparkType("DECIMAL", digits=(min(kind.digits[0] + 10, MAX_PRECISION), kind.digits[1]))
    return DOUBLE if kind in FRACTIONAL else None


def _averaged(kind: SparkType | None) -> SparkType | None:
    if kind is not None and kind.word == "DECIMAL":
        precision, scale = kind.digits
        return SparkType("DECIMAL", digits=(min(precision + 4, MAX_PRECISION), min(scale + 4, MAX_PRECISION)))
    return DOUBLE if is_number(kind) else None


def _percentile(call: Call) -> SparkType | None:
    part = call.kind(1)
    if not is_number(call.kind(0)) or part is None:
        return None
    return array(DOUBLE) if part.word == "ARRAY" else DOUBLE if is_number(part) else None


def _approximate_percentile(call: Call) -> SparkType | None:
    kind, part = call.kind(0), call.kind(1)
    if kind is None or part is None:
        return None
    return array(kind) if part.word == "ARRAY" else kind if is_number(part) else None


def _median(call: Call) -> SparkType | None:
    return DOUBLE if is_number(call.kind(0)) else None


def _whole(call: Call) -> SparkType | None:
    kind = call.kind(0)
    if kind is None or len(call.kinds) > 1 or not is_number(kind):
        return None
    if kind.word != "DECIMAL":
        return BIGINT
    precision, scale = kind.digits
    return decimal(precision - scale + 1, 0) if scale else kind


def _rounded(call: Call) -> SparkType | None:
    kind, decimals = call.kind(0), call.whole_number(1) if len(call.kinds) > 1 else 0
    if kind is None or decimals is None or not is_number(kind):
        return None
    if kind.word != "DECIMAL":
        return kind
    precision, scale = kind.digits
    return decimal(precision - scale + min(decimals, scale) + 1, min(decimals, scale))


def _substring(call: Call) -> SparkType | None:
    kind = call.kind(0)
    return kind if kind in (STRING, BINARY) else STRING if is_number(kind) else None


def _shifted(call: Call) -> SparkType | None:
    kind = call.kind(0)
    return kind if kind in (INT, BIGINT) else None


def _date_part(call: Call) -> SparkType | None:
    part = call.text(0)
    return taken_part(part, call.kind(1)) if part else None


def taken_part(part: str, kind: SparkType | None) -> SparkType | None:
    """The type of `extract(part FROM ...)`."""
    if kind is None or kind.word not in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return None
    return decimal(8, 6) if part.upper() in ("SECOND", "SECONDS", "SEC", "S") else INT


def _later(call: Call) -> SparkType | None:
    """date_add(day, days) returns a DATE; with a unit as first argument the type depends on unit and operand."""
    return {2: DATE}.get(len(call.kinds))


def _apart(call: Call) -> SparkType | None:
    """datediff(one, other) returns days as an INT, datediff(unit, one, other) returns units as a BIGINT."""
    return {2: INT, 3: BIGINT}.get(len(call.kinds))


RULES: dict[str, TypingRule] = {
    **collection_types.RULES,
    **dict.fromkeys(_LIKE_FIRST.split(), _like_first),
    **dict.fromkeys(_LIKE_FIRST_NUMBER.split(), _like_first_number),
    **dict.fromkeys(_LIKE_FIRST_TEXT.split(), _like_first_text),
    **dict.fromkeys(_WIDEST.split(), _widest),
    **dict.fromkeys(("max_by", "min_by"), _at_extreme),
    **dict.fromkeys(("if", "nvl2"), _chosen),
    **dict.fromkeys(("sum", "try_sum"), _summed),
    **dict.fromkeys(("avg", "mean", "regr_avgy", "try_avg"), lambda call: _averaged(call.kind(0))),
    "regr_avgx": lambda call: _averaged(call.kind(1)),
    **dict.fromkeys(("ceil", "ceiling", "floor"), _whole),
    **dict.fromkeys(("round", "bround"), _rounded),
    **dict.fromkeys(("left", "substr", "substring"), _substring),
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), _shifted),
    **dict.fromkeys(("date_part", "datepart"), _date_part),
    **dict.fromkeys(("date_add", "dateadd"), _later),
    **dict.fromkeys(("date_diff", "datediff", "timestampdiff"), _apart),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), _approximate_percentile),
    "concat": lambda call: concatenated(call.kinds),
    "median": _median,
    "percentile": _percentile,
    "reverse": _reversed,
}

FIXED: dict[str, SparkType] = {
    name: kind for text, names in _FIXED.items() if (kind := parse_type(text)) for name in names.split()
}

TYPED = frozenset((*RULES, *FIXED))


def result(name: str, call: Call) -> SparkType | None:
    """Return the result type of a call; None if unknown."""
    fixed = FIXED.get(name)
    # Most functions pass the collation of a string on, in ways not worth modelling.
    if any(kind is not None and kind.word.startswith(("STRING ", "CHAR", "VARCHAR")) for kind in call.kinds):
        return None if fixed is None or "STRING" in str(fixed) else fixed
    if fixed is not None:
        return fixed
    rule = RULES.get(name)
    return rule(call) if rule else None
