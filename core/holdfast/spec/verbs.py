"""The verbs: what holds for every step that has one, in one table.

Whoever asks what kind of step it is asks here, so that a new verb is a row of this table. Must not know the fields of
a verb: `steps` has them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "filter", "select", "merge", "apply", "process", "deduplicate", "aggregate", "join", "lookup", "repartition",
    "broadcast", "to", "toTable",
]  # fmt: skip
"""As written in files."""


@dataclass(frozen=True, slots=True)
class VerbTraits:
    """What holds for all steps with a verb."""

    runs: Literal["SparkSql", "Python", "Sink", "Union"]
    """Where its rows are made: by expressions of Spark SQL, by Python, by leaving the task, or by lying together."""
    keeps: Literal["Nothing", "State", "Table"] = "Nothing"
    """Between batches: state under the name of its step, or what belongs to a table."""
    may_fail: bool = False
    """On a row, so that it has an `onError`."""
    may_be_late: bool = False
    """A row for it, so that it has a `late`."""
    asks_the_time: bool = False
    """It looks at the watermark."""
    holds_rows_back: bool = False
    """Rows of it that are due may wait for a later batch: timers that have not fired, windows that have not left, rows
    that found no partner."""
    makes_stream: bool = False
    """Its readers read a new intermediate stream."""
    runs_unread: bool = False
    """It runs though nobody reads its rows: it writes, or calls a function of the user that keeps state."""
    matches_sides: bool = False
    """Its rows with those of another input, or of a table."""
    may_follow_repartition: bool = False
    """A `repartition` behind it does the same before it, by columns that it passes on."""
    row_by_row: bool = False
    """Each of its rows is made of one row, in their order."""
    may_set_time: bool = False
    """Its rows may have another event time than those it read, so that it has an `eventTime`."""


VERBS: Mapping[Verb, VerbTraits] = {
    "filter": VerbTraits("SparkSql", may_fail=True, may_follow_repartition=True, row_by_row=True),
    "select": VerbTraits("SparkSql", may_fail=True, may_follow_repartition=True, row_by_row=True, may_set_time=True),
    "merge": VerbTraits("Union", may_follow_repartition=True),
    "apply": VerbTraits("Python", may_fail=True, row_by_row=True, may_set_time=True),
    "process": VerbTraits(
        "Python",
        "State",
        may_fail=True,
        asks_the_time=True,
        holds_rows_back=True,
        runs_unread=True,
        may_set_time=True,
    ),
    "deduplicate": VerbTraits(
        "Python", "State", may_be_late=True, asks_the_time=True, may_follow_repartition=True, row_by_row=True
    ),
    "aggregate": VerbTraits(
        "Python", "State", may_fail=True, may_be_late=True, asks_the_time=True, holds_rows_back=True
    ),
    "join": VerbTraits(
        "Python", "State", may_be_late=True, asks_the_time=True, holds_rows_back=True, matches_sides=True
    ),
    "lookup": VerbTraits("Python", "Table", matches_sides=True, row_by_row=True),
    "repartition": VerbTraits("Sink", makes_stream=True, runs_unread=True),
    "broadcast": VerbTraits("Sink", makes_stream=True, runs_unread=True),
    "to": VerbTraits("Sink", runs_unread=True, may_follow_repartition=True),
    "toTable": VerbTraits("Python", "Table", runs_unread=True, may_follow_repartition=True),
}


def verbs_that(holds: Callable[[VerbTraits], bool]) -> tuple[Verb, ...]:
    """Return the verbs whose traits are so."""
    return tuple(verb for verb, traits in VERBS.items() if holds(traits))


FAILING_VERBS = verbs_that(lambda verb: verb.may_fail)
LATE_VERBS = verbs_that(lambda verb: verb.may_be_late)
KEYED_VERBS = verbs_that(lambda verb: verb.keeps == "State")
STATEFUL_VERBS = verbs_that(lambda verb: verb.keeps != "Nothing")
SQL_VERBS = verbs_that(lambda verb: verb.runs == "SparkSql")
SINK_VERBS = verbs_that(lambda verb: verb.runs == "Sink")
STREAM_VERBS = verbs_that(lambda verb: verb.makes_stream)
TIME_SETTING_VERBS = verbs_that(lambda verb: verb.may_set_time)
TIMED_VERBS = verbs_that(lambda verb: verb.asks_the_time)
WAITING_VERBS = verbs_that(lambda verb: verb.holds_rows_back)
