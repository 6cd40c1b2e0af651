"""Why: what a plan finds wrong, as values: a reason, the place, the numbers, how they came about, and the way out.

A warning has the same shape; which of the two it is decides the list it stands in. Must not print.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.planning.flow import MOST_LETTERS, MOST_PROBLEMS
from holdfast.planning.problems import Repair
from holdfast.reasons import Reason


@dataclass(frozen=True, slots=True)
class StreamCount:
    """A stream of a set with its count, and how the count came about."""

    name: str
    partitions: int
    how: str


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a plan, or (as a warning) worth knowing."""

    reason: Reason
    message: str
    step: str | None = None
    """The step it was found at."""
    stream: str | None = None
    """Or the stream or table."""
    streams: tuple[StreamCount, ...] = ()
    """The streams of the step's set, sorted by name."""
    paths: tuple[tuple[str, ...], ...] = ()
    """How each of these streams reaches the step: names from the stream on, tables as `table T`."""
    repair: Repair | None = None

    @property
    def order(self) -> tuple[str, str, str, str]:
        """By place, then reason: never by the order of a file."""
        return (self.step or "", self.stream or "", self.reason.value, self.message)


def shown_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """In their order, as they may be shown: so many, and each a sentence that ends and does nothing to a terminal."""
    ordered = sorted(problems, key=lambda problem: problem.order)
    shown = [replace(problem, message=_shown(problem.message)) for problem in ordered[:MOST_PROBLEMS]]
    if len(ordered) > MOST_PROBLEMS:
        last = ordered[MOST_PROBLEMS]
        message = f"and {len(ordered) - MOST_PROBLEMS} more like these; they are told when these are mended"
        shown.append(Problem(last.reason, message, step=last.step, stream=last.stream))
    return tuple(shown)


def _shown(message: str) -> str:
    short = message if len(message) <= MOST_LETTERS else f"{message[:MOST_LETTERS]}..."
    return short if short.isprintable() else "".join(x if _harmless(x) else " " for x in short)


def _harmless(letter: str) -> bool:
    """Half of a pair of surrogates is no letter either, but whoever prints or sends it escapes it."""
    return letter.isprintable() or letter == "\n" or "\ud800" <= letter <= "\udfff"
