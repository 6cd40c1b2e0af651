"""Spark's builtin functions without their types: which exist, which aggregate, which can't be replayed.

The list is Spark's own (`spark_functions.txt`), so a name is refused exactly if Spark would refuse it. Must not know
types.
"""

from functools import cache
from importlib.resources import files

SCALAR, AGGREGATE, WINDOW, GENERATOR, TABLE = "scalar", "aggregate", "window", "generator", "table"

_CHANCE = "draws by chance; use a hash of columns that name the row, like xxhash64(id)"
CLOCK = "reads the clock; use the event time column"
_WHO = "tells who runs the app; write the value as a literal"
_PROCESSING = "tells where the row is processed; take a column that came with the row"
_JAVA = "calls Java code Holdfast can't look into; use a Python function in an apply step"

UNREPEATABLE = {
    **dict.fromkeys(("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"), _CHANCE),
    **dict.fromkeys(
        ("now", "curdate", "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"), CLOCK
    ),
    **dict.fromkeys(("current_user", "session_user", "user"), _WHO),
    **dict.fromkeys(
        (
            "input_file_block_length", "input_file_block_start", "input_file_name", "monotonically_increasing_id",
            "spark_partition_id",
        ),
        _PROCESSING,
    ),
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), _JAVA),
    "version": "tells the version of Spark, which an upgrade changes; write the value as a literal",
}  # fmt: skip
"""Functions that give another result on replay, with the reason and what to use. Includes functions that Spark calls
deterministic because they are constant during one query (the clock): on replay of a batch they are not."""

CLOCK_WITHOUT_ARGUMENTS = "unix_timestamp"
CLOCK_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})
CLOCK_LITERAL = f"{CLOCK} or a date like DATE '2026-01-31'"
RANDOM_START = "encrypts with a start value drawn by chance; give the mode, padding and start value yourself"

WITHOUT_BRACKETS = frozenset(
    {
        "current_date", "current_time", "current_timestamp", "current_user", "localtime", "localtimestamp",
        "session_user", "user",
    }
)  # fmt: skip
"""Functions that Spark calls for a name without brackets, if there is no such column."""

ELSEWHERE = {
    "window": "windows are made by an aggregate step; write window: 1m there",
    "session_window": "windows are made by an aggregate step; write window: 1m there",
    "window_time": "windows are made by an aggregate step, whose window columns are there by name",
    "measure": "it belongs to metric views; write the aggregate itself",
    "grouping": "it belongs to ROLLUP and CUBE, which streams do not have",
    "grouping_id": "it belongs to ROLLUP and CUBE, which streams do not have",
}
"""Functions that exist but have no meaning in a step, with what to use."""


_PARTS = "use a process step, or avg, min and max"
_PAIRS = "compute it from sums and counts, as in sum(x * y) - sum(x) * sum(y) / count(*)"
_POWERS = "compute it from sums of powers, as in sum(x), sum(x * x) and sum(x * x * x)"
_SKETCH = "use approx_count_distinct(x), or count by value in an aggregate step whose by names it"
_BITS = "use bool_or, bool_and or count_if of each bit, as in bool_or(flags & 4 != 0)"
_ELEMENTS = "aggregate each place by itself, as in sum(v[0]) AS v0"

NOT_MERGEABLE = {
    **dict.fromkeys(
        (
            "approx_percentile", "median", "mode", "percentile", "percentile_approx", "percentile_cont",
            "percentile_disc", *(f"kll_{part}_{kind}" for part in ("merge_agg", "sketch_agg")
            for kind in ("bigint", "double", "float")),
        ),
        _PARTS,
    ),
    **dict.fromkeys(
        (
            "corr", "covar_pop", "covar_samp", "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy",
            "regr_syy",
        ),
        _PAIRS,
    ),
    "regr_avgx": "write avg(x) FILTER (WHERE y IS NOT NULL)",
    "regr_avgy": "write avg(y) FILTER (WHERE x IS NOT NULL)",
    "regr_count": "write count(y, x)",
    **dict.fromkeys(("kurtosis", "skewness"), _POWERS),
    **dict.fromkeys(
        (
            "approx_top_k", "approx_top_k_accumulate", "approx_top_k_combine", "bitmap_and_agg",
            "bitmap_construct_agg", "bitmap_or_agg", "count_min_sketch", "histogram_numeric", "hll_sketch_agg",
            "hll_union_agg", "theta_intersection_agg", "theta_sketch_agg", "theta_union_agg",
            *(f"tuple_{part}_agg_{kind}" for part in ("intersection", "sketch", "union")
            for kind in ("double", "integer")),
        ),
        _SKETCH,
    ),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _BITS),
    **dict.fromkeys(("listagg", "string_agg"), "write array_join(collect_list(x), ',')"),
    **dict.fromkeys(("vector_avg", "vector_sum"), _ELEMENTS),
    "collect_union": "write array_distinct(flatten(collect_list(x)))",
    "schema_of_variant_agg": "write collect_set(schema_of_variant(x))",
}  # fmt: skip
"""Aggregate functions without a form that merges partial results, with what to use."""


UNIT_FIRST = frozenset({"date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff"})
"""Functions whose first of three arguments is a unit of time, which looks like a column."""


@cache
def kinds() -> dict[str, str]:
    """Return builtin function of Spark -> kind: scalar, aggregate, window, generator or table."""
    text = (files("holdfast.planning.sql") / "spark_functions.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {line[0]: line[1] for line in lines}
