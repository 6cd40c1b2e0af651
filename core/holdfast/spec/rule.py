"""What a rule is: one sentence over a StreamApp, written as CEL for the API server and as a function for files.

Both must give one verdict. Must not look at anything but the one object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.spec.cel import Offenders
from holdfast.spec.rule_checks import Broken, FieldPath


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence over one kind of object."""

    at: FieldPath
    """Fields from `spec` down to the object; `*` stands for each item of a list."""
    message: str
    """The sentence, as the API server prints it."""
    cel: str | None
    """The rule for the API server; None where its schema says it already (unique names)."""
    broken: Callable[[object], Iterator[Broken]]
    """The rule for files."""
    offenders: tuple[Offenders, ...] = ()
    """For a rule over the whole spec: what the API server adds to the sentence, the first of these that there are."""
