"""Lines of a CSV file for `holdfast feed`: made JSON lines, and then records as those are.

Needs the extra `runtime`. Must not know how rows are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast_cli.local.feed import BadLineError, LineFormat, ParsedLines
from holdfast_runtime.inspection.csv_rows import CsvColumns, CsvNamesError, CsvRows

ENDING = ".csv"


@dataclass(slots=True)
class CsvLines:
    """The lines of one file, read from its first on."""

    lines: LineFormat
    columns: CsvColumns
    rows: CsvRows | None = field(default=None, init=False)
    """What reads rows, when the names are known."""

    def parse(self, lines: Sequence[bytes], first: int) -> ParsedLines:
        """Return the records of these lines, numbered from `first`; blank lines are skipped."""
        lines = [line.rstrip(b"\r") for line in lines]
        if self.rows is None:
            at = next((at for at, line in enumerate(lines) if line.strip()), None)
            if at is None:
                return self.lines.parse([], first)
            try:
                self.rows = self.columns.rows(lines[at])
            except CsvNamesError as error:
                return self._stopped([], first, BadLineError(first + at, str(error)))
            lines, first = lines[at + 1 :], first + at + 1
        objects, reason = self.rows.objects(lines)
        if reason is None:
            return self.lines.parse(objects, first)
        return self._stopped(objects, first, BadLineError(first + len(objects), reason))

    def _stopped(self, objects: Sequence[bytes], first: int, bad: BadLineError) -> ParsedLines:
        """Return the records before a line that is none, unless one of them is none already."""
        parsed = self.lines.parse(objects, first)
        return parsed if parsed.bad is not None else ParsedLines(parsed.values, parsed.keys, bad)
