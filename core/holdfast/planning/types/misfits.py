"""What does not fit between the schema of records and the columns of rows: where, of which kind, and the sentence.

Programs decide by path and kind, people read the sentence. Must not know formats.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class MisfitKind(StrEnum):
    """What is in the way."""

    TYPE = "Type"
    """A field and the column of its name, whose types don't go together."""
    NO_FIELD = "NoField"
    """A column that no field has."""
    NO_COLUMN = "NoColumn"
    """A field that no column has, and that must be written."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field or a column that does not fit."""

    path: str
    """Where it is, e.g. `user.name`."""
    why: str
    kind: MisfitKind = MisfitKind.TYPE

    def __str__(self) -> str:
        """How messages say it."""
        return self.why


def listed_misfits(misfits: Iterable[Misfit]) -> str:
    """Return the sentences of misfits in one line."""
    return "; ".join(map(str, misfits))
