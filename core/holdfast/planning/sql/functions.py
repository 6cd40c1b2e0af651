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
_WHERE = "tells where the row is processed; take a column that came with the row"
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
        _WHERE,
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


UNIT_FIRST = frozenset({"date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff"})
"""Functions whose first of three arguments is a unit of time, which looks like a column."""


@cache
def kinds() -> dict[str, str]:
    """Return builtin function of Spark -> kind: scalar, aggregate, window, generator or table."""
    text = (files("holdfast.planning.sql") / "spark_functions.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {line[0]: line[1] for line in lines}
